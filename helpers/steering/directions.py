r"""Steering directions of the bracket model: differences of means between positions that differ in
one thing.

Positions that are deeper also stand later and follow other tokens, so a plain difference of means
is a mixture.  Here the two groups are compared within strata s of like positions,

.. math:: v = \frac{\sum_s w_s\,(\bar x_s^+ - \bar x_s^-)}{\sum_s w_s}, \qquad
          w_s = \frac{n_s^+ n_s^-}{n_s^+ + n_s^-},

which leaves out strata with one group only, and weighs the others by what their difference is
worth: its variance goes with 1 / w_s.

========== ============================ ============================ ==============================
direction  group +                      group −                      strata
========== ============================ ============================ ==============================
``depth``  brackets at depth k + 1      brackets at depth k          k, opening or closing
``sticky`` brackets after an error      brackets of a valid prefix   depth, position, opening or not
``closer`` closing brackets             opening brackets             depth, position
========== ============================ ============================ ==============================

All brackets of ``depth`` and ``closer`` end a valid prefix; depth is what it is behind the token.
Even weights would not do for depth: the sum over k telescopes to the two outermost depths.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from helpers.cross_model.activations import Hooked, collect
from helpers.tasks.dyck import CLOSERS, MAX_DEPTH, OPENERS, label

SITE = "blocks.1.hook_resid_mid"
NAMES = ("depth", "sticky", "closer")


def check_push(direction: np.ndarray, doses: Sequence[float | int], d_model: int) -> None:
    """A direction that can be added to a stream of width ``d_model``, and doses to add it in.

    Raises:
        ValueError: a direction of another width, NaN or infinity, or no dose.
    """
    if direction.shape != (d_model,) or not np.isfinite(direction).all():
        raise ValueError(f"a direction is ({d_model},) and finite; got {direction.shape}.")
    if not len(doses):
        raise ValueError("give at least one dose.")


def matched_difference(
    plus: Float[np.ndarray, "n d"],
    plus_strata: Int[np.ndarray, "n keys"],
    minus: Float[np.ndarray, "m d"],
    minus_strata: Int[np.ndarray, "m keys"],
) -> Float[np.ndarray, " d"]:
    """The difference of means v above; rows with equal keys are of one stratum.

    Raises:
        ValueError: no stratum with rows of both groups.
    """
    keys, which = np.unique(
        np.concatenate([plus_strata, minus_strata]), axis=0, return_inverse=True
    )
    which = which.reshape(-1)
    groups = ((plus, which[: len(plus)]), (minus, which[len(plus) :]))
    counts, sums = np.zeros((2, len(keys))), np.zeros((2, len(keys), plus.shape[1]))
    for side, (rows, strata) in enumerate(groups):
        counts[side] = np.bincount(strata, minlength=len(keys))
        np.add.at(sums[side], strata, rows.astype(np.float64))
    both = counts.min(axis=0) > 0
    if not both.any():
        raise ValueError(
            f"none of {len(keys)} strata has rows of both groups ({len(plus)} and {len(minus)} "
            "rows). Give more sequences."
        )
    counts, sums = counts[:, both], sums[:, both]
    means = sums / counts[:, :, None]
    weights = counts.prod(axis=0) / counts.sum(axis=0)
    return weights @ (means[0] - means[1]) / weights.sum()


def directions(
    hooked: Hooked, tokens: Int[np.ndarray, "n pos"], *, site: str = SITE
) -> dict[str, Float[np.ndarray, " d_model"]]:
    """The three directions of the table at the module's head, by name, from the rows ``tokens``.

    Raises:
        ValueError: rows that lack one of the groups, or as
            :func:`helpers.cross_model.activations.collect`.
    """
    labels = label(tokens)
    brackets = tokens >= OPENERS[0]
    if not brackets.any():
        raise ValueError(
            f"the {len(tokens)} rows hold no bracket: take rows of helpers.tasks.dyck."
        )
    x = collect(hooked, tokens, [site], mask=brackets)[site]
    position = np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)[brackets]
    depth, invalid = labels.depth[brackets], labels.sticky[brackets] == 1
    closing = np.isin(tokens[brackets], CLOSERS)

    def difference(plus: np.ndarray, minus: np.ndarray, *keys: np.ndarray) -> np.ndarray:
        strata = np.stack(keys, axis=1).astype(np.int64)
        return matched_difference(x[plus], strata[plus], x[minus], strata[minus])

    valid = np.flatnonzero(~invalid)
    deeper = np.stack([depth[valid] - 1, closing[valid]], axis=1)  # k of a position in group +
    level = np.stack([depth[valid], closing[valid]], axis=1)
    return {
        "depth": matched_difference(x[valid], deeper, x[valid], level),
        "sticky": difference(invalid, ~invalid, depth, position, closing),
        "closer": difference(~invalid & closing, ~invalid & ~closing, depth, position),
    }


def places(name: str, tokens: Int[np.ndarray, "n pos"]) -> Bool[np.ndarray, "n pos"]:
    """Where a direction has something to change.

    ``depth``: brackets of a valid prefix below the greatest depth; ``sticky``: brackets of a valid
    prefix; ``closer``: opening brackets of a valid prefix.

    Raises:
        ValueError: another name.
    """
    if name not in NAMES:
        raise ValueError(f"the directions are {', '.join(NAMES)}; got {name!r}.")
    labels = label(tokens)
    valid = (tokens >= OPENERS[0]) & (labels.sticky == 0)
    if name == "depth":
        return valid & (labels.depth < MAX_DEPTH)
    return valid & np.isin(tokens, OPENERS) if name == "closer" else valid
