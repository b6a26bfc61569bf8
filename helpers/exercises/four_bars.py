"""Checks of chapter 5's exercises; each returns a message with graded hints, never the answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from helpers.notebook import Message, check

FROM_START = {"w": 1.0, "a": 5.0}
"""Exercise 4: weight and activation loss of the minimum at λ = 0."""
REPORTED = {"A": (1.2, 4.0), "B": (1.5, 5.5), "C": (3.0, 4.5), "D": (0.9, 4.9), "E": (2.5, 2.0)}
"""Exercise 4: what searches at λ = 1 report, (weight loss, activation loss)."""


def decoy_bar(answer: float | int | None) -> Message:
    """Exercise 1: bar B where depth is uniform over 9 classes and the two others are perfect."""
    return check(
        "Exercise 1",
        answer,
        np.log(9) / 3,
        rtol=2e-3,
        hints=[
            "What is −log q of the right depth if all nine are equally likely?",
            "Bar B is a mean over the three outputs, in nats. Two of them are 0 here.",
        ],
    )


def looks_until_even(answer: int | None) -> Message:
    """Exercise 2: the least m with 1 − 0.95^m > 1/2."""
    return check(
        "Exercise 2",
        answer,
        int(np.floor(np.log(0.5) / np.log(0.95))) + 1,
        rtol=0.0,
        atol=1e-9,
        hints=[
            "What is the chance that none of m independent looks passes?",
            "The chance of no false pass is 0.95^m. Find the first m where it is below ½.",
        ],
    )


def quadrature_by_hand(answer: np.ndarray | Sequence[float | int] | None) -> Message:
    """Exercise 3: attribution patching and three rules with two points, for L(α) = α⁴."""
    return check(
        "Exercise 3",
        answer,
        np.array([0.0, 2.25, 0.875, 1.0]),
        rtol=0.0,
        atol=2e-3,
        hints=[
            "All four only see the slope L'(α) = 4 α³: at 0, at ½ and 1, at ¼ and ¾, at ½ ± 1/√12.",
            "Each rule is a mean of its two slopes. Gauss–Legendre with two points is exact up to "
            "degree 3.",
        ],
    )


def impossible_minima(answer: Collection[str] | None) -> Message:
    """Exercise 4: which reported pairs cannot be global minima of w + λ a, λ = 1."""
    return check(
        "Exercise 4",
        None if answer is None else set(answer),
        ruled_out(REPORTED, FROM_START),
        hints=[
            "The minimum at λ = 0 is a candidate at λ = 1 too. What is its value there?",
            "Rule out what is worse than 1 + 5 = 6. And no weight loss can be below the least one.",
        ],
    )


def ruled_out(
    reported: dict[str, tuple[float, float]], start: dict[str, float], lam: float = 1.0
) -> set[str]:
    """Reports that beat the least weight loss, or lose to the minimum at λ = 0."""
    most = start["w"] + lam * start["a"]
    return {name for name, (w, a) in reported.items() if w < start["w"] or w + lam * a > most}
