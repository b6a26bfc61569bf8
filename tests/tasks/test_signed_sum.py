"""Sums of several terms: answers, splits, what the trainer sees, and the cache's spec."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.models import ModelConfig, SmallTransformer
from helpers.runs import Run, train_all
from helpers.tasks.addition import ModularAddition
from helpers.tasks.signed_sum import SignedSum, from_spec
from helpers.training import Task, TrainConfig, train

SIGNS = st.lists(st.sampled_from((1, -1, 0)), min_size=1, max_size=3).filter(any).map(tuple)
MODEL = ModelConfig(5, 3, d_model=16, d_mlp=32)
TWO_STEPS = SignedSum(5, (1, 1, -1), 0.8)


@settings(deadline=None, max_examples=30, derandomize=True)
@given(st.sampled_from((3, 5, 7)), SIGNS)
def test_inputs_and_answers(p, signs):
    task = SignedSum(p, signs)
    assert len({tuple(row) for row in task.inputs}) == len(task.inputs) == p ** len(signs)
    for row, answer in zip(task.inputs[:50], task.answers, strict=False):
        assert answer == sum(s * int(x) for s, x in zip(signs, row, strict=True)) % p


def test_two_plain_terms_are_modular_addition_and_a_zero_sign_drops_its_token():
    plain = ModularAddition(7)
    assert np.array_equal(SignedSum(7, (1, 1)).answers, plain.answers)
    assert np.array_equal(SignedSum(7, (1, 1)).split(3)[0], plain.split(3)[0])
    assert np.array_equal(SignedSum(7, (1, 1, 0)).answers, np.repeat(plain.answers, 7))


def test_a_split_parts_all_inputs():
    train_rows, test_rows = TWO_STEPS.split(100)
    assert sorted([*train_rows, *test_rows]) == list(range(125)) and len(train_rows) == 100
    assert not np.array_equal(train_rows, TWO_STEPS.split(101)[0])


def test_a_step_lowers_the_loss_at_the_last_position():
    task, recipe = TWO_STEPS, TrainConfig(5, 100)
    assert isinstance(task, Task)
    learner = task.learner(MODEL, recipe, 100)
    tokens, answers = next(task.batches(MODEL, recipe, 100))
    assert torch.equal(answers, (tokens @ torch.tensor([1, 1, -1])) % 5)
    logits = SmallTransformer(MODEL, 100)(tokens)[:, -1]
    loss = learner.step((tokens, answers), 1e-3)
    assert float(loss) == pytest.approx(F.cross_entropy(logits, answers).item(), rel=1e-5)


def test_evaluation_is_the_accuracy_on_both_parts_and_leaves_the_learner_as_it_is():
    learner = TWO_STEPS.learner(MODEL, TrainConfig(5, 100), 100)
    before = learner.weights()
    found = TWO_STEPS.evaluate(learner)
    right = SmallTransformer(MODEL, 100)(torch.from_numpy(TWO_STEPS.inputs))[:, -1].argmax(1)
    right = right.numpy() == TWO_STEPS.answers
    for name, rows in zip(("train", "test"), TWO_STEPS.split(100), strict=True):
        assert found[f"{name}_accuracy"] == pytest.approx(right[rows].mean())
    assert learner.net.training
    assert all(torch.equal(before[name], value) for name, value in learner.weights().items())


def test_a_run_goes_on_bit_for_bit_and_comes_back_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HELPERS_CACHE", str(tmp_path))
    assert from_spec(json.loads(json.dumps(TWO_STEPS.spec()))) == TWO_STEPS
    steady = TrainConfig(8, 32, decay=False, warmup=0)
    whole = train(TWO_STEPS, MODEL, steady, 100, progress=False)
    first = Run(TWO_STEPS, MODEL, replace(steady, steps=5), 100)
    rest = Run(TWO_STEPS, MODEL, replace(steady, steps=3), 100, parent=first)
    for _ in ("trained", "from the cache"):
        (done,) = train_all([rest], n_jobs=1)
        assert done.stopped_at == 8
        assert all(torch.equal(whole.state[name], value) for name, value in done.state.items())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((6, (1, 1)), "odd prime"),
        ((5, (0, 0)), "not all 0"),
        ((5, (1, 2)), "signs are"),
        ((53, (1, 1, 1)), "take a smaller p"),
        ((5, (1, 1), 0.0), "leaves no input"),
    ],
)
def test_bad_tasks(arguments, says):
    with pytest.raises(ValueError, match=says):
        SignedSum(*arguments)


def test_a_model_of_other_sizes():
    with pytest.raises(ValueError, match="n_ctx = 3"):
        TWO_STEPS.learner(ModelConfig(5, 2, d_model=16), TrainConfig(), 100)
