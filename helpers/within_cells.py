r"""Rank correlation of two models' coordinates within cells of sentences that share their design.

Two coordinates that both know head number correlate for that reason alone.  So sentences are split
into cells (head number × attractor number × template), and the question is whether the models agree
on what is left, sentence by sentence:

.. math:: \rho_{within} = \sum_c \frac{n_c}{n} \rho_c,

with :math:`\rho_c` Spearman's correlation inside cell c.  It is a mean product of ranks,
scaled to mean 0 and variance 1 in each cell, so a permutation within cells costs one sort and one
dot product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Shaped

from helpers.clusters import rows_interval
from helpers.stats import PermutationNull


@dataclass(frozen=True)
class WithinCells:
    """``null.observed`` is ρ_within, ``null.values`` what permuted sentences give.

    ``by_cell`` maps a cell's number to (ρ_c, n_c).  ``n`` sentences in ``by_cell``'s cells were
    used; ``small`` cells with fewer than the least number of sentences and ``constant`` cells, in
    which one coordinate takes one value only, were left out, with ``n_left_out`` sentences.
    """

    null: PermutationNull
    by_cell: dict[int, tuple[float, int]]
    n: int
    small: int
    constant: int
    n_left_out: int

    @property
    def rho(self) -> float:
        """The size-weighted mean of the cells' Spearman correlations."""
        return self.null.observed


def cells_of(*labels: Sequence | np.ndarray) -> Int[np.ndarray, " N"]:
    """One cell number for each distinct combination of labels, each (N,), such as head number,
    attractor number and template."""
    lengths = {len(label) for label in labels}
    if len(lengths) != 1:
        raise ValueError(f"labels need one entry for each sentence; got lengths {sorted(lengths)}.")
    codes = np.stack([np.unique(np.asarray(x), return_inverse=True)[1] for x in labels], axis=1)
    return np.unique(codes, axis=0, return_inverse=True)[1].ravel().astype(np.int64)


def _ranks(x: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Ranks within cells (0, 1, …), mean 0 and variance 1 in each; NaN where a cell is constant."""
    order = np.lexsort((x, cells))
    new_cell = np.diff(cells[order], prepend=cells[order[0]] - 1) != 0
    new_value = new_cell | (np.diff(x[order], prepend=np.nan) != 0)
    tie = np.cumsum(new_value) - 1  # rows of one value in one cell share their mean place
    ranks = np.empty(len(x))
    ranks[order] = (np.bincount(tie, np.arange(len(x))) / np.bincount(tie))[tie]
    sizes = np.maximum(np.bincount(cells), 1)
    ranks -= (np.bincount(cells, ranks) / sizes)[cells]
    spread = np.sqrt(np.bincount(cells, ranks**2) / sizes)[cells]
    # places count in halves, so a spread is 0 or far above rounding
    return np.divide(ranks, spread, out=np.full(len(x), np.nan), where=spread > 1e-9)


def _checked(x: np.ndarray, y: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, ...]:
    x, y, cells = (np.asarray(a) for a in (x, y, cells))
    if not x.shape == y.shape == cells.shape or x.ndim != 1:
        raise ValueError(
            f"x, y and cells need one entry for each sentence; got {x.shape}, {y.shape}, "
            f"{cells.shape}."
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("the coordinates hold NaN or infinity.")
    return x, y, cells


def within_spearman(
    x: Float[np.ndarray, " N"],
    y: Float[np.ndarray, " N"],
    cells: Shaped[np.ndarray, " N"],
    *,
    generator: np.random.Generator,
    permutations: int = 2000,
    min_size: int = 5,
) -> WithinCells:
    """ρ_within, and its null: the same when y's sentences are permuted within each cell.

    With one cell for all it is Spearman's pooled correlation, with its own null.

    Raises:
        ValueError: lengths that differ, NaN, or no cell of ``min_size`` sentences that vary.
    """
    x, y, cells = _checked(x, y, cells)
    _, codes, sizes = np.unique(cells, return_inverse=True, return_counts=True)
    a, b = _ranks(x, codes), _ranks(y, codes)
    large = sizes[codes] >= min_size
    used = large & np.isfinite(a) & np.isfinite(b)
    if not used.any():
        raise ValueError(
            f"no cell holds {min_size} sentences whose coordinates vary; the largest has "
            f"{sizes.max()}. Use coarser cells, or more sentences."
        )
    order = np.argsort(codes[used], kind="stable")
    a, b, cell = a[used][order], b[used][order], codes[used][order]
    observed = float(a @ b / len(a))
    values = np.empty(permutations)
    for at in range(0, permutations, 256):  # a key in [cell, cell + 1) sorts within its cell
        keys = cell + generator.random((min(256, permutations - at), len(cell)))
        values[at : at + len(keys)] = b[np.argsort(keys, axis=1)] @ a / len(a)
    kept = np.unique(cell)
    by_cell = {int(c): (float(a[cell == c] @ b[cell == c] / sizes[c]), int(sizes[c])) for c in kept}
    small = int((sizes < min_size).sum())
    return WithinCells(
        null=PermutationNull(observed, values),
        by_cell=by_cell,
        n=len(a),
        small=small,
        constant=len(sizes) - small - len(kept),
        n_left_out=len(x) - len(a),
    )


def spearman_interval(
    x: Float[np.ndarray, " N"],
    y: Float[np.ndarray, " N"],
    clusters: Shaped[np.ndarray, " N"],
    *,
    generator: np.random.Generator,
    cells: Shaped[np.ndarray, " N"] | None = None,
    min_size: int = 5,
    resamples: int = 999,
) -> tuple[float, float]:
    """95 % interval of the pooled Spearman, or with ``cells`` of ρ_within, resampling clusters.

    Ranks are taken afresh in each resample.
    """
    x, y, cells = _checked(x, y, np.zeros(len(x), dtype=int) if cells is None else cells)

    def statistic(rows: np.ndarray) -> float:
        codes, sizes = np.unique(cells[rows], return_inverse=True, return_counts=True)[1:]
        a, b = _ranks(x[rows], codes), _ranks(y[rows], codes)
        used = (sizes[codes] >= min_size) & np.isfinite(a) & np.isfinite(b)
        return float(a[used] @ b[used] / used.sum()) if used.any() else 0.0

    return rows_interval(statistic, clusters, generator=generator, resamples=resamples)
