"""Checks of chapter 1's exercises; each returns a message with graded hints, never the answer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from helpers.cores import ace
from helpers.notebook import Message, check
from helpers.tasks.markov import cyclic


def spectrum(answer: float | int | None) -> Message:
    """Exercise 1: modulus of the largest non-trivial eigenvalue of a five-state ring."""
    return check(
        "Exercise 1",
        answer,
        float(np.abs(cyclic(5, 0.6).eigenvalues[1])),
        rtol=5e-3,
        hints=[
            "The eigenvalues are s + (1 − s)·exp(2πik/5). Which k comes nearest to 1?",
            "k = 1: the real part is 0.6 + 0.4·cos(72°), the imaginary part 0.4·sin(72°).",
        ],
    )


def overlap(answer: float | int | None) -> Message:
    """Exercise 2: expected overlap of two random 8-dimensional subspaces of R^512."""
    return check(
        "Exercise 2",
        answer,
        8 / 512,
        rtol=2e-2,
        hints=[
            "What is the expected squared length of a random unit vector's projection on an "
            "r-dimensional subspace of R^D?",
            "It is r/D, and the overlap averages it over r orthonormal vectors.",
        ],
    )


def one_output(my_core: Callable) -> Message:
    """Exercise 3: the reader's function against ACE on data that it has not seen."""
    rng = np.random.default_rng(5)
    H, w = rng.standard_normal((500, 12)) @ rng.standard_normal((12, 12)), rng.standard_normal(12)
    mine = my_core(H, w)
    if mine is not None and np.size(mine) != 12:
        shape = np.shape(mine)
        raise ValueError(f"my_core should return one vector of length D = 12; got shape {shape}.")
    return check(
        "Exercise 3",
        None if mine is None else abs(float(np.ravel(mine) @ ace(H, w[None], 1).basis[:, 0])),
        1.0,
        rtol=1e-6,
        hints=[
            "In the SVD form the matrix H_c Jᵀ has one column. What is its only left singular "
            "vector?",
            "The core is H_cᵀ times that vector, so it is proportional to H_cᵀ H_c w. Do not "
            "forget to normalise it.",
        ],
    )


def with_memory(eps: float | int, lam: float = 0.5) -> float:
    """The fitted eigenvalue of φ(x_t) + ε φ(x_{t−1}), for a real eigenvalue λ of the chain."""
    return (lam * (1 + eps**2) + eps * (1 + lam**2)) / (1 + eps**2 + 2 * eps * lam)


def memory(answer: float | int | None) -> Message:
    """Exercise 4: the memory ε that moves a real eigenvalue from 0.5 to 0.56."""
    return check(
        "Exercise 4",
        answer,
        float(brentq(lambda eps: with_memory(eps) - 0.56, 0, 0.5)),
        rtol=2e-2,
        hints=[
            "Write out both double sums for w = (1, ε): four terms above, four below.",
            "Above: λ(1 + ε²) + ε(1 + λ²). Below: 1 + ε² + 2ελ. Set the ratio to 0.56 and solve "
            "the quadratic equation for its small root.",
        ],
    )
