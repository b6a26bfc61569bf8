r"""Maps from one model's activations to another's, fitted on the same inputs.

Rows are inputs, so a map acts from the right: :math:`\hat y = (x - \bar x) R + \bar y`.  The
paper's map is orthogonal; the affine one, with any matrix in R's place, is what no linear map can
beat on the batch it was fitted on.  Fit on one batch, score on another.

Source: McCann 2026, "Polymorphism Is Rotation" (orthogonal Procrustes between residual streams).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.linalg import orthogonal_procrustes

from helpers.alignment.haar import check_orthogonal, haar
from helpers.alignment.principal import check_pair, principal_axes
from helpers.cores import rank_of


@dataclass(frozen=True)
class Alignment:
    """ŷ = (x − ``mean_x``) ``R`` + ``mean_y``, with R (d, d) and means (d,).

    Raises:
        ValueError: shapes that do not fit each other, or NaN or infinity.
    """

    R: np.ndarray
    mean_x: np.ndarray
    mean_y: np.ndarray

    def __post_init__(self) -> None:
        shapes = np.shape(self.R), np.shape(self.mean_x), np.shape(self.mean_y)
        d = np.size(self.mean_x)
        if shapes != ((d, d), (d,), (d,)):
            raise ValueError(f"R must be (d, d) and both means (d,); got {shapes}.")
        if not all(np.isfinite(part).all() for part in (self.R, self.mean_x, self.mean_y)):
            raise ValueError("R or a mean holds NaN or infinity.")

    def apply(self, X: Float[np.ndarray, "*batch d"]) -> Float[np.ndarray, "*batch d"]:
        """Activations of the first model, mapped to the second one."""
        return (X - self.mean_x) @ self.R + self.mean_y

    def direction(self, v: Float[np.ndarray, "*batch d"]) -> Float[np.ndarray, "*batch d"]:
        """Directions (differences of activations, such as decoder columns as rows): v R."""
        return v @ self.R

    def inverse(self) -> Alignment:
        """The way back, (y − mean_y) Rᵀ + mean_x.

        Raises:
            ValueError: R is not orthogonal. The best affine map back is no inverse: fit it.
        """
        return Alignment(check_orthogonal(self.R).T, self.mean_y, self.mean_x)


def fit_rotation(
    X: Float[np.ndarray, "N d"],
    Y: Float[np.ndarray, "N d"],
    *,
    proper: bool = False,
    generator: np.random.Generator | None = None,
) -> Alignment:
    r"""Orthogonal Procrustes: the R that minimises :math:`\|(X-\bar x)R - (Y-\bar y)\|_F`.

    With the SVD :math:`(X-\bar x)^\top (Y-\bar y) = U \Sigma V^\top`, R = U Vᵀ (Schönemann 1966).
    By default R is taken from O(d), so that it may reflect (determinant −1); with ``proper`` from
    SO(d): where R reflects, the best rotation is R (I − 2 v vᵀ), with v the weakest right singular
    vector (Kabsch 1976).

    Activations of fewer than d dimensions leave R open: on the singular vectors with σ = 0, of
    number m, any orthogonal (m, m) matrix fits as well.  Without a ``generator`` it is LAPACK's
    completion, which leans on the coordinates and looks structured to a Haar test; with one it is
    a Haar draw, so that only what the data say can look structured.

    Args:
        X: activations of the first model, one row an input.
        Y: of the second, row for row.
        proper: take R from SO(d).
        generator: draws what the data leave open.

    Raises:
        ValueError: bad activations, or shapes that differ.
    """
    X, Y = check_pair(X, Y)
    mean_x, mean_y = X.mean(axis=0), Y.mean(axis=0)
    X, Y = X - mean_x, Y - mean_y
    U, sigma, Vt = np.linalg.svd(X.T @ Y)
    d = len(sigma)
    rounding = d * np.finfo(np.float64).eps * np.linalg.norm(X) * np.linalg.norm(Y)
    rank = int(np.sum(sigma > rounding))
    inner = np.eye(d)
    if generator is not None and rank < d:
        inner[rank:, rank:] = haar(generator, d - rank, 1)[0]
    R = U @ inner @ Vt
    if proper and np.linalg.slogdet(R)[0] < 0:
        R = R - 2 * np.outer(R @ Vt[-1], Vt[-1])
    return Alignment(R, mean_x, mean_y)


def fit_active_rotation(
    X: Float[np.ndarray, "N d"],
    Y: Float[np.ndarray, "N d"],
    generator: np.random.Generator,
    *,
    keep: float = 0.99,
) -> tuple[Alignment, int]:
    r"""A rotation fitted on the active subspaces only, Haar-random outside; and their dimension r.

    With orthonormal bases V_x, V_y (d, r) of the leading principal axes (r, the same for both, is
    the larger of the two numbers that hold the share ``keep`` of the variance), and Q (r, r) the
    Procrustes solution between their coordinates, :math:`R = V_x Q V_y^\top + V_x^\perp H
    V_y^{\perp\top}` with H a Haar draw from O(d − r).  What scores alike with this R and with
    :func:`fit_rotation`'s rests on r dimensions.

    Raises:
        ValueError: bad activations, shapes that differ, or a share outside (0, 1].
    """
    X, Y = check_pair(X, Y)
    d = X.shape[1]
    # all axes of both, leading first: the first r span the active subspace, the rest is outside
    (V_x, variances_x), (V_y, variances_y) = principal_axes(X), principal_axes(Y)
    r = max(rank_of(variances_x, keep), rank_of(variances_y, keep))
    mean_x, mean_y = X.mean(axis=0), Y.mean(axis=0)
    Q, _ = orthogonal_procrustes((X - mean_x) @ V_x[:, :r], (Y - mean_y) @ V_y[:, :r])
    inner = np.eye(d)
    inner[:r, :r] = Q
    if d > r:
        inner[r:, r:] = haar(generator, d - r, 1)[0]
    return Alignment(V_x @ inner @ V_y.T, mean_x, mean_y), r


def fit_affine(
    X: Float[np.ndarray, "N d"], Y: Float[np.ndarray, "N d"], *, ridge: float = 0.0
) -> Alignment:
    r"""The affine map of least squares, ŷ = (x − x̄) A + ȳ, in an :class:`Alignment` whose R is A.

    No linear map has a smaller error on these rows, so its explained variance bounds a rotation's
    from above there; on other rows it may overfit.  With ``ridge`` λ > 0 the squared error is
    that of all rows plus :math:`\lambda N s^2 \|A\|_F^2`, s² the mean variance of X's dimensions.
    Where X fills fewer than d dimensions, A is the solution of least norm.

    Raises:
        ValueError: bad activations, shapes that differ, a negative ridge, or without a ridge fewer
            rows than d + 1, with which the fit would be perfect and say nothing.
    """
    X, Y = check_pair(X, Y)
    N, d = X.shape
    if not ridge >= 0:
        raise ValueError(f"a ridge is at least 0; got {ridge}.")
    if not ridge and d >= N:
        raise ValueError(
            f"an affine map of {d} dimensions fits any {N} rows perfectly. Give more than {d} rows "
            "(ten times as many to be safe), or a ridge such as 1e-3."
        )
    mean_x, mean_y = X.mean(axis=0), Y.mean(axis=0)
    X, Y = X - mean_x, Y - mean_y
    if ridge:
        covariance = X.T @ X
        penalty = ridge * np.trace(covariance) / d * np.eye(d)
        A = np.linalg.solve(covariance + penalty, X.T @ Y)
    else:
        A = np.linalg.lstsq(X, Y)[0]
    return Alignment(A, mean_x, mean_y)
