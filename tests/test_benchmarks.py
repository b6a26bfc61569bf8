"""The benchmark compares what it says, and its check can fail."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks import earliest, markov, outcome
from benchmarks.baseline import STEPS_PER_EPOCH, Baseline, PlainTransformer
from helpers.tasks.markov import cyclic

CHAIN = cyclic()


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    """The smallest run: one repeat, one epoch, a handful of our steps; threads before and after."""
    path = tmp_path_factory.mktemp("bench") / "markov.json"
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        small = ["--repeats", "1", "--epochs", "1", "--steps", "5", "--no-earliest"]
        code = markov.main([*small, "--check", "--output", str(path)])
        after = torch.get_num_threads()
    finally:
        torch.set_num_threads(threads)
    return code, json.loads(path.read_text()), after


def test_gains_of_implementation_and_schedule_multiply_to_the_whole(small_run):
    for gains in small_run[1]["ratios"].values():
        implementation, schedule, whole = (value[0] for value in gains.values())
        assert implementation * schedule == pytest.approx(whole)


def test_a_run_too_short_to_learn_fails_the_check_however_fast(small_run):
    code, record, _ = small_run
    assert code == 1
    assert any("does not hold" in text for text in markov.shortfalls(record))


def test_the_check_fails_below_the_goal_and_passes_at_it(small_run):
    record = small_run[1]
    learnt = {name: True for name in record["reached"]}

    def with_gain(wall, cpu):
        return {
            **record,
            "reached": learnt,
            "ratios": {"wall": {markov.WHOLE: [wall]}, "cpu": {markov.WHOLE: [cpu]}},
        }

    assert markov.shortfalls(with_gain(8.0, 8.0)) == []
    assert "below 8" in markov.shortfalls(with_gain(8.0, 7.9))[0]
    assert "below 8" in markov.shortfalls(with_gain(7.9, 8.0))[0]


def test_one_thread_does_not_outlast_the_benchmark(small_run):
    assert small_run[2] == 2


def test_the_baseline_runs_forty_epochs_of_47_steps():
    assert len(Baseline(CHAIN, 0).loader) == STEPS_PER_EPOCH == 47
    assert markov.same_schedule(40).steps == 1880


def test_the_baseline_learns_and_does_not_see_the_future():
    plain = Baseline(CHAIN, 0)
    first, second = plain.run(1), plain.run(1)
    assert second < first
    model = PlainTransformer(4).eval()
    tokens = torch.zeros(1, 32, dtype=torch.long)
    changed = tokens.clone()
    changed[0, 20:] = 2
    with torch.no_grad():
        a, b = model(tokens), model(changed)
    torch.testing.assert_close(a[:, :20], b[:, :20])
    assert (a[:, 20] - b[:, 20]).abs().max() > 1e-3


def test_the_outcome_of_exact_knowledge_meets_every_condition():
    # one-hot tokens plus noise elsewhere, read by the chain's own log-probabilities
    rng = np.random.default_rng(0)
    tokens = CHAIN.sample(rng, 2000, 32)
    noise = 0.2 * rng.standard_normal((*tokens.shape, 6))
    hidden = torch.from_numpy(np.concatenate([np.eye(4)[tokens], noise], axis=-1))
    head = np.hstack([np.log(CHAIN.transition.T + 1e-3), np.zeros((4, 6))])
    found = outcome.measure(hidden, torch.from_numpy(head), tokens, CHAIN)
    assert found.base == pytest.approx(0.75, abs=0.01)
    assert all(outcome.reached([found]).values()), found
    blind = outcome.measure(hidden, torch.from_numpy(head[:, ::-1].copy()), tokens, CHAIN)
    assert not all(outcome.reached([blind]).values())


def test_the_race_ends_at_the_first_success_and_says_when_there_is_none():
    good = outcome.Outcome(base=0.75, keep=0.75, remove=0.25, pair_re=1, pair_im=1, real=1)
    bad = replace(good, real=1.2)
    attempts = [(47, 1.0, bad), (94, 2.0, good), (141, 3.0, good)]
    assert earliest.first_that_holds(iter(attempts)) == {"steps": 94, "cpu": 2.0}
    assert earliest.first_that_holds(iter(attempts[:1])) is None


@pytest.mark.parametrize(
    "change",
    [
        {"keep": 0.747},
        {"remove": 0.28},
        {"pair_re": 1.03},
        {"pair_im": 0.97},
        {"real": 0.89},
    ],
)
def test_each_condition_of_the_result_can_fail(change):
    good = outcome.Outcome(base=0.75, keep=0.75, remove=0.25, pair_re=1, pair_im=1, real=1)
    assert all(outcome.reached([good]).values())
    assert list(outcome.reached([replace(good, **change)]).values()).count(False) == 1


@pytest.mark.parametrize("arguments", [["--repeats", "0"], ["--epochs", "41"]])
def test_impossible_sizes_are_refused(arguments):
    with pytest.raises(SystemExit):
        markov.main(arguments)


def test_the_race_is_run_with_the_chapters_own_recipe():

    cells = json.loads((markov.ROOT / "notebooks/01_markov_cores.ipynb").read_text())["cells"]
    source = next("".join(c["source"]) for c in cells if c["id"] == "parameters")
    found = re.search(r"steps, batch_size, lr, dropout = (\d+), (\d+), (\S+), (\S+)", source)
    steps, batch_size, lr, dropout = (float(value) for value in found.groups())
    recipe = markov.BOOK
    assert (recipe.steps, recipe.batch_size, recipe.lr) == (steps, batch_size, lr)
    assert recipe.dropout == dropout
