"""Checks of chapter 3's exercises accept the right answer, got here by drawing, and no other."""

import numpy as np
import pytest

from helpers import notebook
from helpers.agreement_scores import auc
from helpers.exercises import agreement as exercises


@pytest.fixture(autouse=True)
def no_tries_yet(monkeypatch):
    """Every test begins as a reader does: with no wrong try counted."""
    monkeypatch.setattr(notebook, "_tries", {})


def test_a_perfect_flip_is_what_a_sign_makes_of_the_auc():
    rng = np.random.default_rng(0)
    number = np.repeat([0, 1], 500)
    margins = rng.standard_normal(1000) + 2.0 * number
    assert auc(-margins, number) == pytest.approx(1 - auc(margins, number))
    assert exercises.perfect_flip(0.07).right is True
    assert exercises.perfect_flip(0.0).right is False
    assert exercises.perfect_flip(0.93).right is False
    assert exercises.perfect_flip(None).right is None


def test_what_removal_leaves_has_no_covariance_with_the_output():
    rng = np.random.default_rng(1)
    h = rng.standard_normal((300, 8)) @ rng.standard_normal((8, 8))
    w = rng.standard_normal(8)
    x = h - h.mean(axis=0)

    def left_over(q):
        q = q / np.linalg.norm(q)
        left = x - np.outer(x @ q, q)
        return left.T @ (x @ w) / (len(x) - 1)

    assert exercises.left_over_covariance(left_over(x.T @ x @ w), h, w).right is True
    assert exercises.left_over_covariance(left_over(w), h, w).right is False  # reads, not C w
    assert exercises.left_over_covariance(x.T @ x @ w / 299, h, w).right is False
    assert exercises.left_over_covariance(np.zeros(3), h, w).right is False


def test_the_push_of_a_uniform_direction_is_what_draws_give():
    rng = np.random.default_rng(2)
    u = rng.standard_normal((200_000, 4))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    mean = (u**2 @ np.array([9, 4, 1, 0.04])).mean()
    assert exercises.push_ratio(5 / mean).right is True
    assert exercises.push_ratio(mean / 5).right is False
    assert exercises.push_ratio(5 / 4).right is False  # the median direction


def test_pooled_and_within_are_what_draws_give():
    rng = np.random.default_rng(3)
    s = rng.choice([-2.0, 2.0], 400_000)
    one, two = (s + rng.standard_normal(s.size) for _ in range(2))
    pooled = np.corrcoef(one, two)[0, 1]
    assert pooled == pytest.approx(0.8, abs=0.01)
    assert np.corrcoef(one[s > 0], two[s > 0])[0, 1] == pytest.approx(0, abs=0.01)
    assert exercises.pooled_and_within([0.8, 0]).right is True
    assert exercises.pooled_and_within([0.8, 0.8]).right is False
    assert exercises.pooled_and_within([2 / 3, 0]).right is False
