"""Embeddings that start in given modes: where they are, what stays as it was, and the cache."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import kept_runs, more_kinds, runs
from helpers.frequencies import embedding_modes, jaccard
from helpers.models import ModelConfig, SmallTransformer
from helpers.runs import Run, train_all
from helpers.tasks.addition import ModularAddition
from helpers.tasks.chosen_modes import ChosenModes, disjoint_modes, from_spec, waves
from helpers.training import Task, TrainConfig, train

MODEL = ModelConfig(23, 2, d_model=16, d_mlp=32)
SHORT = TrainConfig(30, 64, weight_decay=0.5)
quick = settings(max_examples=15, deadline=None, derandomize=True)


def start(task, seed):
    return task.learner(replace(MODEL, d_vocab=task.p), SHORT, seed)


@quick
@given(st.sets(st.integers(1, 11), min_size=1, max_size=6), st.booleans(), st.integers(0, 99))
def test_the_embedding_starts_in_the_chosen_modes_and_nowhere_else(modes, confined, seed):
    weights = start(ChosenModes(23, tuple(sorted(modes)), confined), seed).weights()
    W_E = weights["tok_embed.weight"].double().numpy()
    F = waves(23, tuple(sorted(modes)))
    np.testing.assert_allclose(F.T @ F, np.eye(2 * len(modes) + 1), atol=1e-12)
    np.testing.assert_allclose(F @ (F.T @ W_E), W_E, atol=1e-5)
    assert embedding_modes(W_E, threshold=1e-4) == modes
    free = SmallTransformer(replace(MODEL, d_vocab=23), seed).state_dict()
    for name, value in free.items():  # all else is the free start
        if name != "tok_embed.weight":
            assert torch.equal(weights[name], value)


@pytest.mark.parametrize("confined", [False, True])
def test_rows_have_the_free_starts_size_and_every_seed_its_own_frame(confined):
    task = ChosenModes(53, (3, 9, 20), confined)
    starts = [start(task, seed).weights()["tok_embed.weight"] for seed in range(100, 140)]
    # 40 × 7 × 16 draws of variance 0.25: one standard deviation of the mean square is 2 %
    assert float(torch.stack(starts).square().mean()) == pytest.approx(0.25, rel=0.08)
    one, two = (w.double().numpy() for w in starts[:2])
    common = np.linalg.norm(one.T @ two) / np.linalg.norm(one) / np.linalg.norm(two)
    assert common < 0.75  # equal frames would give W Wᵀ, near 1 for its largest part
    assert not np.allclose(one, two)


def test_started_in_the_modes_it_may_leave_them_and_confined_it_may_not():
    outside = {}
    for confined in (False, True):
        run = train(ChosenModes(23, (2, 5), confined), MODEL, SHORT, 100, progress=False)
        W_E, F = run.state["tok_embed.weight"].double().numpy(), waves(23, (2, 5))
        outside[confined] = np.linalg.norm(W_E - F @ (F.T @ W_E)) / np.linalg.norm(W_E)
    assert outside[True] < 1e-5 < 1e-3 < outside[False]


def test_pairs_and_splits_are_those_of_the_free_task():
    task, free = ChosenModes(23, (2, 5)), ModularAddition(23)
    assert isinstance(task, Task)
    mine, theirs = (t.batches(MODEL, SHORT, 100) for t in (task, free))
    assert all(torch.equal(x, y) for x, y in zip(next(mine), next(theirs), strict=True))
    learner = start(task, 100)
    assert all(
        torch.equal(x, y) for x, y in zip(learner.split, start(free, 100).split, strict=True)
    )
    assert set(task.evaluate(learner)) == {"train_accuracy", "test_accuracy"}


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 99))
def test_disjoint_sets(n_sets, size, seed):
    sets = disjoint_modes(53, n_sets, size, np.random.default_rng(seed))
    assert len(sets) == n_sets and all(len(part) == size for part in sets)
    assert len({k for part in sets for k in part}) == n_sets * size
    assert {k for part in sets for k in part} <= set(range(1, 27))
    if n_sets > 1:
        assert jaccard(sets[0], sets[1]) == 0


def test_runs_come_back_from_the_cache_and_keys_of_older_kinds_do_not_change(tmp_path, monkeypatch):
    monkeypatch.setenv("HELPERS_CACHE", str(tmp_path))
    assert more_kinds.KINDS is kept_runs.KINDS
    task = ChosenModes(23, (2, 5))
    assert from_spec(json.loads(json.dumps(task.spec()))) == task
    run = Run(task, MODEL, SHORT, 100)
    (first,), (again,) = train_all([run], n_jobs=1), train_all([run], n_jobs=1)
    assert torch.equal(first.state["head.weight"], again.state["head.weight"])
    later = Run(task, MODEL, SHORT, 100, parent=run)
    assert train_all([later], n_jobs=1)[0].stopped_at == 60
    train_all([Run(ModularAddition(23), MODEL, replace(SHORT, steps=1), 100)], n_jobs=1)
    keys = [json.loads(p.read_text())["body"]["inputs"] for p in tmp_path.glob("*/*/manifest.json")]
    mine = "helpers.tasks.chosen_modes"
    assert [mine in key["code"] for key in keys].count(True) == 2
    for key in keys:  # neither this module nor the list of later kinds is in an older kind's key
        if mine not in key["code"]:
            assert "helpers.more_kinds" not in key["code"]


def test_worker_processes_import_the_later_kinds():
    # a worker unpickles the function by its module's name; starting one takes many seconds
    assert b"helpers.more_kinds" in pickle.dumps(runs.finish_in_worker)
    assert set(kept_runs.KINDS) >= {"chain", "addition", "chosen modes", "signed sum"}


@pytest.mark.parametrize("chosen", [(), (0, 3), (3, 12), (5, 2), (2, 2)])
def test_bad_modes(chosen):
    with pytest.raises(ValueError, match=r"ascending numbers in 1…11"):
        ChosenModes(23, chosen)


def test_too_many_disjoint_modes_and_a_bad_modulus():
    with pytest.raises(ValueError, match="there are 26"):
        disjoint_modes(53, 6, 5, np.random.default_rng(0))
    with pytest.raises(ValueError, match="odd prime"):
        ChosenModes(24, (1,))
