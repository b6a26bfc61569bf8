"""Checks of chapter 4's exercises accept the right answer, got here by drawing, and no other."""

import numpy as np
import pytest

from helpers import notebook
from helpers.alignment.haar import haar
from helpers.alignment.variance import explained_variance
from helpers.exercises import rotation as exercises


@pytest.fixture(autouse=True)
def no_tries_yet(monkeypatch):
    """Every test begins as a reader does: with no wrong try counted."""
    monkeypatch.setattr(notebook, "_tries", {})


def test_the_distance_of_a_permutation_is_what_its_matrix_gives():
    order = np.concatenate([[0, 1], np.roll(np.arange(2, 64), 1)])
    R = np.eye(64)[order]
    assert exercises.permutation_distance(np.linalg.norm(R - np.eye(64))).right is True
    assert exercises.permutation_distance(128**0.5).right is False
    assert exercises.permutation_distance(124.0).right is False
    assert exercises.permutation_distance(None).right is None


def test_procrustes_is_the_rotation_that_no_other_one_beats():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3)) + 1
    Y = X @ haar(rng, 3, 1)[0] + 0.2 * rng.standard_normal((40, 3))
    x, y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    U, _, Vt = np.linalg.svd(x.T @ y)
    R = U @ Vt
    others = haar(rng, 3, 2000)
    assert np.linalg.norm(x @ R - y) < np.linalg.norm(x @ others - y, axis=(1, 2)).min()
    assert exercises.small_procrustes(R, X, Y).right is True
    assert exercises.small_procrustes(R.T, X, Y).right is False
    assert exercises.small_procrustes(U @ Vt.T, X, Y).right is False
    U, _, Vt = np.linalg.svd(X.T @ Y)  # the means forgotten
    assert exercises.small_procrustes(U @ Vt, X, Y).right is False


def test_the_price_of_a_wrong_basis_is_what_draws_give():
    rng = np.random.default_rng(1)
    y = rng.standard_normal((300, 30)) * np.linspace(2, 0.5, 30)
    y = y - y.mean(axis=0)
    found = [
        np.mean([explained_variance(y, s * y @ H) for H in haar(rng, 30, 400)]) for s in (1, 3)
    ]
    assert found == pytest.approx([-1, -9], abs=0.1)
    assert exercises.wrong_basis([-1, -9]).right is True
    assert exercises.wrong_basis([0, 0]).right is False
    assert exercises.wrong_basis([-1, -3]).right is False


def test_overlaps_are_what_draws_give():
    rng = np.random.default_rng(2)
    v = np.zeros(64)
    v[:3], v[3:] = (0.3 / 3) ** 0.5, (0.7 / 61) ** 0.5
    free = np.einsum("i,nij,j->n", v, haar(rng, 64, 1500), v)
    inside = np.einsum("i,nij,j->n", v[3:], haar(rng, 61, 1500), v[3:])
    spread, mean = free.std(), (v[:3] @ v[:3] + inside).mean()
    assert [spread, mean] == pytest.approx([0.125, 0.3], abs=0.015)
    assert exercises.overlaps([0.125, 0.3]).right is True
    assert exercises.overlaps([1 / 64, 0.3]).right is False
    assert exercises.overlaps([0.125, 0.0]).right is False
    assert exercises.overlaps(np.array([0.125, 0.3, 0.0])).right is False
