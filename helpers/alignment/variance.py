r"""Explained variance: how much of the activations ``Y`` a prediction ``Y_hat`` accounts for.

.. math:: \mathrm{EV} = 1 - \frac{\sum_n \|y_n - \hat y_n\|^2}{\sum_n \|y_n - \bar y\|^2}

It is 1 for a perfect prediction, 0 for the mean, and negative for what is worse than the mean.  A
right spectrum in a wrong basis gives about −1: error and signal are then two unrelated vectors, and
their energies add.  One number hides much, since the first few principal components hold most of
the variance; so it comes by dimension and by band of principal components as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from helpers.cores import check_activations

BANDS = ((1, 4), (5, 16), (17, 64))


@dataclass(frozen=True)
class Band:
    """Principal components ``first`` … ``last`` (from 1 on): EV ``value``, ``share`` of variance.

    ``value`` is NaN where the band holds none of the variance.
    """

    first: int
    last: int
    value: float
    share: float


def _signal_and_error(
    Y: np.ndarray, Y_hat: np.ndarray, mean: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Y − mean and Y − Ŷ, both (N, D) in float64."""
    Y, Y_hat = check_activations(Y), np.asarray(Y_hat, dtype=np.float64)
    if Y_hat.shape != Y.shape:
        raise ValueError(
            f"the prediction must have the shape of what it predicts, {Y.shape}; got {Y_hat.shape}."
        )
    if not np.isfinite(Y_hat).all():
        bad = int(np.argwhere(~np.isfinite(Y_hat).all(axis=1))[0, 0])
        raise ValueError(f"the prediction holds NaN or infinity, first in row {bad} of {len(Y)}.")
    mean = Y.mean(axis=0) if mean is None else np.asarray(mean, dtype=np.float64)
    if mean.shape != Y.shape[1:] or not np.isfinite(mean).all():
        raise ValueError(f"the mean must be ({Y.shape[1]},) and finite; got shape {mean.shape}.")
    return Y - mean, Y - Y_hat


def _one_minus_ratio(error: np.ndarray, signal: np.ndarray, total: float) -> np.ndarray:
    """1 − error / signal, NaN where there is no signal but rounding (1e-24 of the total)."""
    empty = signal <= 1e-24 * total
    return np.where(empty, np.nan, 1 - error / np.where(empty, 1, signal))


def explained_variance(
    Y: Float[np.ndarray, "N D"],
    Y_hat: Float[np.ndarray, "N D"],
    mean: Float[np.ndarray, " D"] | None = None,
) -> float:
    r"""Pooled EV :math:`1 - \sum\|y-\hat y\|^2 / \sum\|y-\mathrm{mean}\|^2`, in (−∞, 1].

    Args:
        Y: what is predicted, one row an input.
        Y_hat: the prediction, row for row.
        mean: the constant that scores 0; Y's own mean unless given (say, that of a fitting batch).

    Raises:
        ValueError: shapes that differ, NaN or infinity, fewer than two rows, or constant Y.
    """
    signal, error = _signal_and_error(Y, Y_hat, mean)
    return float(1 - np.sum(error**2) / np.sum(signal**2))


def explained_variance_by_dimension(
    Y: Float[np.ndarray, "N D"],
    Y_hat: Float[np.ndarray, "N D"],
    mean: Float[np.ndarray, " D"] | None = None,
) -> Float[np.ndarray, " D"]:
    """The EV of each coordinate on its own; NaN for one that does not vary.

    Arguments and errors as in :func:`explained_variance`.
    """
    signal, error = _signal_and_error(Y, Y_hat, mean)
    energy = np.sum(signal**2, axis=0)
    return _one_minus_ratio(np.sum(error**2, axis=0), energy, energy.sum())


def explained_variance_by_band(
    Y: Float[np.ndarray, "N D"],
    Y_hat: Float[np.ndarray, "N D"],
    bands: Sequence[tuple[int, int]] = BANDS,
    *,
    axes: Float[np.ndarray, "D D"] | None = None,
    mean: Float[np.ndarray, " D"] | None = None,
) -> list[Band]:
    r"""EV within bands of principal components of Y, and the share of the variance each holds.

    With orthonormal columns V of a band: :math:`1 - \|(Y-\hat Y)V\|_F^2 / \|(Y-\bar y)V\|_F^2`.
    Bands that cover all dimensions add up: Σ share · value is the pooled EV.

    Args:
        Y: what is predicted, one row an input.
        Y_hat: the prediction, row for row.
        bands: (first, last), counted from 1, both included; a last one beyond D ends at D, and a
            band that begins beyond D is left out.
        axes: orthonormal columns, largest variance first; the principal axes of Y unless given.
        mean: as in :func:`explained_variance`.

    Raises:
        ValueError: as :func:`explained_variance`; a band that ends before it begins; axes that are
            not orthonormal.
    """
    signal, error = _signal_and_error(Y, Y_hat, mean)
    D = signal.shape[1]
    wrong = [band for band in bands if not 1 <= band[0] <= band[1]]
    if wrong:
        raise ValueError(f"a band is (first, last) with 1 ≤ first ≤ last; got {wrong[0]}.")
    if axes is None:
        centred = signal - signal.mean(axis=0)
        axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1]
    elif np.shape(axes) != (D, D) or np.abs(axes.T @ axes - np.eye(D)).max() > 1e-6:
        raise ValueError(f"axes must be {D} orthonormal columns; got shape {np.shape(axes)}.")
    energy = np.sum((signal @ axes) ** 2, axis=0)
    missed = np.sum((error @ axes) ** 2, axis=0)
    kept = [(first, min(last, D)) for first, last in bands if first <= D]
    parts = [slice(first - 1, last) for first, last in kept]
    held = np.array([energy[part].sum() for part in parts])
    lost = np.array([missed[part].sum() for part in parts])
    values = _one_minus_ratio(lost, held, energy.sum())
    return [
        Band(first, last, float(value), float(part / energy.sum()))
        for (first, last), value, part in zip(kept, values, held, strict=True)
    ]
