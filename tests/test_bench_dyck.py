"""The benchmark of brackets compares one function on both sides, and its check can fail."""

import json

import pytest
import torch

from benchmarks import __main__, dyck
from helpers.dyck import SMALL
from helpers.dyck.training import Dyck


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("bench") / "dyck.json"
    code = dyck.main(["--repeats", "1", "--batches", "1", "--output", str(path)])
    return code, json.loads(path.read_text())


def test_both_sides_compute_one_function_on_as_many_sequences(small_run):
    code, record = small_run
    assert code == 0
    assert record["logit_difference"] <= 1e-5
    assert record["sequences_a_repeat"] == 512
    assert 512 % dyck.RECIPE.batch_size == 0


def test_weights_not_taken_over_would_be_seen():
    learner = Dyck(n_eval=16).learner(SMALL, dyck.RECIPE, 100)
    weights = learner.weights()
    for name in ("layers.1.attn.k.weight", "layers.0.ln2.weight", "head.weight", "pos_frame"):
        changed = {**weights, name: weights[name] + 0.1 * torch.randn(weights[name].shape)}
        assert dyck.difference(dyck.PlainLoop(changed).module, learner) > 1e-3


def test_the_plain_loop_learns():
    plain = dyck.PlainLoop(Dyck(n_eval=16).learner(SMALL, dyck.RECIPE, 100).weights())
    losses = [plain.step() for _ in range(4)]
    assert losses[-1] < 0.8 * losses[0]


def test_the_check_fails_below_the_goal_and_passes_at_it(small_run):
    def with_gain(wall, cpu, gap=0.0):
        ratios = {"wall": [wall], "cpu": [cpu]}
        return {**small_run[1], "ratios": ratios, "logit_difference": gap}

    assert dyck.shortfalls(with_gain(2.0, 2.0)) == []
    assert "below 2" in dyck.shortfalls(with_gain(1.9, 2.0))[0]
    assert "below 2" in dyck.shortfalls(with_gain(2.0, 1.9))[0]
    assert "below 2" in dyck.shortfalls(with_gain(float("nan"), 2.0))[0]
    assert "differ" in dyck.shortfalls(with_gain(2.0, 2.0, gap=1e-3))[0]


@pytest.mark.parametrize("arguments", [["--repeats", "0"], ["--batches", "0"]])
def test_impossible_sizes_are_refused(arguments):
    with pytest.raises(SystemExit):
        dyck.main(arguments)


def test_a_gain_is_the_plain_loops_cost_over_ours(monkeypatch):
    costs = {"plain_steps": 10.0, "our_steps": 4.0, "book_steps": 1.0}
    timed = lambda work: dict.fromkeys(("wall", "cpu"), costs[work.__name__])  # noqa: E731
    monkeypatch.setattr(dyck, "timed", timed)
    monkeypatch.setattr(dyck.PlainLoop, "step", lambda loop: 0.0)
    record = dyck.measure(repeats=2, batches=1)
    assert record["ratios"] == {"wall": [2.5, 2.5], "cpu": [2.5, 2.5]}
    assert record["thinning"] == {"wall": [4.0, 4.0], "cpu": [4.0, 4.0]}


@pytest.mark.parametrize(("gain", "code"), [(1.5, 1), (float("nan"), 1), (3.0, 0)])
def test_only_the_check_fails_where_the_goal_is_missed(
    monkeypatch, tmp_path, small_run, gain, code
):
    ratios = {"wall": [gain], "cpu": [gain]}
    monkeypatch.setattr(dyck, "measure", lambda *sizes: {**small_run[1], "ratios": ratios})
    output = ["--output", str(tmp_path / "dyck.json")]
    assert dyck.main(["--check", *output]) == code
    assert dyck.main(output) == 0


def test_it_goes_by_its_name(monkeypatch):
    called = []
    monkeypatch.setitem(__main__.NAMED, "dyck", lambda arguments: called.append(arguments) or 0)
    assert __main__.main(["dyck", "--repeats", "3"]) == 0
    assert called == [["--repeats", "3"]]
