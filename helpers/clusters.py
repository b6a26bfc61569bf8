"""Intervals that resample whole clusters: sentences about one noun stand or fall together.

Sentences that share a head noun are not independent, so a bootstrap draws nouns, not sentences.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Int, Shaped

from helpers.stats import interval


def cluster_codes(clusters: Shaped[np.ndarray, " N"]) -> tuple[Int[np.ndarray, " N"], int]:
    """Each row's cluster as a number 0…G − 1, and G.

    Raises:
        ValueError: fewer than 2 clusters.
    """
    names, codes = np.unique(np.asarray(clusters), return_inverse=True)
    if len(names) < 2:
        raise ValueError(
            f"{len(names)} cluster: an interval needs at least 2 independent ones, such as nouns."
        )
    return codes.astype(np.int64), len(names)


def cluster_interval(
    statistic: Callable[[np.ndarray], np.ndarray],
    n_clusters: int,
    *,
    generator: np.random.Generator,
    level: float = 0.95,
    resamples: int = 1999,
) -> tuple[float, float]:
    """The interval (low, high) of a statistic that knows how often each cluster is drawn.

    ``statistic`` takes counts (B, G), how often each of G clusters stands in each of B resamples,
    and gives (B,).  For means, AUC and R² it needs sums over clusters only, made once, so that a
    resample costs next to nothing.  Widened for few clusters as in :func:`helpers.stats.interval`.
    """

    def of_drawn(drawn: np.ndarray, axis: int = -1) -> np.ndarray:
        drawn = np.moveaxis(np.asarray(drawn), axis, -1).astype(np.int64)
        flat = drawn.reshape(-1, drawn.shape[-1])
        rows = np.arange(len(flat))[:, None] * n_clusters
        counts = np.bincount((flat + rows).ravel(), minlength=len(flat) * n_clusters)
        values = statistic(counts.reshape(-1, n_clusters).astype(np.float64))
        return values.reshape(drawn.shape[:-1])

    return interval(
        np.arange(n_clusters), of_drawn, generator=generator, level=level, resamples=resamples
    )


def rows_interval(
    statistic: Callable[[np.ndarray], float],
    clusters: Shaped[np.ndarray, " N"],
    *,
    generator: np.random.Generator,
    level: float = 0.95,
    resamples: int = 999,
) -> tuple[float, float]:
    """The same for a ``statistic`` of row numbers (n,), computed afresh in every resample.

    Slower than :func:`cluster_interval`, for what is no function of sums, such as ranks.
    """
    codes, n_clusters = cluster_codes(clusters)
    members = [np.flatnonzero(codes == code) for code in range(n_clusters)]

    def of_drawn(drawn: np.ndarray) -> float:
        return statistic(np.concatenate([members[int(code)] for code in drawn]))

    return interval(
        np.arange(n_clusters), of_drawn, generator=generator, level=level, resamples=resamples
    )


def mean_interval(
    values: Shaped[np.ndarray, " N"],
    clusters: Shaped[np.ndarray, " N"],
    *,
    generator: np.random.Generator,
    level: float = 0.95,
    resamples: int = 1999,
) -> tuple[float, float, float]:
    """(mean, low, high) of one value a row, such as right or wrong, resampling clusters."""
    values = np.asarray(values, dtype=np.float64)
    codes, n_clusters = cluster_codes(clusters)
    if values.shape != codes.shape or not np.isfinite(values).all():
        raise ValueError(
            f"values must be finite, one a row; got shape {values.shape} for {len(codes)} rows."
        )
    sums, sizes = np.bincount(codes, values), np.bincount(codes).astype(np.float64)
    low, high = cluster_interval(
        lambda counts: (counts @ sums) / (counts @ sizes),
        n_clusters,
        generator=generator,
        level=level,
        resamples=resamples,
    )
    return float(values.mean()), low, high
