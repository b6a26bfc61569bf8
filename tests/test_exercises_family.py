"""Checks of chapter 4b's exercises accept the right answer, got here by drawing, and no other."""

import numpy as np
import pytest

from helpers import notebook
from helpers.alignment.haar import haar
from helpers.alignment.maps import fit_rotation
from helpers.alignment.variance import explained_variance
from helpers.exercises import family as exercises


@pytest.fixture(autouse=True)
def no_tries_yet(monkeypatch):
    """Every test begins as a reader does: with no wrong try counted."""
    monkeypatch.setattr(notebook, "_tries", {})


def test_a_louder_model_costs_what_a_fit_gives():
    rng = np.random.default_rng(0)
    X, R = rng.standard_normal((500, 8)), haar(rng, 8, 1)[0]
    found = [explained_variance(s * X @ R, fit_rotation(X, s * X @ R).apply(X)) for s in (2, 0.5)]
    assert exercises.louder(found).right is True
    assert exercises.louder([1, 1]).right is False
    assert exercises.louder(None).right is None


def test_traces_within_two_are_as_rare_as_in_draws():
    traces = np.trace(haar(np.random.default_rng(1), 30, 9000), axis1=1, axis2=2)
    share = np.mean(np.abs(traces.reshape(-1, 15)).max(axis=1) <= 2)
    assert share == pytest.approx(0.497, abs=0.07)
    assert exercises.traces_within(0.497).right is True
    assert exercises.traces_within(0.954).right is False


def test_r_over_few_blocks_is_as_often_high_as_in_draws():
    rng = np.random.default_rng(2)
    found = []
    for n in (4, 6):
        x, y = rng.standard_normal((2, 40_000, n))
        x, y = (v - v.mean(axis=1, keepdims=True) for v in (x, y))
        r = (x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1))
        found.append(np.mean(r >= 0.8))
    assert found == pytest.approx([exercises.above(0.8, 4), exercises.above(0.8, 6)], abs=0.005)
    assert exercises.few_blocks([0.1, 0.028]).right is True
    assert exercises.few_blocks([0.05, 0.05]).right is False
