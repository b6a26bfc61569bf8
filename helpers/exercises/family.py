"""Checks of chapter 4b's exercises; each returns a message with graded hints, never the answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.stats

from helpers.notebook import Message, check

Answer = np.ndarray | Sequence[float | int] | None


def louder(answer: Answer) -> Message:
    """Exercise 1: EV of the rotation where y = s x R exactly, for s = 2 and s = ½."""
    return check(
        "Exercise 1",
        answer,
        np.array([0.75, 0.0]),
        rtol=0.0,
        atol=1e-3,
        hints=[
            "A rotation keeps lengths: the prediction x R is y / s. What is the error y − y / s?",
            "EV is 1 − (1 − 1/s)². Put in s = 2 and s = ½.",
        ],
    )


def traces_within(answer: float | int | None) -> Message:
    """Exercise 2: the chance that 15 independent standard normal traces all lie within ±2."""
    return check(
        "Exercise 2",
        answer,
        float((2 * scipy.stats.norm.cdf(2) - 1) ** 15),
        rtol=2e-2,
        hints=[
            "What is the chance that one standard normal number lies within ±2?",
            "All fifteen must: take that chance to the power 15.",
        ],
    )


def few_blocks(answer: Answer) -> Message:
    """Exercise 3: the chance of r ≥ 0.8 over 4 and over 6 blocks without any relation."""
    return check(
        "Exercise 3",
        answer,
        np.array([above(0.8, 4), above(0.8, 6)]),
        rtol=3e-2,
        hints=[
            "For n independent normal pairs the density of r goes with (1 − r²)^((n − 4)/2). What "
            "is left of it at n = 4?",
            "At n = 4 r is uniform on [−1, 1]. At n = 6 integrate ¾ (1 − r²) from 0.8 to 1.",
        ],
    )


def above(r: float, n: int) -> float:
    """P(Pearson's r of n independent normal pairs ≥ r)."""
    half = n / 2 - 1
    return float(scipy.stats.beta(half, half, loc=-1, scale=2).sf(r))
