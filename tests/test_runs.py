"""Many runs: the same as one by one, in the order asked for, and nothing computed twice."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from helpers import kept_runs
from helpers import runs as runs_module
from helpers.models import ModelConfig
from helpers.runs import Run, train_all, train_groups
from helpers.tasks.markov import cyclic
from helpers.training import TrainConfig, train

CHAIN = cyclic()
MODEL = ModelConfig(d_vocab=4, n_ctx=12, d_model=16, n_heads=2, d_mlp=32)
SHORT = TrainConfig(steps=12, batch_size=8, lr=1e-2, warmup=3)


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """A cache of this test's own, for work in this process."""
    monkeypatch.setenv("HELPERS_CACHE", str(tmp_path))
    return tmp_path


def same(one, two) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[k], two[k]) for k in one)


def test_parallel_equals_serial_bit_for_bit_and_keeps_the_order():
    config = replace(SHORT, dropout=0.1, keep_at=(6,))
    seeds = [3, 0, 2, 1]
    together = train_all([Run(CHAIN, MODEL, config, s) for s in seeds], n_jobs=2)
    assert [run.seed for run in together] == seeds
    for run in together:
        alone = train(CHAIN, MODEL, config, run.seed)
        assert same(run.state, alone.state)
        assert same(run.kept[6], alone.kept[6])
        np.testing.assert_array_equal(run.loss, alone.loss)


def test_a_second_call_trains_nothing_and_returns_the_same(empty_cache, monkeypatch):
    seeds, counted = [], train

    def counting(source, model, config, seed, **how):
        seeds.append(seed)
        return counted(source, model, config, seed, **how)

    monkeypatch.setattr(kept_runs, "train", counting)
    runs = [Run(CHAIN, MODEL, SHORT, seed) for seed in (0, 1)]
    first = train_all(runs, n_jobs=1)
    assert seeds == [0, 1]
    second = train_all(runs, n_jobs=1)
    assert seeds == [0, 1]
    assert all(same(a.state, b.state) for a, b in zip(first, second, strict=True))
    np.testing.assert_array_equal(first[0].loss, second[0].loss)
    train_all([*runs, Run(CHAIN, MODEL, replace(SHORT, lr=2e-2), 0)], n_jobs=1)
    assert seeds == [0, 1, 0]  # another recipe is another result


def test_an_interrupted_call_keeps_what_is_done(empty_cache, monkeypatch):
    seeds, counted = [], train

    def failing(source, model, config, seed, **how):
        if seed == 1 and 1 not in seeds:
            seeds.append(seed)
            raise KeyboardInterrupt
        seeds.append(seed)
        return counted(source, model, config, seed, **how)

    monkeypatch.setattr(kept_runs, "train", failing)
    runs = [Run(CHAIN, MODEL, SHORT, seed) for seed in (0, 1)]
    with pytest.raises(KeyboardInterrupt):
        train_all(runs, n_jobs=1)
    train_all(runs, n_jobs=1)
    assert seeds == [0, 1, 1]  # seed 0 was not trained again


def test_cores_follow_the_books_runner(monkeypatch):
    monkeypatch.setenv("BOOK_CORES", "3")
    assert runs_module.available_cores() == 3
    monkeypatch.delenv("BOOK_CORES")
    assert runs_module.available_cores() >= 1


def test_thread_count_is_as_before_after_a_run(empty_cache):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        train_all([Run(CHAIN, MODEL, SHORT, 0)], n_jobs=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_groups_come_back_under_their_names():
    groups = {
        "short": [Run(CHAIN, MODEL, SHORT, seed) for seed in (4, 5)],
        "none": [],
        "long": [Run(CHAIN, MODEL, replace(SHORT, steps=20), 6)],
    }
    done = train_groups(groups, n_jobs=1)
    assert {name: [run.seed for run in found] for name in groups for found in [done[name]]} == {
        "short": [4, 5],
        "none": [],
        "long": [6],
    }
    assert [len(run.loss) for run in done["short"] + done["long"]] == [12, 12, 20]


def test_a_group_waits_for_itself_and_not_for_later_ones(empty_cache, monkeypatch):
    started, counted = [], train

    def counting(source, model, config, seed, **how):
        started.append(seed)
        return counted(source, model, config, seed, **how)

    monkeypatch.setattr(kept_runs, "train", counting)
    one, two = ([Run(CHAIN, MODEL, SHORT, seed) for seed in seeds] for seeds in ((0, 1), (2, 3)))
    groups = train_groups({"first": one, "second": two}, n_jobs=1)
    assert [run.seed for run in groups["first"]] == [0, 1]
    assert not {2, 3} <= set(started)  # the second group is not done yet
    assert [run.seed for run in groups["second"]] == [2, 3]
    assert groups["first"][0] is groups["first"][0]  # nothing is asked for twice
    assert started == [0, 1, 2, 3]


def test_a_later_group_may_be_asked_for_first():
    groups = {name: [Run(CHAIN, MODEL, SHORT, seed)] for name, seed in (("a", 10), ("b", 11))}
    done = train_groups(groups, n_jobs=2)
    assert done["b"][0].seed == 11
    assert done["a"][0].seed == 10


def test_an_unknown_group_is_named_with_the_known_ones():
    groups = train_groups({"a": [Run(CHAIN, MODEL, SHORT, 0)]}, n_jobs=1)
    with pytest.raises(KeyError, match="no group 'z'; there are 'a'"):
        groups["z"]
    assert len(groups["a"]) == 1


def test_a_failing_run_says_what_failed(empty_cache):
    with pytest.raises(FloatingPointError, match="seed 7 diverged"):
        train_all([Run(CHAIN, MODEL, replace(SHORT, lr=1e30), 7)], n_jobs=1)
