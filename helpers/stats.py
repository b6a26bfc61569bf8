"""Intervals that resample what is independent, and null distributions by permutation.

A model (a seed) is independent of another; two pairs that share a model are not. So quantities on
pairs of models resample the models.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats
from jaxtyping import Shaped

Statistic = Callable[..., Any]


def interval(
    values: Shaped[np.ndarray, " n"] | Sequence[Any],
    statistic: Statistic = np.mean,
    *,
    generator: np.random.Generator,
    level: float = 0.95,
    resamples: int = 4999,
) -> tuple[float, float]:
    """The interval (low, high) of `statistic` over n independent units, by resampling them.

    A bias-corrected and accelerated bootstrap (Efron 1987), widened for few units as by Hesterberg
    (2015, "expanded percentile"): the nominal tail α/2 becomes Φ(−√(n/(n−1)) t_{1−α/2, n−1}).
    Plain, it covers the mean of 8 normal draws in about 88 % of cases; widened, in about 94 %. With
    2 to 4 units no resampling can reach 95 %: the result is then about the range of what was
    measured, which covers in about 50, 75 and 87 %.

    The interval always holds the statistic of `values`. Where all values are equal it is a point.

    Raises ValueError for fewer than 2 units, for NaN or infinite values, and for a bad level.
    """
    units = _finite("values", values)
    if units.ndim != 1 or len(units) < 2:
        raise ValueError(
            f"an interval needs a list of at least 2 independent units, found shape {units.shape}. "
            "Run more seeds, or report the number without an interval."
        )
    widened = _widened(level, len(units))
    point = float(statistic(units))
    if np.all(units == units[0]):
        return point, point
    ends = (np.nan, np.nan)
    for method in ("BCa", "percentile"):  # BCa has no answer where the jackknife is degenerate
        if np.all(np.isfinite(ends)):
            break
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says so by NaN, which the second method answers
            ends = scipy.stats.bootstrap(
                (units,),
                statistic,
                n_resamples=resamples,
                confidence_level=widened,
                method=method,
                rng=generator,
            ).confidence_interval
    return _around(point, ends)


def pair_interval(
    pairs: Shaped[np.ndarray, "s s"] | Mapping[tuple[int, int], Any],
    n_seeds: int | None = None,
    statistic: Statistic = np.mean,
    *,
    generator: np.random.Generator,
    level: float = 0.95,
    resamples: int = 1999,
) -> tuple[float, float]:
    """The interval (low, high) of `statistic` over all pairs of models, resampling the models.

    `pairs` is a matrix (s, s), whose diagonal is ignored, or a dict from (i, j) to a number; where
    only one of (i, j) and (j, i) is given, it stands for both. A resample draws s models with
    replacement and takes every ordered pair of two different ones; a model with its own copy says
    nothing about two models, and is dropped. Widened for few models as in `interval`.

    Raises ValueError for fewer than 3 models, a missing pair, or NaN or infinite values.
    """
    matrix = _pair_matrix(pairs, n_seeds)
    count = len(matrix)
    widened = _widened(level, count)
    off_diagonal = ~np.eye(count, dtype=bool)
    measured = matrix[off_diagonal]
    point = float(statistic(measured))
    if np.all(measured == measured[0]):
        return point, point
    values = []
    while len(values) < resamples:
        drawn = generator.integers(count, size=count)
        kept = off_diagonal[np.ix_(drawn, drawn)]
        if kept.any():  # else one model was drawn every time: there is no pair
            values.append(float(statistic(matrix[np.ix_(drawn, drawn)][kept])))
    tail = (1 - widened) / 2
    return _around(point, np.quantile(values, [tail, 1 - tail]))


@dataclass(frozen=True)
class PermutationNull:
    """What a statistic is, and what it would be without the pairing: `values`, shape (n,)."""

    observed: float
    values: np.ndarray

    @property
    def p_value(self) -> float:
        """Share of draws at least as large as the observed one, which counts as a draw itself."""
        return float((1 + np.sum(self.values >= self.observed)) / (1 + len(self.values)))

    def quantile(self, q: float) -> float:
        """The value that a share `q` of the null stays below."""
        return float(np.quantile(self.values, q))


def permutation_null(
    statistic: Callable[[np.ndarray, np.ndarray], Any],
    x: Shaped[np.ndarray, "n ..."] | Sequence[Any],
    y: Shaped[np.ndarray, "n ..."] | Sequence[Any],
    *,
    generator: np.random.Generator,
    groups: Shaped[np.ndarray, " n"] | Sequence[Any] | None = None,
    permutations: int = 999,
) -> PermutationNull:
    """`statistic(x, y)`, and its values when the rows of `y` are shuffled.

    With `groups`, one label a row, rows move within their group only, so that the null keeps what
    the groups explain.

    Raises ValueError for lengths that differ, and for groups in which nothing can move.
    """
    x, y = np.asarray(x), np.asarray(y)
    labels = np.zeros(len(y), dtype=int) if groups is None else np.asarray(groups)
    if not len(x) == len(y) == len(labels):
        raise ValueError(
            f"x, y and groups need one row for each item, found {len(x)}, {len(y)}, {len(labels)}."
        )
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    if all(len(rows) < 2 for rows in members):
        raise ValueError("no group has two rows, so nothing can be permuted. Use coarser groups.")
    values = np.empty(permutations)
    order = np.arange(len(y))
    for draw in range(permutations):
        for rows in members:
            order[rows] = generator.permutation(rows)
        values[draw] = statistic(x, y[order])
    return PermutationNull(float(statistic(x, y)), values)


def _widened(level: float, n: int) -> float:
    """The nominal level that makes a bootstrap of n units about as wide as it should be."""
    if not 0 < level < 1:
        raise ValueError(f"the level is a share between 0 and 1, such as 0.95, not {level}.")
    t = scipy.stats.t.ppf((1 + level) / 2, n - 1) * np.sqrt(n / (n - 1))
    # scipy's BCa refuses a level of exactly 1, which rounding gives for n = 2.
    return min(1 - 2 * scipy.stats.norm.sf(t), 1 - 1e-9)


def _around(point: float, ends: Any) -> tuple[float, float]:
    return min(point, float(ends[0])), max(point, float(ends[1]))


def _finite(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if not np.all(np.isfinite(array)):
        where = np.argwhere(~np.isfinite(array)).ravel()[:5].tolist()
        raise ValueError(f"{name} are not finite at {where}. Find where NaN or infinity arises.")
    return array


def _pair_matrix(pairs: Any, n_seeds: int | None) -> np.ndarray:
    """All pairs as a matrix with a zero diagonal."""
    if isinstance(pairs, Mapping):
        count = n_seeds or 1 + max((max(pair) for pair in pairs), default=-1)
        matrix = np.zeros((count, count))
        for i in range(count):
            for j in set(range(count)) - {i}:
                if (i, j) not in pairs and (j, i) not in pairs:
                    raise ValueError(f"the pair ({i}, {j}) of {count} models is missing.")
                matrix[i, j] = pairs.get((i, j), pairs.get((j, i)))
        outside = [pair for pair in pairs if not all(0 <= seed < count for seed in pair)]
        if outside:
            raise ValueError(f"the pair {outside[0]} names a model beyond n_seeds = {count}.")
    else:
        matrix = np.array(pairs, dtype=np.float64)
        if matrix.ndim != 2 or len(set(matrix.shape)) != 1 or n_seeds not in (None, len(matrix)):
            raise ValueError(
                f"pairs of {n_seeds or 's'} models are a square matrix, found shape {matrix.shape}."
            )
        np.fill_diagonal(matrix, 0)
    if len(matrix) < 3:
        raise ValueError(
            f"{len(matrix)} models give at most one pair, and nothing to resample. Run at least 3."
        )
    return _finite("pairs", matrix)
