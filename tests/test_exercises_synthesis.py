"""Checks of chapter 6's exercises accept the right answer, got here another way, and no other."""

import numpy as np
import pytest

from helpers import notebook
from helpers.alignment.haar import haar
from helpers.alignment.maps import fit_affine
from helpers.alignment.variance import explained_variance
from helpers.exercises import synthesis as exercises
from helpers.mantel import mantel

P = 53


@pytest.fixture(autouse=True)
def no_tries_yet(monkeypatch):
    """Every test begins as a reader does: with no wrong try counted."""
    monkeypatch.setattr(notebook, "_tries", {})


def circles(modes, sizes):
    angle = 2 * np.pi * np.outer(np.arange(P), list(modes)) / P
    waves = np.concatenate([np.cos(angle), np.sin(angle)], axis=1)
    return waves * np.sqrt(np.tile(list(sizes), 2))


def test_the_best_linear_map_is_what_least_squares_finds():
    A, B = (
        circles(exercises.OF_A, [1, 1, 1]),
        circles(exercises.SIZES, exercises.SIZES.values()),
    )
    A = np.concatenate([A, np.zeros((P, 2))], axis=1)
    right = explained_variance(B, fit_affine(A, B).apply(A))
    assert exercises.best_linear(right).right is True
    for wrong in (1.0, 0.5, 0.4, 0.667):
        assert exercises.best_linear(wrong).right is False
    assert exercises.best_linear(None).right is None


def test_the_cost_of_a_rotation_of_unrelated_streams():
    draw = np.random.default_rng(0)
    X, Y = np.sqrt(1.5) * draw.standard_normal((20_000, 4)), draw.standard_normal((20_000, 4))
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    found = np.mean([explained_variance(Y, X @ R) for R in haar(draw, 4, 40)])
    assert exercises.nothing_shared(round(float(found), 1)).right is True
    for wrong in (-1.0, 0.0, -2.5):
        assert exercises.nothing_shared(wrong).right is False


def test_two_draws_that_share_nothing():
    draw = np.random.default_rng(1)
    sets = [[set(draw.permutation(26)[:5].tolist()) for _ in range(2)] for _ in range(20_000)]
    share = np.mean([not (one & two) for one, two in sets])
    assert share == pytest.approx(0.3093, abs=0.01)
    assert exercises.no_mode_in_common(0.3093).right is True
    for wrong in (0.5, (21 / 26) ** 5, 0.25):
        assert exercises.no_mode_in_common(wrong).right is False


def test_the_fewest_seeds_for_a_small_p():
    draw = np.random.default_rng(2)
    floors = {}
    for s in (3, 4, 5):
        M = draw.standard_normal((s, s))
        floors[s] = mantel(M + M.T, M + M.T).floor
    right = min(s for s, floor in floors.items() if floor < 0.05)
    assert exercises.fewest_seeds(right).right is True
    for wrong in (right - 1, right + 1, 6):
        assert exercises.fewest_seeds(wrong).right is False
