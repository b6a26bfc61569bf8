r"""What an MLP makes legible: how much of a feature can be read linearly behind it, and not before.

With R² of least squares from the stream before and behind the MLP to a feature, on held-out rows,

.. math:: \text{closed} = \frac{R^2_{post} - R^2_{mid}}{1 - R^2_{mid}},

the share of what was missing that the MLP closes: 1 if the feature is fully legible behind it, 0 if
the MLP changes nothing, negative if it hides the feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

from helpers.alignment.variance import explained_variance
from helpers.cross_model.activations import collect
from helpers.specification.annotate import held_out
from helpers.specification.features import feature_columns
from helpers.tasks.dyck import label

if TYPE_CHECKING:
    from helpers.dyck.hooked import HookedDyck

NOTHING_MISSING = 1e-9
"""R² of a feature that is fully legible falls short of 1 by rounding."""
UNDECIDED_ONLY = ("local_invalidity", "first_error")
"""Features that no answer depends on behind the first error, and that are scored up to it."""


def undecided(rows: Int[np.ndarray, "n pos"]) -> Bool[np.ndarray, "n pos"]:
    """Real places up to and with the first error."""
    labels = label(rows)
    before = np.pad(labels.sticky[:, :-1], ((0, 0), (1, 0)))
    return labels.mask & (before == 0)


def closed_share(
    hooked: HookedDyck,
    rows: Int[np.ndarray, "n pos"],
    features: Sequence[str],
    generator: np.random.Generator,
) -> dict[str, dict[str, Float[np.ndarray, " layer"]]]:
    """``value`` and ``shuffled`` (layer,) of each feature; fits take every second row.

    Shuffled: the feature's values stand at other positions.

    Raises:
        ValueError: a feature that is constant on these rows.
    """
    mask = label(rows).mask
    layers = range(hooked.config.n_layers)
    sites = [f"blocks.{i}.hook_resid_{place}" for i in layers for place in ("mid", "post")]
    streams = collect(hooked, rows, sites, mask=mask)
    fit = np.nonzero(mask)[0] % 2 == 0
    early, columns, found = undecided(rows)[mask], feature_columns(rows), {}
    for name in features:
        use = early if name in UNDECIDED_ONLY else np.ones_like(early)
        Y = columns[name]
        mixed = Y.copy()
        for part in (use & fit, use & ~fit):
            mixed[part] = generator.permutation(Y[part])
        found[name] = {}
        for kind, target in (("value", Y), ("shuffled", mixed)):
            r2 = [_r2(streams[site].astype(np.float64), target, use, fit) for site in sites]
            mid, post = np.reshape(r2, (-1, 2)).T
            found[name][kind] = (post - mid) / np.maximum(1 - mid, NOTHING_MISSING)
    return found


def _r2(X: np.ndarray, Y: np.ndarray, use: np.ndarray, fit: np.ndarray) -> float:
    guess = held_out(X[use & fit], Y[use & fit], X[use & ~fit])
    return explained_variance(Y[use & ~fit], guess)
