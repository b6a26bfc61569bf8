"""Checks of chapter 4's exercises; each returns a message with graded hints, never the answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.linalg import orthogonal_procrustes

from helpers.notebook import Message, check

Answer = np.ndarray | Sequence[float | int] | None


def permutation_distance(answer: float | int | None) -> Message:
    """Exercise 1: ‖R − I‖_F of a permutation of 64 coordinates with two fixed points."""
    return check(
        "Exercise 1",
        answer,
        np.sqrt(2 * 64 - 2 * 2),
        rtol=1e-3,
        hints=[
            "Write out the square: R is orthogonal, so ‖R‖² = ‖I‖² = d. What is left?",
            "‖R − I‖² = 2d − 2 Tr R. What does the trace of a permutation count?",
        ],
    )


def small_procrustes(
    answer: np.ndarray | Sequence[Sequence[float | int]] | None,
    X: Float[np.ndarray, "N d"],
    Y: Float[np.ndarray, "N d"],
) -> Message:
    """Exercise 2: the orthogonal R that minimises ‖(X − x̄) R − (Y − ȳ)‖."""
    R, _ = orthogonal_procrustes(X - X.mean(axis=0), Y - Y.mean(axis=0))
    return check(
        "Exercise 2",
        answer,
        R,
        rtol=0.0,
        atol=1e-6,
        hints=[
            "Take the means away, and look at the singular value decomposition of Xᵀ Y.",
            "With Xᵀ Y = U Σ Vᵀ drop the singular values. numpy's svd returns Vᵀ, not V.",
        ],
    )


def wrong_basis(answer: Answer) -> Message:
    """Exercise 3: expected EV of ŷ = s y H for a Haar H, at s = 1 and s = 3."""
    return check(
        "Exercise 3",
        answer,
        np.array([-1.0, -9.0]),
        rtol=1e-2,
        hints=[
            "Write out ‖y − ŷ‖². What is the expected product of y and y H?",
            "The error is ‖y‖² + ‖ŷ‖² on average. Divide by ‖y‖², and take it from 1.",
        ],
    )


def overlaps(answer: Answer) -> Message:
    """Exercise 4: the deviation of vᵀRv/‖v‖² for a Haar R, d = 64; the mean with pinned parts."""
    return check(
        "Exercise 4",
        answer,
        np.array([64**-0.5, 0.3]),
        rtol=1e-2,
        hints=[
            "A Haar R turns v into a uniform direction. What is the mean square of a coordinate?",
            "64 equal mean squares sum to 1. And what is pinned comes back as it was.",
        ],
    )
