"""The exercises' checks accept the right answer, derived here another way, and nothing near it."""

import numpy as np
import pytest

from helpers import notebook
from helpers.comparison import projector_overlap, random_subspace
from helpers.exercises import markov_cores as exercises


@pytest.fixture(autouse=True)
def no_tries_yet(monkeypatch):
    """Every test begins as a reader does: with no wrong try counted."""
    monkeypatch.setattr(notebook, "_tries", {})


def test_the_spectrum_of_a_ring_of_five():
    right = abs(0.6 + 0.4 * np.exp(2j * np.pi / 5))
    assert exercises.spectrum(right).right is True
    assert exercises.spectrum(1.0).right is False
    assert exercises.spectrum(0.6).right is False


def test_the_overlap_of_random_subspaces_is_what_draws_give():
    rng = np.random.default_rng(0)
    draws = [
        projector_overlap(random_subspace(rng, 512, 8), random_subspace(rng, 512, 8))
        for _ in range(200)
    ]
    assert exercises.overlap(float(np.mean(draws)) * 1.0).right is True
    assert exercises.overlap(0.0).right is False
    assert exercises.overlap(8 / 64).right is False


def test_one_output_needs_the_covariance_and_not_the_read_out_alone():
    def right(H, w):
        v = np.cov(H, rowvar=False) @ w
        return v / np.linalg.norm(v)

    assert exercises.one_output(right).right is True
    assert exercises.one_output(lambda H, w: -right(H, w)).right is True
    assert exercises.one_output(lambda H, w: w / np.linalg.norm(w)).right is False
    assert exercises.one_output(lambda H, w: None).right is None
    with pytest.raises(ValueError, match=r"length D = 12; got shape \(3,\)"):
        exercises.one_output(lambda H, w: w[:3])


def test_memory_moves_the_eigenvalue_as_a_long_simulation_does():
    """A two-state chain has one real eigenvalue; its eigenfunction is ±1."""
    stay = 0.75  # eigenvalue 2·0.75 − 1 = 0.5
    rng = np.random.default_rng(1)
    phi = np.cumprod(np.where(rng.random(400_000) < stay, 1, -1))
    for eps in (0.05, 0.3):
        u = phi[1:] + eps * phi[:-1]
        fitted = (u[1:] @ u[:-1]) / (u[:-1] @ u[:-1])
        assert fitted == pytest.approx(exercises.with_memory(eps), abs=0.006)


def test_the_memory_behind_an_eigenvalue():
    grid = np.linspace(0, 0.5, 50_001)
    right = grid[np.argmin([abs(exercises.with_memory(e) - 0.56) for e in grid])]
    assert exercises.memory(float(right)).right is True
    assert exercises.memory(0.06 / 0.5).right is False
    assert exercises.memory(0.06).right is False


def test_hints_grow_and_never_hold_the_answer():
    answers = {exercises.spectrum: "0.81", exercises.overlap: "0.0156", exercises.memory: "0.08"}
    for ask, answer in answers.items():
        first, second = repr(ask(7)), repr(ask(7))
        assert first != second
        assert all("Hint" in text and answer not in text for text in (first, second))
