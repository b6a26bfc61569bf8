r"""One number a head for each thing that a head might do; every number is (layer, head).

All are measured, and none knows which head ought to do it.  What a statistic is worth is a question
of its nulls: see :mod:`helpers.specification.roles`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from helpers.dyck.model import position_features
from helpers.specification.annotate import held_out
from helpers.specification.features import first_error, matches
from helpers.tasks.dyck import BOS, OPENERS, label

if TYPE_CHECKING:
    from helpers.dyck.hooked import HookedDyck


@dataclass(frozen=True, eq=False)
class Heads:
    """What heads do on ``rows``: ``pattern`` (layer, head, n, query, key), ``write`` what they
    write (layer, head, n, pos, d_model)."""

    rows: np.ndarray
    pattern: np.ndarray
    write: np.ndarray


@torch.no_grad()
def heads_on(hooked: HookedDyck, rows: Int[np.ndarray, "n pos"]) -> Heads:
    """Patterns and outputs of every head; a few hundred rows are plenty, and fit in memory."""
    kinds = ("hook_pattern", "hook_z")
    _, cache = hooked.run_with_cache(
        torch.from_numpy(rows), names_filter=lambda name: name.endswith(kinds)
    )
    blocks = range(hooked.config.n_layers)
    pattern = torch.stack([cache[f"blocks.{i}.attn.hook_pattern"] for i in blocks])
    z = torch.stack([cache[f"blocks.{i}.attn.hook_z"] for i in blocks])
    write = torch.einsum("lnphe,lhed->lhnpd", z, hooked.W_O)
    return Heads(rows, pattern.transpose(1, 2).numpy(), write.numpy())


def uniformity(heads: Heads, where: Bool[np.ndarray, "n pos"]) -> Float[np.ndarray, "layer head"]:
    """Mean of entropy(attention at t) / log(t + 1): 1 for equal attention to all that is behind."""
    row, query = np.nonzero(where)
    p = heads.pattern[:, :, row, query].astype(np.float64)
    entropy = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(axis=-1)
    return (entropy / np.log(query + 1)).mean(axis=-1)


def counting(
    heads: Heads, where: Bool[np.ndarray, "n pos"], balance: Float[np.ndarray, "n pos"]
) -> Float[np.ndarray, "layer head"]:
    """Share of what a head writes that ``balance`` explains, of all that position does not.

    (EV(position, balance) − EV(position)) / (1 − EV(position)), fitted on every second row and
    held out on the others.
    """
    row, query = np.nonzero(where)
    fit = row % 2 == 0
    position = position_features(where.shape[1]).numpy()[query].astype(np.float64)
    both = np.concatenate([position, balance[row, query][:, None]], axis=1)
    shares = np.empty(heads.pattern.shape[:2])
    for place in np.ndindex(shares.shape):
        Y = heads.write[place][row, query].astype(np.float64)
        missed = [
            ((Y[~fit] - held_out(X[fit], Y[fit], X[~fit])) ** 2).sum() for X in (position, both)
        ]
        shares[place] = 1 - missed[1] / missed[0]
    return shares


def mass(
    heads: Heads,
    row: Int[np.ndarray, " m"],
    query: Int[np.ndarray, " m"],
    key: Int[np.ndarray, " m"],
) -> Float[np.ndarray, "layer head"]:
    """Mean attention from each query to its key."""
    return heads.pattern[:, :, row, query, key].mean(axis=-1, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Statistic:
    """``value`` (layer, head), and the same with other labels: ``shuffled`` (layer, head).

    ``chance`` is what equal attention to all that is behind gets.
    """

    value: np.ndarray
    shuffled: np.ndarray
    chance: float


def depth_counter(heads: Heads, generator: np.random.Generator) -> Statistic:
    """min(:func:`uniformity`, :func:`counting`) at valid prefixes, balance being depth / (t + 1).

    That is the mean of +1 for openers and −1 for closers over all places so far, which equal
    attention computes.  Shuffled: balance of other positions at the same place of a row.
    """
    labels = label(heads.rows)
    where = labels.mask & (labels.sticky == 0)
    where[:, 0] = False
    balance = labels.depth / (np.arange(heads.rows.shape[1]) + 1.0)
    mixed = balance.copy()
    for t in range(where.shape[1]):
        some = np.flatnonzero(where[:, t])
        mixed[some, t] = balance[generator.permutation(some), t]
    even = uniformity(heads, where)
    value, shuffled = (np.minimum(even, counting(heads, where, b)) for b in (balance, mixed))
    return Statistic(value, shuffled, float("nan"))


def family_matcher(heads: Heads, generator: np.random.Generator) -> Statistic:
    """Mean attention from a closer to the opener that it has to match, at least two places before.

    Shuffled: another opener before the same closer.
    """
    found = matches(heads.rows, nearest=2)
    opens = np.isin(heads.rows, OPENERS)
    before = np.arange(opens.shape[1])[None, :] < found.query[:, None]
    others = opens[found.row] & before
    others[np.arange(len(found.key)), found.key] = False
    any_other = others.any(axis=1)
    drawn = np.where(others, generator.random(others.shape), -1).argmax(axis=1)[any_other]
    return Statistic(
        mass(heads, found.row, found.query, found.key),
        mass(heads, found.row[any_other], found.query[any_other], drawn),
        float((1 / (found.query + 1)).mean()),
    )


def sticky_or(heads: Heads, generator: np.random.Generator) -> Statistic:
    """Mean attention to a row's first error from the places behind it.

    Shuffled: the first error of another row, where that lies before the query.
    """
    error = first_error(heads.rows)
    mask = label(heads.rows).mask
    place = np.arange(mask.shape[1])
    some = np.flatnonzero(error >= 0)
    row, query = np.nonzero((place > error[:, None]) & (error >= 0)[:, None] & mask)
    mixed = error.copy()
    mixed[some] = error[generator.permutation(some)]
    use = (mixed[row] < query) & (mixed[row] != error[row])
    return Statistic(
        mass(heads, row, query, error[row]),
        mass(heads, row[use], query[use], mixed[row[use]]),
        float((1 / (query + 1)).mean()),
    )


def bos_mass(heads: Heads) -> Float[np.ndarray, "layer head"]:
    """Mean attention to BOS from real places behind it: where a head rests."""
    row, query = np.nonzero(label(heads.rows).mask & (heads.rows != BOS))
    return mass(heads, row, query, np.zeros_like(query))
