r"""Scores of agreement: the AUC of a margin for number, and the fit of the margin on a coordinate.

The AUC is the chance that a random plural prompt has a larger margin than a random singular one,
ties counting one half.  1 is perfect, 0.5 knows nothing, and 0 is number inverted.  It needs no
threshold, so a constant that is added to every margin cannot pass for a failure.

Intervals resample head nouns (``clusters``), not prompts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.stats
from jaxtyping import Float, Shaped

from helpers.axes import check_number
from helpers.clusters import cluster_codes, cluster_interval


@dataclass(frozen=True)
class Score:
    """A ``value`` with its 95 % interval (``low``, ``high``), over ``n`` prompts."""

    value: float
    low: float
    high: float
    n: int


def _margins(margins: np.ndarray) -> np.ndarray:
    margins = np.asarray(margins, dtype=np.float64)
    if margins.ndim != 1 or not np.isfinite(margins).all():
        raise ValueError(
            f"margins must be finite, one a prompt (N,); got shape {margins.shape}. Add several "
            "verb pairs up first."
        )
    return margins


def auc(margins: Float[np.ndarray, " N"], number: Shaped[np.ndarray, " N"]) -> float:
    """P(margin of a plural prompt > margin of a singular one) + ½ P(equal)."""
    margins = _margins(margins)
    plural = check_number(number, len(margins))
    U = scipy.stats.mannwhitneyu(margins[plural], margins[~plural], method="asymptotic").statistic
    return float(U / (plural.sum() * (~plural).sum()))


def auc_score(
    margins: Float[np.ndarray, " N"],
    number: Shaped[np.ndarray, " N"],
    clusters: Shaped[np.ndarray, " N"],
    *,
    generator: np.random.Generator,
    resamples: int = 1999,
) -> Score:
    r"""The AUC with an interval that resamples clusters.

    With :math:`M_{ab}` the sum of [margin > margin'] over plural prompts of cluster a and singular
    ones of cluster b, a resample that holds cluster a :math:`c_a` times has the AUC
    :math:`c^\top M c / (c^\top n_1 \; c^\top n_0)`.  So prompts are compared once.  A resample
    without one of the numbers counts as 0.5.
    """
    margins = _margins(margins)
    codes, G = cluster_codes(clusters)
    statistic = _resampled_auc(margins, check_number(number, len(margins)), codes, G)
    ends = cluster_interval(statistic, G, generator=generator, resamples=resamples)
    return Score(auc(margins, number), *ends, len(margins))


def auc_difference(
    first: Float[np.ndarray, " N"],
    second: Float[np.ndarray, " N"],
    number: Shaped[np.ndarray, " N"],
    clusters: Shaped[np.ndarray, " N"],
    *,
    generator: np.random.Generator,
    resamples: int = 1999,
) -> Score:
    """AUC(``first``) − AUC(``second``) on the same prompts; both are resampled together."""
    first, second = _margins(first), _margins(second)
    plural = check_number(number, len(first))
    codes, G = cluster_codes(clusters)
    one, two = (_resampled_auc(margins, plural, codes, G) for margins in (first, second))
    ends = cluster_interval(
        lambda counts: one(counts) - two(counts), G, generator=generator, resamples=resamples
    )
    return Score(auc(first, number) - auc(second, number), *ends, len(first))


def _resampled_auc(
    margins: np.ndarray, plural: np.ndarray, codes: np.ndarray, G: int
) -> Callable[[np.ndarray], np.ndarray]:
    """Counts (B, G) of clusters to AUC (B,), as :func:`auc_score` says."""
    wins = np.zeros((G, G))
    high, low = margins[plural], margins[~plural]
    beats = (high[:, None] > low) + 0.5 * (high[:, None] == low)
    np.add.at(wins, (codes[plural][:, None], codes[~plural][None]), beats)
    n1, n0 = (np.bincount(codes[side], minlength=G).astype(float) for side in (plural, ~plural))

    def statistic(counts: np.ndarray) -> np.ndarray:
        pairs = (counts @ n1) * (counts @ n0)
        won = np.einsum("bg,bg->b", counts @ wins, counts)
        return np.where(pairs > 0, won / np.maximum(pairs, 1), 0.5)

    return statistic


def conditions(
    head: Shaped[np.ndarray, " N"], attractor: Shaped[np.ndarray, " N"]
) -> dict[str, Shaped[np.ndarray, " N"]]:
    """Masks (N,) of "all", "no attractor" (−1), "same number" and "other number"."""
    head, attractor = np.asarray(head), np.asarray(attractor)
    if head.shape != attractor.shape or not np.isin(attractor, (-1, 0, 1)).all():
        raise ValueError(
            "head and attractor numbers need one entry a prompt, the attractor's −1 (none), 0 or 1;"
            f" got shapes {head.shape}, {attractor.shape}."
        )
    return {
        "all": np.ones(len(head), dtype=bool),
        "no attractor": attractor == -1,
        "same number": attractor == head,
        "other number": (attractor != head) & (attractor != -1),
    }


def auc_by_condition(
    margins: Float[np.ndarray, " N"],
    head: Shaped[np.ndarray, " N"],
    attractor: Shaped[np.ndarray, " N"],
    clusters: Shaped[np.ndarray, " N"],
    *,
    generator: np.random.Generator,
    resamples: int = 1999,
) -> dict[str, Score]:
    """:func:`auc_score` in each of :func:`conditions` that has prompts."""
    return {
        name: auc_score(
            margins[mask], head[mask], clusters[mask], generator=generator, resamples=resamples
        )
        for name, mask in conditions(head, attractor).items()
        if mask.any()
    }


@dataclass(frozen=True)
class AffineFit:
    """margin ≈ ``slope`` · z + ``intercept``; ``r2`` and ``residuals`` on held-out prompts."""

    slope: float
    intercept: float
    r2: Score
    residuals: np.ndarray


def affine_fit(
    z: Float[np.ndarray, " N"],
    margins: Float[np.ndarray, " N"],
    z_held_out: Float[np.ndarray, " M"],
    margins_held_out: Float[np.ndarray, " M"],
    clusters_held_out: Shaped[np.ndarray, " M"],
    *,
    generator: np.random.Generator,
    resamples: int = 1999,
) -> AffineFit:
    r"""Fit by least squares on one split, score on another.

    :math:`R^2 = 1 - \sum e^2 / \sum (m - \bar m)^2` over the held-out prompts, with their own mean,
    so it is negative where the fit is worse than that mean.  The interval resamples clusters.

    Raises:
        ValueError: coordinates or held-out margins without variation.
    """
    margins, held_out = _margins(margins), _margins(margins_held_out)
    if not np.ptp(z) > 0 or not np.ptp(held_out) > 0:
        raise ValueError("coordinates and held-out margins must vary; one of them is constant.")
    slope, intercept = np.polyfit(z, margins, 1)
    residuals = held_out - (slope * z_held_out + intercept)
    centred = held_out - held_out.mean()  # as R² is unmoved by a shift, and sums lose no digits
    codes, G = cluster_codes(clusters_held_out)
    error, square, total = (np.bincount(codes, x) for x in (residuals**2, centred**2, centred))
    sizes = np.bincount(codes).astype(float)

    def statistic(counts: np.ndarray) -> np.ndarray:
        spread = counts @ square - (counts @ total) ** 2 / (counts @ sizes)
        return 1 - (counts @ error) / np.maximum(spread, np.finfo(float).tiny)

    ends = cluster_interval(statistic, G, generator=generator, resamples=resamples)
    value = 1 - float((residuals**2).sum() / (centred**2).sum())
    return AffineFit(float(slope), float(intercept), Score(value, *ends, len(held_out)), residuals)
