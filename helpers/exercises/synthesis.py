"""Checks of chapter 6's exercises; each returns a message with graded hints, never the answer."""

from __future__ import annotations

from math import comb, factorial

from helpers.notebook import Message, check

SIZES = {3: 0.4, 11: 0.3, 7: 0.2, 16: 0.1}
"""Exercise 1: B's modes, and the share of its variance that each holds."""
OF_A = (3, 11, 20)
"""Exercise 1: A's modes."""
N_MODES, EACH = 26, 5
"""Exercise 3: modes that there are modulo 53, and those that each seed draws."""


def best_linear(answer: float | int | None) -> Message:
    """Exercise 1: the best EV of any linear map from A to B."""
    return check(
        "Exercise 1",
        answer,
        sum(size for mode, size in SIZES.items() if mode in OF_A),
        rtol=2e-3,
        hints=[
            "Waves of different frequency are at right angles over all inputs. Which of B's waves "
            "can be made from A's?",
            "The modes that both have are 3 and 11. Which share of B's variance do they hold?",
        ],
    )


def nothing_shared(answer: float | int | None) -> Message:
    """Exercise 2: EV of a rotation between unrelated streams, A's variance being 1.5 times B's."""
    return check(
        "Exercise 2",
        answer,
        -1.5,
        rtol=2e-3,
        hints=[
            "The error is y − xR. What is its variance if x and y have nothing to do with each "
            "other?",
            "Variances of unrelated vectors add: the error has 1 + 1.5 times B's variance.",
        ],
    )


def no_mode_in_common(answer: float | int | None) -> Message:
    """Exercise 3: the chance that two draws of 5 of 26 modes share none."""
    return check(
        "Exercise 3",
        answer,
        comb(N_MODES - EACH, EACH) / comb(N_MODES, EACH),
        rtol=5e-3,
        hints=[
            "Fix the first seed's modes. From how many others must the second draw all of its own?",
            "Count the ways to draw 5 of the 21 others, and divide by the ways to draw 5 of 26.",
        ],
    )


def fewest_seeds(answer: int | None) -> Message:
    """Exercise 4: the smallest s for which Mantel's test can give p < 0.05: 1/s! < 0.05."""
    return check(
        "Exercise 4",
        answer,
        next(s for s in range(2, 9) if 1 / factorial(s) < 0.05),
        rtol=0.0,
        atol=1e-9,
        hints=[
            "How many ways are there to relabel s seeds?",
            "The observed labelling is one of s!, so p is at least 1/s!. Find the first s that "
            "brings it below 0.05.",
        ],
    )
