"""Checks of chapter 3's exercises; each returns a message with graded hints, never the answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from helpers.notebook import Message, check


def perfect_flip(answer: float | int | None) -> Message:
    """Exercise 1: the AUC after a flip of an exactly affine margin, 0.93 before it."""
    return check(
        "Exercise 1",
        answer,
        1 - 0.93,
        rtol=1e-6,
        hints=[
            "What does the flip make of a margin m, if m is affine in the coordinate?",
            "Every margin changes its sign. What happens to the order of two prompts?",
        ],
    )


def left_over_covariance(
    answer: np.ndarray | Sequence[float | int] | None,
    h: Float[np.ndarray, "N D"],
    w: Float[np.ndarray, " D"],
) -> Message:
    """Exercise 2: the covariance with w·h of what removal of w's one-dimensional core leaves."""
    x = h - h.mean(axis=0)
    C = x.T @ x / (len(x) - 1)
    return check(
        "Exercise 2",
        answer,
        np.zeros(h.shape[1]),
        rtol=0.0,
        atol=1e-6 * float(np.linalg.norm(C @ w)),
        hints=[
            "With one linear output the core is the direction C w, with C the covariance.",
            "Write the covariance of the rest as (I − q qᵀ) C w, and look at where q points.",
        ],
    )


def push_ratio(answer: float | int | None) -> Message:
    """Exercise 3: a coordinate's variance, 5, over that of a uniformly random direction."""
    return check(
        "Exercise 3",
        answer,
        5 / np.mean([9, 4, 1, 0.04]),
        rtol=1e-2,
        hints=[
            "The coordinate's variance along u is uᵀ C u. What is its mean over all directions u?",
            "It is the trace of C over the number of dimensions. Divide 5 by it.",
        ],
    )


def pooled_and_within(answer: Sequence[float | int] | np.ndarray | None) -> Message:
    """Exercise 4: pooled correlation of s + e₁ and s + e₂ with s = ±2, and the one at fixed s."""
    return check(
        "Exercise 4",
        answer,
        np.array([4 / 5, 0.0]),
        rtol=1e-2,
        atol=1e-3,
        hints=[
            "The covariance of the two is the variance of s. What is the variance of each?",
            "Each has variance 4 + 1. And if s is fixed, what do the two still share?",
        ],
    )
