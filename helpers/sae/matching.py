r"""Do two dictionaries hold the same directions?  Cosines of decoder rows, and who goes with whom.

With unit rows d_i of one decoder and e_j of the other, the row-wise match gives every i the j of
the largest cosine, and many may choose one; the one-to-one match is the assignment that maximises
the sum of cosines.  To compare after a rotation, rotate the rows first, with
:meth:`helpers.alignment.maps.Alignment.direction`.  A large maximum over many rows proves little:
see :mod:`helpers.sae.dictionaries` for what random directions reach.

Source: McCann 2026 (arXiv:2605.24577), mean max-cosine and the share above 0.5; Sharkey et al. 2022
(MMCS); Paulo & Belrose 2025 (arXiv:2501.16615), one-to-one matching by the Hungarian method.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import linear_sum_assignment

MATCHED = 0.5
"""The cosine above which the paper counts a feature as matched."""


@dataclass(frozen=True, eq=False)
class Match:
    """For each matched row of the first decoder, its row ``of`` and its ``partner`` in the second.

    ``of``, ``partner`` and ``cosine`` have one entry a pair; rows count in the whole decoders.
    """

    of: np.ndarray
    partner: np.ndarray
    cosine: np.ndarray

    @property
    def mean(self) -> float:
        """Mean cosine of the pairs: for a row-wise match, the mean max-cosine."""
        return float(self.cosine.mean())

    def share_above(self, threshold: float = MATCHED) -> float:
        """Share of the pairs whose cosine is above ``threshold``."""
        return float((self.cosine > threshold).mean())


def cosines(
    one: Float[np.ndarray, "f d"], two: Float[np.ndarray, "g d"]
) -> Float[np.ndarray, "f g"]:
    """All cosines between rows.

    Raises:
        ValueError: rows of different dimensions, no rows, NaN, infinity, or a row of zeros.
    """
    if one.ndim != 2 or two.ndim != 2 or one.shape[1] != two.shape[1] or not one.size * two.size:
        raise ValueError(f"dictionaries must be (f, d) and (g, d); got {one.shape}, {two.shape}.")
    lengths = [np.linalg.norm(rows, axis=1, keepdims=True) for rows in (one, two)]
    for which, length in zip(("first", "second"), lengths, strict=True):
        if not (np.isfinite(length).all() and length.min() > 0):
            raise ValueError(
                f"the {which} dictionary holds NaN, infinity or a row of zeros, which has no "
                "direction. Leave out dead features (live=…)."
            )
    return (one / lengths[0]) @ (two / lengths[1]).T


def match_rows(
    one: Float[np.ndarray, "f d"],
    two: Float[np.ndarray, "g d"],
    *,
    live: tuple[Bool[np.ndarray, " f"], Bool[np.ndarray, " g"]] | None = None,
) -> Match:
    """Each row of ``one`` with the row of ``two`` of the largest cosine; ``live`` keeps some rows.

    Not symmetric: a small dictionary finds partners in a large one more easily than the reverse.

    Raises:
        ValueError: as in :func:`cosines`, or masks that keep nothing or do not fit.
    """
    rows, columns = _kept(one, two, live)
    table = cosines(one[rows], two[columns])
    best = table.argmax(axis=1)
    return Match(rows, columns[best], table[np.arange(len(rows)), best])


def match_one_to_one(
    one: Float[np.ndarray, "f d"],
    two: Float[np.ndarray, "g d"],
    *,
    live: tuple[Bool[np.ndarray, " f"], Bool[np.ndarray, " g"]] | None = None,
) -> Match:
    """min(f, g) pairs with the largest sum of cosines, no row in two of them; errors as above."""
    rows, columns = _kept(one, two, live)
    table = cosines(one[rows], two[columns])
    of, partner = linear_sum_assignment(table, maximize=True)
    return Match(rows[of], columns[partner], table[of, partner])


def _kept(
    one: np.ndarray, two: np.ndarray, live: tuple[np.ndarray, np.ndarray] | None
) -> tuple[Int[np.ndarray, " a"], Int[np.ndarray, " b"]]:
    masks = live or (np.ones(len(one), dtype=bool), np.ones(len(two), dtype=bool))
    for which, mask, rows in zip(("first", "second"), masks, (one, two), strict=True):
        if mask.dtype != bool or mask.shape != (len(rows),) or not mask.any():
            raise ValueError(
                f"live needs a mask of {len(rows)} booleans for the {which} dictionary, at least "
                f"one of them true; got {mask.dtype} {mask.shape} with {int(mask.sum())} true."
            )
    return np.flatnonzero(masks[0]), np.flatnonzero(masks[1])
