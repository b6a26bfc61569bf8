r"""The polyhedral lens: how many of a ReLU layer's linear pieces the data visit.

A ReLU layer is linear where the signs of its pre-activations stay as they are.  Each pattern of
signs is one polyhedron of the layer's input space, and a sample lies in one of them.  Counting the
distinct patterns of n samples says little by itself: so the count comes as a curve in n, beside

- as many samples of an untrained model, and as many Gaussian inputs of that mean and covariance;
- the number of distinct *inputs* among the samples, which no count can exceed: a causal model gives
  the same pattern to the same beginning of a row.

Patterns are packed to bits and hashed to 64 bits, eight bytes a sample.  Two of n patterns share a
hash with probability n² / 2⁶⁵ at most: 3e-8 for a million.

Source: McCann 2026 (polyhedral lens); Good 1953, the chance of something new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, UInt64

from helpers.alignment.principal import principal_axes

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def _mixed(x: UInt64[np.ndarray, "*n"]) -> UInt64[np.ndarray, "*n"]:
    """Every bit depends on every other (the finaliser of splitmix64, one to one)."""
    x = (x ^ (x >> np.uint64(30))) * _MIX[0]
    x = (x ^ (x >> np.uint64(27))) * _MIX[1]
    return x ^ (x >> np.uint64(31))


def pattern_hashes(
    pre: Float[np.ndarray, "n d_mlp"] | Bool[np.ndarray, "n d_mlp"],
    before: UInt64[np.ndarray, " n"] | None = None,
) -> UInt64[np.ndarray, " n"]:
    """One number a sample for which units are on (pre-activation > 0).

    ``before`` are the same samples' hashes at another layer: the result stands for both patterns.

    Raises:
        ValueError: NaN, which is neither on nor off.
    """
    if np.isnan(pre).any():
        raise ValueError("pre-activations hold NaN, which is neither on nor off.")
    bits = np.packbits(pre > 0, axis=1)
    words = np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8))).view(np.uint64)
    found = np.zeros(len(pre), np.uint64) if before is None else before
    for word in words.T:
        found = _mixed(found + _ODD ^ _mixed(word + _ODD))
    return found


def prefix_hashes(
    rows: Int[np.ndarray, "n pos"], mask: Bool[np.ndarray, "n pos"]
) -> UInt64[np.ndarray, " positions"]:
    """One number for each real position's beginning of the row, itself included."""
    found, state = np.empty(rows.shape, np.uint64), np.zeros(len(rows), np.uint64)
    for t, tokens in enumerate(rows.T.astype(np.uint64)):
        state = _mixed(state + _ODD ^ _mixed(tokens + _ODD))
        found[:, t] = state
    return found[mask]


@dataclass(frozen=True, eq=False)
class Growth:
    """Distinct patterns among the first ``sizes`` samples (k,).

    ``new`` is Good's estimate of the chance that the next sample brings a new one: the share of
    samples whose pattern came once.
    """

    sizes: np.ndarray
    distinct: np.ndarray
    new: float

    @property
    def slope(self) -> float:
        """d log(distinct) / d log(n) between the last two sizes: 1 if every sample is new."""
        (n_one, n_two), (one, two) = np.log(self.sizes[-2:]), np.log(self.distinct[-2:])
        return float((two - one) / (n_two - n_one))


def growth(hashes: UInt64[np.ndarray, " n"], sizes: Sequence[int] | None = None) -> Growth:
    """The curve for samples in this order; by doubling sizes up to n unless given.

    Put rows in random order first if neighbours depend on each other.

    Raises:
        ValueError: sizes that do not rise within 1…n, or fewer than two.
    """
    n = len(hashes)
    if sizes is None:
        sizes = sorted({max(1, n >> i) for i in range(8)})
    steps = np.asarray(sizes, np.int64)
    if len(steps) < 2 or not (steps[0] >= 1 and steps[-1] <= n and (np.diff(steps) > 0).all()):
        raise ValueError(f"sizes must rise within 1…{n}, at least two of them; got {list(steps)}.")
    _, first, counts = np.unique(hashes, return_index=True, return_counts=True)
    distinct = np.searchsorted(np.sort(first), steps)  # of the first s samples: first seen before s
    return Growth(steps, distinct, float((counts == 1).sum() / n))


def gaussian_like(
    X: Float[np.ndarray, "n d"], generator: np.random.Generator, n: int | None = None
) -> Float[np.ndarray, "m d"]:
    """Gaussian rows, as many unless said otherwise, with the mean and covariance of X.

    Raises:
        ValueError: bad activations, see :func:`helpers.cores.check_activations`.
    """
    axes, spread = principal_axes(X)
    draws = generator.standard_normal((n or len(X), X.shape[1])) * np.sqrt(spread)
    return draws @ axes.T + X.mean(axis=0)
