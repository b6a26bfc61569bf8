"""Checks of chapter 2's exercises; each returns a message with graded hints, never the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log
from numbers import Real

import numpy as np

from helpers.notebook import Message, check


def circle_share_of_a_clock(answer: float | int | None) -> Message:
    """Exercise 1: share of eigenvalues on the circle, 5 frequencies at rank 15."""
    return check(
        "Exercise 1",
        answer,
        10 / 15,
        rtol=1e-2,
        hints=[
            "How many complex eigenvalues does one frequency have on the circle?",
            "A frequency is a plane that turns: a conjugate pair. Divide their number by the rank.",
        ],
    )


def perfect_cycle_rank(answer: float | int | None) -> Message:
    """Exercise 2: the dimension in which any 53 points are shifted perfectly."""
    return check(
        "Exercise 2",
        answer,
        52,
        rtol=1e-9,
        hints=[
            "Look at one output coordinate. How many equations must it meet, and how many numbers "
            "does an affine function of r coordinates have?",
            "53 equations against r + 1 numbers.",
        ],
    )


def prediction(answer: float | int | None, run_it: Callable[[], Sequence[float | int]]) -> Message:
    """Exercise 3: the reader's median delay against runs that are made for it.

    A prediction is taken as right within a factor of 1.5 of the runs' median.

    Raises:
        ValueError: the prediction or a run's delay is no positive number.
    """
    if answer is None:
        return check("Exercise 3", None, 1.0)
    if not isinstance(answer, Real) or not answer > 0:
        raise ValueError(f"a delay is a positive number of steps; got {answer}.")
    delays = list(run_it())
    if None in delays or not delays or not min(delays) > 0:
        raise ValueError(
            f"the runs' delays should be positive steps; got {delays}. Change the setting less, or "
            "give the runs more steps."
        )
    found = float(np.median(delays))
    return check(
        "Exercise 3",
        log(answer / found),
        0.0,
        rtol=0.0,
        atol=log(1.5),
        hints=[
            f"You are off by a factor of {max(answer / found, found / answer):.2f}. The fit has a "
            "method that predicts.",
            "It is powers['weight decay'].predict([2.5]); its exponent is in the figure.",
        ],
    )


def law_limit(answer: float | int | None) -> Message:
    """Exercise 4: the log form over its own power-law limit at p = 2 p_crit."""
    return check(
        "Exercise 4",
        answer,
        2 * log(2),
        rtol=1e-2,
        hints=[
            "Expand −log(1 − x) for small x: what is its first term?",
            "Divide −log(1 − x) by x at x = 1/2.",
        ],
    )
