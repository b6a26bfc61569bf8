"""A's SAE on B's activations, both decoders, and firing: under one map between the models.

The scores are those of :mod:`helpers.sae.transfer` and :mod:`helpers.sae.firing`, from what the two
sides hold already.  Everything is scored on rows on which no map was fitted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from helpers.alignment.maps import Alignment
from helpers.cross_model.maps import There
from helpers.cross_model.side import Columns, Side, as_tensor, energy_of, missed, run
from helpers.sae.firing import Firing
from helpers.sae.matching import match_one_to_one, match_rows


class Carried(NamedTuple):
    """EV under one map: see :mod:`helpers.sae.transfer` for what each is scored against."""

    rotated: float
    true: float
    sent: float
    map: float


class Cosines(NamedTuple):
    """A's live decoder rows against B's: means of the best cosine and of the one-to-one match.

    ``share`` is that of A's rows whose best cosine is above 0.5.
    """

    best: float
    one_to_one: float
    share: float


def one_sae_on_another(
    A: Side, B: Side, maps: There, columns: Columns | None = None, *, every: int = 1
) -> Carried:
    """EV of A's SAE on B's activations under a map, on ``every`` so-manieth row.

    ``columns`` take the code that it gives.
    """
    x_A, x_B = A.x[::every], B.x[::every]
    mapped = _apply(maps.to_A, x_B, A)
    carried = run(A.sae, mapped, columns)
    sent = _apply(maps.to_B, A.output[::every], A)
    return Carried(
        rotated=1 - missed(mapped, carried) / energy_of(mapped),
        true=1 - missed(x_A, carried) / energy_of(x_A),
        sent=1 - missed(x_B, sent) / energy_of(x_B),
        map=1 - missed(x_A, mapped) / energy_of(x_A),
    )


def naive(A: Side, B: Side, columns: Columns | None = None) -> float:
    """EV of A's SAE on B's activations as they are; ``columns`` take the code that it gives."""
    return 1 - missed(B.x, run(A.sae, B.x, columns)) / B.energy


def firing(A: Side, columns: Columns) -> Firing:
    """Pearson's r of A's SAE on A's own activations with itself on others, feature by feature.

    ``columns`` are those of the other code, and were made with A's ``pattern``.  In the SAE's
    precision; :func:`helpers.sae.firing.firing_correlation` is the plain form.
    """
    undefined = A.columns.constant | columns.constant
    r = (columns.products / columns.spread.sqrt()).clamp(-1, 1)
    r[undefined] = torch.nan
    return Firing(
        r=r.cpu().numpy(),
        silent_one=A.columns.silent.cpu().numpy(),
        silent_two=columns.silent.cpu().numpy(),
        varies_one=(~A.columns.constant).cpu().numpy(),
    )


def decoder_cosines(
    A: Side, B: Side, rows: Float[np.ndarray, "g d"] | None = None, turn: Alignment | None = None
) -> Cosines:
    """Cosines of the two decoders' live rows; ``rows`` stand in for B's, ``turn`` maps them to A.

    Raises:
        ValueError: an SAE without a feature that fires on its own model.
    """
    rows = B.sae.decoder if rows is None else rows
    rows = rows if turn is None else turn.direction(rows)
    live = A.live, B.live
    best = match_rows(A.sae.decoder, rows, live=live)
    paired = match_one_to_one(A.sae.decoder, rows, live=live)
    return Cosines(best.mean, paired.mean, best.share_above())


def _apply(alignment: Alignment, x: Tensor, like: Side) -> Tensor:
    """:meth:`Alignment.apply` in the SAE's precision."""
    R, mean_x, mean_y = (
        as_tensor(part, like.sae) for part in (alignment.R, alignment.mean_x, alignment.mean_y)
    )
    return torch.addmm(mean_y, x - mean_x, R)
