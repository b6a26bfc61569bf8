r"""Attribution patching on batches of different sizes.

The gradient at the clean run is a mean over rows.  If it is noise that spoils attribution patching
at convergence, where the full gradient is nearly 0, then its r must rise with the batch: the
noise's share falls as 1/√b.  If r does not rise, the linear approximation itself is at fault.

Rows are attributed once; a batch is then a sum over its rows.  The means stay those of all rows.
Batches of one size share rows, the more the larger they are: their spread says how r varies within
these rows, and is no interval for others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from helpers.attribution.effects import Attribution, pearson


@dataclass(frozen=True, eq=False)
class ByBatch:
    """r by batch size, (sizes, draws).

    ``same``: against the effects measured on that very batch.  ``all``: against those measured on
    all rows, which carry hardly any noise of their own.
    """

    sizes: tuple[int, ...]
    same: Float[np.ndarray, "sizes draws"]
    all: Float[np.ndarray, "sizes draws"]


def ap_by_batch(
    attribution: Attribution,
    sizes: Sequence[int],
    generator: np.random.Generator,
    *,
    draws: int = 200,
) -> ByBatch:
    """r of predicted against measured effects, over random batches of rows without repetition.

    Args:
        attribution: of all rows, from :func:`helpers.attribution.attribution_patching` and
            :func:`helpers.attribution.mean_ablation`.
        sizes: rows in a batch.
        generator: draws the batches.
        draws: batches of every size.

    Raises:
        ValueError: a batch of no row or of more than there are, or no draw.
    """
    n = len(attribution.predictions.rows)
    wrong = [size for size in sizes if not 1 <= size <= n]
    if wrong or draws < 1 or not len(sizes):
        raise ValueError(
            f"batches hold 1 to {n} rows here, drawn at least once; got sizes {list(sizes)} and "
            f"{draws} draws."
        )
    found = np.empty((2, len(sizes), draws))
    for i, size in enumerate(sizes):
        for draw in range(draws):
            rows = generator.permutation(n)[:size]
            predicted = attribution.predictions.over(rows)
            found[0, i, draw] = pearson(predicted, attribution.measurements.over(rows))
            found[1, i, draw] = pearson(predicted, attribution.measured)
    return ByBatch(tuple(sizes), found[0], found[1])
