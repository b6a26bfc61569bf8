"""Modular addition: pairs, splits, modes, and what the trainer sees of it."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from helpers.models import ModelConfig, SmallTransformer
from helpers.tasks.addition import ModularAddition, from_spec
from helpers.training import AutogradLearner, Task, TrainConfig, train

PRIMES = st.sampled_from((3, 5, 7, 11, 13, 31, 53))
MODEL = ModelConfig(11, 2, d_model=16, d_mlp=32)


@given(PRIMES, st.integers(0, 50), st.floats(0.2, 0.8))
def test_a_split_parts_all_pairs(p, seed, share):
    task = ModularAddition(p, share)
    train_rows, test_rows = task.split(seed)
    assert sorted([*train_rows, *test_rows]) == list(range(p * p))
    assert len(train_rows) == round(share * p * p)


def test_each_seed_has_its_own_split_and_it_stays():
    task = ModularAddition(53)
    assert np.array_equal(task.split(1)[0], task.split(1)[0])
    common = len(np.intersect1d(task.split(1)[0], task.split(2)[0]))
    # two random halves of 2809 share 702; one standard deviation is 13
    assert abs(common - 53**2 / 4) < 80


@given(PRIMES)
def test_pairs_and_answers(p):
    task = ModularAddition(p)
    assert [tuple(pair) for pair in task.pairs] == [(a, b) for a in range(p) for b in range(p)]
    assert list(task.answers) == [(a + b) % p for a in range(p) for b in range(p)]


@given(PRIMES, st.data())
def test_the_basis_spans_the_modes_that_the_seed_drew(p, data):
    n = data.draw(st.integers(1, p // 2))
    seed = data.draw(st.integers(0, 20))
    task = ModularAddition(p, n_modes=n)
    B = task.basis(seed)
    np.testing.assert_allclose(B.T @ B, np.eye(2 * n + 1), atol=1e-12)
    modes = task.modes(seed)
    assert len(set(modes)) == n and modes.min() >= 1 and modes.max() <= p // 2
    for k in range(1, p // 2 + 1):
        wave = np.cos(2 * math.pi * k * np.arange(p) / p + 0.3)
        inside = np.linalg.norm(B @ (B.T @ wave)) / np.linalg.norm(wave)
        assert inside == pytest.approx(float(k in modes), abs=1e-12)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"p": 54}, "odd prime"),
        ({"p": 2}, "odd prime"),
        ({"p": -7}, "odd prime"),
        ({"p": 49}, "odd prime"),
        ({"p": 53, "train_fraction": 0.0}, "no pair to train"),
        ({"p": 53, "train_fraction": 1.0}, "no pair to test"),
        ({"p": 53, "n_modes": 27}, "26 modes"),
        ({"p": 53, "n_modes": -1}, "26 modes"),
    ],
)
def test_bad_tasks(arguments, says):
    with pytest.raises(ValueError, match=says):
        ModularAddition(**arguments)


def test_bad_models_and_recipes():
    task = ModularAddition(11)
    with pytest.raises(ValueError, match="d_vocab = 11 and n_ctx = 2"):
        task.learner(ModelConfig(12, 2, d_model=16), TrainConfig(), 0)
    with pytest.raises(ValueError, match="dropout"):
        task.learner(MODEL, TrainConfig(dropout=0.1), 0)
    with pytest.raises(ValueError, match="take at most 60"):
        task.batches(MODEL, TrainConfig(batch_size=61), 0)


@pytest.mark.parametrize("task", [ModularAddition(53), ModularAddition(31, 0.3, 4, True)])
def test_a_spec_makes_the_task_again(task):
    assert isinstance(task, Task)
    assert from_spec(task.spec()) == task


def test_batches_hold_training_pairs_and_right_answers():
    task = ModularAddition(11)
    stream = task.batches(MODEL, TrainConfig(batch_size=20), 4)
    seen = [torch.stack(next(stream), 1) for _ in range(3)]
    a, b, c = torch.cat(seen).T
    assert torch.equal(c, (a + b) % 11)
    assert sorted((a * 11 + b).tolist()) == sorted(task.split(4)[0])  # 60 pairs, three batches


def test_evaluation_is_the_plain_model_s_accuracy():
    task = ModularAddition(11)
    learner = task.learner(MODEL, TrainConfig(), 3)
    module = SmallTransformer(MODEL, 3)
    with torch.no_grad():
        right = module(torch.tensor(task.pairs))[:, -1].argmax(1).numpy() == task.answers
    train_rows, test_rows = task.split(3)
    wanted = {"train_accuracy": right[train_rows].mean(), "test_accuracy": right[test_rows].mean()}
    assert task.evaluate(learner) == pytest.approx(wanted)


def test_a_small_model_memorises_its_own_pairs():
    config = TrainConfig(120, 60, lr=1e-2, weight_decay=0.0, decay=False, eval_every=60)
    run = train(ModularAddition(11), MODEL, config, 0, progress=False)
    assert run.history["train_accuracy"][-1] == 1.0
    assert run.history["train_accuracy"][0] < 0.3


def test_confined_modes_reach_the_trained_model():
    config = TrainConfig(10, 60, lr=1e-2, decay=False)
    task = ModularAddition(11, n_modes=2)
    E = train(task, MODEL, config, 5, progress=False).state["tok_embed.weight"].numpy()
    B = task.basis(5)
    np.testing.assert_allclose(B @ (B.T @ E), E, atol=1e-6)


@pytest.mark.parametrize("keep_rows", [True, False])
def test_a_confined_embedding_keeps_its_rows_or_its_modes_size(keep_rows):
    task, free = ModularAddition(53, n_modes=6, keep_rows=keep_rows), ModularAddition(53)
    wide = ModelConfig(53, 2, d_model=256, d_mlp=8)
    E, whole = (
        t.learner(wide, TrainConfig(), 3).weights()["tok_embed.weight"] for t in (task, free)
    )
    B = torch.from_numpy(task.basis(3)).float()
    rows = float(E.square().sum() / whole.square().sum())
    modes = float((B.T @ E).square().sum() / (B.T @ whole).square().sum())
    assert (rows if keep_rows else modes) == pytest.approx(1, rel=0.1)
    assert (modes if keep_rows else rows) == pytest.approx(
        53 / 13 if keep_rows else 13 / 53, rel=0.1
    )


def test_each_seed_has_its_own_modes_and_its_own_order():
    task = ModularAddition(53, n_modes=6)
    assert len({tuple(task.modes(seed)) for seed in range(10)}) == 10
    drawn = np.concatenate([task.modes(seed) for seed in range(200)])
    counts = np.bincount(drawn, minlength=27)[1:]
    assert abs(counts - 200 * 6 / 26).max() < 30  # every mode: 46 ± 6 times
    config = TrainConfig(batch_size=task.n_train)
    wide = ModelConfig(53, 2)
    orders = []
    for seed in (1, 2):
        a, b, _ = next(task.batches(wide, config, seed))
        orders.append(np.searchsorted(task.split(seed)[0], (a * 53 + b).numpy()))
    assert (orders[0] != orders[1]).any()


RECIPE = TrainConfig(
    12, 30, 3e-2, weight_decay=2.0, betas=(0.8, 0.9), eps=1e-2, decay=False, warmup=3, clip=0.3
)


def plainly(task, config, seed):
    """The recipe on the plain module, by autograd."""
    loss = lambda net, batch: F.cross_entropy(net(torch.stack(batch[:2], 1))[:, -1], batch[2])  # noqa: E731
    learner = AutogradLearner(SmallTransformer(MODEL, seed), loss, config)
    stream = task.batches(MODEL, config, seed)
    for step in range(config.steps):
        learner.step(next(stream), config.lr * config.lr_factor(step))
    return torch.cat([value.flatten() for value in learner.weights().values()])


def test_every_setting_of_the_recipe_reaches_the_fast_step():
    task, forgotten = ModularAddition(11), TrainConfig()
    weights = train(task, MODEL, RECIPE, 3, progress=False).state
    ours = torch.cat([weights[name].flatten() for name in SmallTransformer(MODEL).state_dict()])
    torch.testing.assert_close(ours, plainly(task, RECIPE, 3), atol=1e-4, rtol=1e-4)
    for name in ("weight_decay", "betas", "eps", "clip", "lr", "warmup"):  # each of them counts
        other = plainly(task, replace(RECIPE, **{name: getattr(forgotten, name)}), 3)
        assert (ours - other).abs().max() > 1e-2, name


@pytest.mark.parametrize("norm", ["pre", "post", "none"])
@pytest.mark.parametrize("steps", [1, 20])
def test_divergence_is_named_in_the_fast_step_too(norm, steps):
    model = replace(MODEL, norm=norm)
    config = TrainConfig(steps, 30, lr=1e30, weight_decay=1e9, warmup=0, decay=False)
    with pytest.raises(FloatingPointError, match="seed 7 diverged at"):
        train(ModularAddition(11), model, config, 7, progress=False)
