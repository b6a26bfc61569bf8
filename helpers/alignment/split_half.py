r"""Do two disjoint halves of the inputs give the same rotation?

Any two clouds of points have a best rotation between them, also those of two unrelated models.  If
the rotation is *shared structure*, another half of the inputs must give it again, at least on the
directions that carry variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from helpers.alignment.maps import fit_rotation
from helpers.alignment.principal import active_subspace, check_pair


@dataclass(frozen=True)
class SplitHalf:
    """Agreement of two halves' rotations on the ``rank`` active dimensions and on all ``d``.

    Both lie in [−1, 1]: 1 for equal rotations, 0 in expectation for independent Haar ones.
    """

    active: float
    everywhere: float
    rank: int
    d: int

    @property
    def null_sd(self) -> tuple[float, float]:
        r"""Standard deviations :math:`1/\sqrt{rd}` and 1/d of the two for independent Haar R's."""
        return float(1 / np.sqrt(self.rank * self.d)), 1 / self.d


def agreement(
    R1: Float[np.ndarray, "d d"],
    R2: Float[np.ndarray, "d d"],
    basis: Float[np.ndarray, "d r"] | None = None,
) -> float:
    r"""Mean cosine of one direction's two images: :math:`\mathrm{tr}(V^\top R_1 R_2^\top V) / r`.

    V (d, r) is an orthonormal ``basis`` of the directions to compare, all d of them by default; its
    choice within the subspace does not matter.  The value lies in [−1, 1] for orthogonal R, is 1
    when both map the subspace alike, and has mean 0 and standard deviation :math:`1/\sqrt{rd}` when
    they are independent and one is Haar.
    """
    V = np.eye(len(R1)) if basis is None else basis
    return float(np.sum((V.T @ R1) * (V.T @ R2)) / V.shape[1])


def split_half(
    X: Float[np.ndarray, "N d"],
    Y: Float[np.ndarray, "N d"],
    generator: np.random.Generator,
    *,
    keep: float = 0.99,
    proper: bool = False,
    groups: np.ndarray | None = None,
) -> SplitHalf:
    """Fit R on each of two random halves of the rows, and compare the two R.

    The active subspace holds the share ``keep`` of the variance of all of X.

    Args:
        X: activations of the first model.
        Y: of the second, on the same inputs.
        generator: draws the halves, and what they leave open of R.
        keep: share of variance that makes a subspace active.
        proper: fit in SO(d) rather than in O(d).
        groups: one label a row; rows of a group (the positions of one sequence) stay together,
            since they are not independent.

    Raises:
        ValueError: bad activations, shapes that differ, fewer than two groups, or a half of fewer
            than two rows.
    """
    X, Y = check_pair(X, Y)
    N, d = X.shape
    labels = np.arange(N) if groups is None else np.asarray(groups)
    if labels.shape != (N,):
        raise ValueError(f"groups must hold one label a row, ({N},); got shape {labels.shape}.")
    names = generator.permutation(np.unique(labels))
    first = np.isin(labels, names[: len(names) // 2])
    if min(first.sum(), N - first.sum()) < 2:
        raise ValueError(
            f"{N} rows in {len(names)} groups do not make two halves of two rows or more."
        )
    # what a half leaves open is drawn, since two equal completions by LAPACK would agree
    R1 = fit_rotation(X[first], Y[first], proper=proper, generator=generator).R
    R2 = fit_rotation(X[~first], Y[~first], proper=proper, generator=generator).R
    basis = active_subspace(X, keep)
    return SplitHalf(agreement(R1, R2, basis), agreement(R1, R2), basis.shape[1], d)
