"""The benchmark of pairs compares one function on both sides, and its check can fail."""

import json

import pytest
import torch

from benchmarks import pairs


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("bench") / "pairs.json"
    code = pairs.main(["--repeats", "1", "--epochs", "1", "--output", str(path)])
    return code, json.loads(path.read_text())


def test_both_sides_compute_one_function(small_run):
    code, record = small_run
    assert code == 0
    assert record["logit_difference"] <= 1e-5
    assert record["steps_a_repeat"] == 3


def test_weights_not_taken_over_would_be_seen():
    plain, learner = pairs.PlainTransformer(), pairs.TASK.learner(pairs.MODEL, pairs.RECIPE, 100)
    assert pairs.difference(plain, learner) > 0.1
    weights = learner.weights()
    for name in ("layers.1.attn.k.weight", "layers.0.ln2.weight", "ln_out.bias"):
        plain.take({**weights, name: weights[name] + 0.1 * torch.randn(weights[name].shape)})
        assert pairs.difference(plain, learner) > 1e-3


def test_the_plain_loop_learns():
    plain, stream = pairs.PlainTransformer(), pairs.TASK.batches(pairs.MODEL, pairs.RECIPE, 100)
    optimizer = torch.optim.AdamW(plain.parameters(), 1e-3)
    losses = []
    for _ in range(20):
        a, b, c = next(stream)
        loss = torch.nn.functional.cross_entropy(plain(torch.stack([a, b], 1)), c)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]


def test_the_check_fails_below_the_goal_and_passes_at_it(small_run):
    def with_gain(wall, cpu, gap=0.0):
        ratios = {"wall": [wall], "cpu": [cpu]}
        return {**small_run[1], "ratios": ratios, "logit_difference": gap}

    assert pairs.shortfalls(with_gain(5.0, 5.0)) == []
    assert "below 5" in pairs.shortfalls(with_gain(4.9, 5.0))[0]
    assert "below 5" in pairs.shortfalls(with_gain(5.0, 4.9))[0]
    assert "differ" in pairs.shortfalls(with_gain(5.0, 5.0, gap=1e-3))[0]


def test_the_count_of_multiplications():
    # Layer 2 in full, 12 d²; layer 1 without q, k and v, 9 d²; the head; a tenth more for the p
    # rows of the first position, whose stream layer 2's q, k and v read as well.
    d, share = 128, 53 / 512
    wanted = 12 * d * d + 9 * d * d * (1 + share) + 3 * d * d * share + d * 53
    assert pairs.multiplications() == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("arguments", [["--repeats", "0"], ["--epochs", "0"]])
def test_impossible_sizes_are_refused(arguments):
    with pytest.raises(SystemExit):
        pairs.main(arguments)


def test_a_gain_is_the_plain_loops_cost_over_ours(monkeypatch):
    costs = {"plain_epochs": 10.0, "our_epochs": 2.0, "products": 1.0}
    timed = lambda work: dict.fromkeys(("wall", "cpu"), costs[work.__name__])  # noqa: E731
    monkeypatch.setattr(pairs, "timed", timed)
    record = pairs.measure(repeats=2, epochs=1)
    assert record["ratios"] == {"wall": [5.0, 5.0], "cpu": [5.0, 5.0]}
    # a pass forward and two of its size back; a product and a sum for each multiplication
    work = 3 * 2 * pairs.multiplications() * 512 * 3
    assert record["gflops"]["cpu"]["ours"] == pytest.approx([work / 2e9] * 2)
    assert record["gflops"]["wall"]["product"] == pytest.approx([4 * 2 * 2048**3 / 1e9] * 2)


@pytest.mark.parametrize(("gain", "code"), [(4.0, 1), (float("nan"), 1), (6.0, 0)])
def test_only_the_check_fails_where_the_goal_is_missed(
    monkeypatch, tmp_path, small_run, gain, code
):
    ratios = {"wall": [gain], "cpu": [gain]}
    monkeypatch.setattr(pairs, "measure", lambda *sizes: {**small_run[1], "ratios": ratios})
    output = ["--output", str(tmp_path / "pairs.json")]
    assert pairs.main(["--check", *output]) == code
    assert pairs.main(output) == 0
