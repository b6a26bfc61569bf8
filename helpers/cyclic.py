r"""The cycle on p classes: does one linear map carry class c to c + 1, and through which modes?

Where activations hold the sum mod p as points on circles, the mean of class c is
:math:`\mu + \sum_k (u_k \cos(2\pi k c/p) + v_k \sin(2\pi k c/p))`.  One linear map then turns every
circle by one step, and its eigenvalues :math:`e^{\pm 2\pi i k/p}` lie on the unit circle.

Source: Schiffman 2026 (identify; modular addition).  In p − 1 dimensions any p points do this
perfectly, so R² is measured on edges that were held out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import Complex, Float, Int

from helpers.dynamics import fit_operator, r_squared
from helpers.interventions import project


def class_means(
    Z: Float[np.ndarray, "N r"], labels: Int[np.ndarray, " N"], p: int
) -> Float[np.ndarray, "p r"]:
    """Mean of the rows of each class 0 … p − 1.

    Raises:
        ValueError: an empty class, a label outside 0 … p − 1, or another number of labels.
    """
    if np.ndim(Z) != 2 or np.shape(labels) != np.shape(Z)[:1]:
        raise ValueError(
            f"need coordinates (N, r) and labels (N,); got {np.shape(Z)} and {np.shape(labels)}."
        )
    outside = np.setdiff1d(labels, np.arange(p))
    if len(outside):
        raise ValueError(f"labels lie in 0…{p - 1}; got {outside[:5].tolist()}.")
    counts = np.bincount(labels, minlength=p)
    if not counts.all():
        empty = np.flatnonzero(counts == 0).tolist()
        raise ValueError(f"classes {empty} hold no row, so they have no mean; take more inputs.")
    sums = np.zeros((p, np.shape(Z)[1]))
    np.add.at(sums, labels, Z)
    return sums / counts[:, None]


def shift_fit(
    M: Float[np.ndarray, "p r"], folds: int = 5, *, generator: np.random.Generator
) -> float:
    r"""R² of :math:`M_{c+1} \approx b + A M_c` on held-out edges, pooled over random folds.

    The p edges c → c + 1 (mod p) are dealt into folds.  A and b are fitted by least squares on the
    edges of the other folds, their means included, and predict the fold's.  It does not depend on
    the coordinates' units.  Without a law R² is about 0 or, from overfitting, below.

    Raises:
        ValueError: folds outside 2 … p, or so few edges for r that A is not determined.
    """
    _check_means(M)
    p = len(M)
    if not 2 <= folds <= p:
        raise ValueError(f"{p} edges can be dealt into 2…{p} folds; got {folds}.")
    now, then = np.asarray(M, dtype=np.float64), np.roll(M, -1, axis=0).astype(np.float64)
    predicted = np.empty_like(then)
    for held_out in np.array_split(generator.permutation(p), folds):
        train = np.delete(np.arange(p), held_out)
        # Two means: on part of the cycle the sources and the targets do not share one.
        mean_now, mean_then = now[train].mean(axis=0), then[train].mean(axis=0)
        A = fit_operator(now[train] - mean_now, then[train] - mean_then).A
        predicted[held_out] = mean_then + (now[held_out] - mean_now) @ A.T
    return r_squared(then, predicted)


def shift_eigenvalues(M: Float[np.ndarray, "p r"]) -> np.ndarray:
    """Eigenvalues (r,) of the operator fitted to all p edges c → c + 1 (mod p)."""
    _check_means(M)
    return fit_operator(M, np.roll(M, -1, axis=0)).eigenvalues


def circle_share(eigenvalues: Complex[np.ndarray, " r"] | Float[np.ndarray, " r"], p: int) -> float:
    r"""Share of eigenvalues with :math:`\big||\lambda| - 1\big| \le \sin(\pi/p)`.

    That is half the distance between neighbouring p-th roots of unity.

    Raises:
        ValueError: no eigenvalue, NaN, or fewer than 3 classes.
    """
    if not len(eigenvalues):
        raise ValueError("no eigenvalues were given, so no share of them lies anywhere.")
    if np.isnan(eigenvalues).any() or p < 3:
        bad = int(np.isnan(eigenvalues).sum())
        raise ValueError(
            f"need eigenvalues and p ≥ 3; {bad} of {len(eigenvalues)} are NaN, and p = {p}."
        )
    return float(np.mean(np.abs(np.abs(eigenvalues) - 1) <= np.sin(np.pi / p)))


def shuffled_classes(
    M: Float[np.ndarray, "p r"], generator: np.random.Generator
) -> Float[np.ndarray, "p r"]:
    """The same class means under a random relabelling of the classes: the points, not the order."""
    return generator.permutation(M)


def gaussian_classes(
    M: Float[np.ndarray, "p r"], generator: np.random.Generator
) -> Float[np.ndarray, "p r"]:
    """Standard normal class means of the same shape: what p points in r dimensions do anyway."""
    return generator.standard_normal(M.shape)


def mode_power(M: Float[np.ndarray, "p r"]) -> Float[np.ndarray, " modes"]:
    r"""Share of the class means' variance in each Fourier mode k = 1 … (p − 1)/2; sums to 1.

    With :math:`F_k = \sum_c M_c e^{-2\pi i k c/p}` it is :math:`2\|F_k\|^2 / (p \sum_c \|M_c -
    \bar M\|^2)` (Parseval).  Entry k − 1 is mode k.

    Raises:
        ValueError: an even p, fewer than 3 classes, NaN, or class means that are all equal.
    """
    power = np.sum(np.abs(_transform(M)) ** 2, axis=1)
    return power / power.sum()


def modes_present(power: Float[np.ndarray, " modes"], threshold: float) -> Int[np.ndarray, " n"]:
    """The modes k whose share of the variance is at least ``threshold``, in ascending order."""
    if not 0 < threshold <= 1:
        raise ValueError(f"a threshold on shares of variance lies in (0, 1]; got {threshold}.")
    return np.flatnonzero(power >= threshold) + 1


def mode_planes(M: Float[np.ndarray, "p D"]) -> dict[int, np.ndarray]:
    """An orthonormal basis (D, 2) of each mode's directions, the span of Re F_k and Im F_k.

    A mode that moves along one line only has one direction, an absent one none: a singular value
    counts above 1e-10 of the largest.  Planes of different modes need not be at right angles.

    Raises:
        ValueError: as :func:`mode_power`.
    """
    F = _transform(M)
    _, sizes, rows = np.linalg.svd(np.stack([F.real, F.imag], axis=1), full_matrices=False)
    counts = (sizes > 1e-10 * sizes.max()).sum(axis=1)
    return {k: row[:n].T for k, (row, n) in enumerate(zip(rows, counts, strict=True), start=1)}


def joint_basis(planes: Mapping[int, np.ndarray], ks: Iterable[int]) -> np.ndarray:
    """An orthonormal basis (D, d) of the span of the modes ``ks`` together, d ≤ 2 × their number.

    Raises:
        ValueError: a mode without a plane, or no planes at all.
    """
    ks = list(ks)
    unknown = sorted(set(ks) - set(planes))
    if not planes:
        raise ValueError("there are no planes; take those of mode_planes.")
    if unknown:
        raise ValueError(f"there are planes for modes {min(planes)}…{max(planes)}; got {unknown}.")
    D = len(next(iter(planes.values())))
    joint = np.concatenate([np.empty((D, 0)), *(planes[k] for k in ks)], axis=1)
    vectors, sizes, _ = np.linalg.svd(joint, full_matrices=False)
    return vectors[:, sizes > 1e-10]  # the columns have length 1


def remove_modes(
    H: Float[np.ndarray, "N D"],
    planes: Mapping[int, np.ndarray],
    ks: Iterable[int],
    mean: Float[np.ndarray, " D"],
) -> Float[np.ndarray, "N D"]:
    """Mean-ablate the span of the modes ``ks`` together; no mode leaves H as it is.

    Where planes are not at right angles, this takes something from other modes too.
    """
    return project(H, joint_basis(planes, ks), mean, "remove")


def _check_means(M: np.ndarray) -> None:
    if np.ndim(M) != 2 or len(M) < 3 or not np.isfinite(M).all():
        raise ValueError(
            f"class means must be (p, r), finite, with p ≥ 3; got shape {np.shape(M)}."
        )


def _transform(M: np.ndarray) -> Complex[np.ndarray, "modes r"]:
    """Fourier coefficients F_k of the class means for k = 1 … (p − 1)/2."""
    _check_means(M)
    M = np.asarray(M, dtype=np.float64)
    if len(M) % 2 == 0:
        raise ValueError(f"modes come in pairs k, p − k for an odd p; got p = {len(M)}.")
    if not np.ptp(M, axis=0).max() > 1e-12 * np.abs(M).max():
        raise ValueError("the class means are all equal: no mode is there to be measured.")
    return np.fft.rfft(M - M.mean(axis=0), axis=0)[1:]
