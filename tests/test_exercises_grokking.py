"""Chapter 2's checks accept the right answer, derived here another way, and nothing near it."""

import jaxtyping
import numpy as np
import pytest

from helpers import notebook
from helpers.cyclic import circle_share, shift_eigenvalues
from helpers.delays import compare_laws
from helpers.exercises import grokking as exercises


@pytest.fixture(autouse=True)
def no_tries_yet(monkeypatch):
    """Every test begins as a reader does: with no wrong try counted."""
    monkeypatch.setattr(notebook, "_tries", {})


def clock(frequencies, still, p=53):
    """Class means of a clock, with directions that hold no cycle."""
    rng = np.random.default_rng(0)
    angle = 2 * np.pi / p * np.outer(np.arange(p), frequencies)
    turning = np.hstack([np.cos(angle), np.sin(angle)])
    return np.hstack([turning, 0.1 * rng.standard_normal((p, still))])


def test_a_clock_of_five_at_rank_fifteen():
    share = circle_share(shift_eigenvalues(clock([2, 7, 11, 19, 25], still=5)), 53)
    assert exercises.circle_share_of_a_clock(share).right is True
    assert exercises.circle_share_of_a_clock(1.0).right is False
    assert exercises.circle_share_of_a_clock(5 / 15).right is False


def test_the_rank_at_which_any_points_make_a_cycle():
    def residual(rank):
        points = np.random.default_rng(1).standard_normal((53, rank))
        design = np.hstack([points, np.ones((53, 1))])
        wanted = np.roll(points, -1, axis=0)
        return np.abs(design @ np.linalg.lstsq(design, wanted, rcond=None)[0] - wanted).max()

    smallest = next(rank for rank in range(45, 60) if residual(rank) < 1e-8)
    assert exercises.perfect_cycle_rank(smallest).right is True
    assert exercises.perfect_cycle_rank(smallest - 1).right is False


def test_a_prediction_is_held_to_the_runs_that_are_made_for_it():
    runs = []

    def run_it():
        runs.append(1)
        return [300, 400, 500]

    assert exercises.prediction(None, run_it).right is None
    assert not runs  # nothing is trained for an empty answer
    assert exercises.prediction(420, run_it).right is True
    far = exercises.prediction(100, run_it)
    assert far.right is False
    assert "4.00" in far.text
    with pytest.raises(ValueError, match="positive"):
        exercises.prediction(-3, run_it)


def test_the_limit_of_the_law():
    x = np.array([31.0, 53.0, 101.0])
    delays = -1000 * np.log(1 - 20 / x)[:, None] * np.ones(3)
    law = compare_laws(x, delays, np.zeros((3, 3), bool), np.random.default_rng(0), resamples=50)
    factor = law.log_form([2 * law.critical])[0] / (law.omega / 2)
    assert exercises.law_limit(float(factor)).right is True
    assert exercises.law_limit(1.0).right is False


@pytest.mark.parametrize(
    "ask",
    [
        exercises.circle_share_of_a_clock,
        exercises.perfect_cycle_rank,
        exercises.law_limit,
    ],
)
def test_nothing_answered_yet(ask):
    assert ask(None).right is None


@pytest.mark.parametrize("answer", [float("nan"), "300", 0])
def test_what_is_no_prediction_is_named_and_trains_nothing(answer):
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with pytest.raises(ValueError, match="a delay is a positive number of steps; got"):
            exercises.prediction(answer, lambda: pytest.fail("nothing should be trained"))
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize("delays", [[], [0, 10], [300, -5]])
def test_runs_without_a_delay_are_named(delays):
    with pytest.raises(ValueError, match="delays should be positive steps"):
        exercises.prediction(300, lambda: delays)


def test_the_median_of_the_runs_counts_and_a_factor_of_one_and_a_half():
    runs = [100, 200, 6000]
    assert exercises.prediction(299, lambda: runs).right is True
    assert exercises.prediction(301, lambda: runs).right is False
    assert exercises.prediction(133, lambda: runs).right is False
