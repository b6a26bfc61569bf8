r"""Weights and activations pull at one residual rotation: what each λ gives, and the way between.

For every rotation R the other parts of the symmetry take their best values, so that both losses are
functions of R alone:

.. math::
    P(R) = \min_{\text{heads, neurons}} \text{mean}_t\, \text{MSE}_t, \qquad
    A(R) = \text{MSE}(X R, Y)

Source: McCann 2026, "Polymorphism Is Rotation" (arXiv:2605.24577): weight MSE + λ activation MSE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from helpers.alignment.geodesic import geodesic
from helpers.symmetry.align import Aligned, align, inner
from helpers.symmetry.closed_forms import loss, procrustes, tensor_weights
from helpers.symmetry.group import Symmetry
from helpers.symmetry.pull import Pull
from helpers.symmetry.weights import Weights, check_pair

LAMBDAS = (0.0, 0.1, 1.0, 10.0, 100.0)
"""The paper's."""


@dataclass(frozen=True, eq=False)
class Joint:
    """The alignment for one ``lam``, and at its end the mean weight MSE and the activation MSE."""

    lam: float
    aligned: Aligned
    weights: float
    activations: float


@dataclass(frozen=True, eq=False)
class Path:
    """``t`` from 0 to 1 and, there, the rotations ``R`` (n, d, d), P(R) ``weights`` and A(R)
    ``activations``, each (n,)."""

    t: np.ndarray
    R: np.ndarray
    weights: np.ndarray
    activations: np.ndarray


def activation_rotation(
    pull: Pull, *, like: Float[np.ndarray, "d d"] | None = None
) -> Float[np.ndarray, "d d"]:
    """The R that minimises the activation MSE: Procrustes over all sites at once.

    O(d) has two halves, and no path leads from one to the other.  With ``like`` the best R is
    taken from the half of that rotation (Kabsch 1976): turn round the weakest singular direction.

    Raises:
        ValueError: a pull without activations.
    """
    if np.ndim(pull.cross) != 2:
        raise ValueError("this pull has no activations: make one with activation_pull(X, Y).")
    R = procrustes(pull.cross)
    if like is not None and np.linalg.slogdet(like)[0] != np.linalg.slogdet(R)[0]:
        weakest = np.linalg.svd(pull.cross)[2][-1]
        R = R - 2 * np.outer(R @ weakest, weakest)
    return R


def profile(source: Weights, target: Weights, R: Float[np.ndarray, "d d"]) -> float:
    """P(R): the mean weight MSE with the best heads and neurons for R."""
    c, at = tensor_weights(target), replace(Symmetry.identity(source), R=R)
    return loss(source, target, inner(source, target, at, c), c)


def joint(
    source: Weights,
    target: Weights,
    pull: Pull,
    generator: np.random.Generator,
    *,
    lambdas: Sequence[float] = LAMBDAS,
    starts: int = 4,
) -> list[Joint]:
    """Alignments that minimise mean weight MSE + λ · activation MSE, for each λ.

    Raises:
        ValueError: a negative λ, or as :func:`helpers.symmetry.align.align`.
    """
    if min(lambdas) < 0:
        raise ValueError(f"λ is at least 0; got {min(lambdas)}.")
    found = []
    for lam in lambdas:
        aligned = align(source, target, generator, starts=starts, pull=pull.times(lam))
        g, c = aligned.symmetry, tensor_weights(target)
        found.append(Joint(lam, aligned, loss(source, target, g, c), pull.loss(g.R)))
    return found


def path(
    source: Weights,
    target: Weights,
    pull: Pull,
    R_0: Float[np.ndarray, "d d"],
    R_1: Float[np.ndarray, "d d"],
    n: int = 21,
) -> Path:
    """Both losses at n even steps of the geodesic R_0 exp(t log(R_0ᵀ R_1)).

    Two minima lie in separate basins, along this path, where a loss in between exceeds its larger
    end.

    Raises:
        ValueError: models of different sizes, fewer than two steps, or rotations from the two
            halves of O(d); :func:`activation_rotation` takes ``like`` for that.
    """
    check_pair(source, target)
    if n < 2:
        raise ValueError(f"a path has at least its two ends; got n = {n}.")
    if np.linalg.slogdet(R_0)[0] != np.linalg.slogdet(R_1)[0]:
        raise ValueError(
            "one of the rotations reflects and the other does not: no path of orthogonal matrices "
            "joins them. Take the second with activation_rotation(pull, like=R_0)."
        )
    t = np.linspace(0, 1, n)
    R = R_0 @ geodesic(R_0.T @ R_1, t)
    weights = np.array([profile(source, target, turn) for turn in R])
    return Path(t, R, weights, np.array([pull.loss(turn) for turn in R]))
