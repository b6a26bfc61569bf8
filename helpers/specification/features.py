"""What could be known at a position of a row, as columns to regress on; and where brackets match.

``local_invalidity`` can be seen from two neighbours alone: a closer right behind an opener of
another family, or right behind BOS.  ``first_error`` needs all that is before: the place where the
sticky flag rises.  Depth and flag are the task's own answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from helpers.dyck.model import position_features
from helpers.tasks.dyck import BOS, CLOSERS, MAX_DEPTH, OPENERS, label

FEATURES = (
    "token",
    "family",
    "opener_closer",
    "depth",
    "depth_levels",
    "local_invalidity",
    "first_error",
    "sticky",
    "position",
)
TOKENS = 9  # that are ever used


def local_invalidity(rows: Int[np.ndarray, "n pos"]) -> Bool[np.ndarray, "n pos"]:
    """A closer behind an opener of another family, or behind BOS."""
    before = np.pad(rows[:, :-1], ((0, 0), (1, 0)))
    closes = np.isin(rows, CLOSERS)
    wrong = np.isin(before, OPENERS) & (rows != before + 1)
    return closes & (wrong | (before == BOS))


def first_error(rows: Int[np.ndarray, "n pos"]) -> Int[np.ndarray, " n"]:
    """The place where the sticky flag rises, by row; −1 where it never does."""
    sticky = label(rows).sticky
    return np.where(sticky[:, -1] == 1, sticky.argmax(axis=1), -1)


def feature_columns(
    rows: Int[np.ndarray, "n pos"],
) -> dict[str, Float[np.ndarray, "positions columns"]]:
    """Each of ``FEATURES`` at the real positions, row by row; classes as one column each."""
    labels = label(rows)
    mask = labels.mask
    tokens, depth = rows[mask], labels.depth[mask]
    place = np.nonzero(mask)[1]
    opens, closes = np.isin(tokens, OPENERS), np.isin(tokens, CLOSERS)
    family = np.where(opens | closes, (tokens - 1) // 2, 0)
    start = np.zeros(rows.shape, bool)
    error = first_error(rows)
    start[np.flatnonzero(error >= 0), error[error >= 0]] = True
    columns = {
        "token": np.eye(TOKENS)[tokens],
        "family": np.eye(4)[family],
        "opener_closer": np.stack([opens, closes], axis=1),
        "depth": depth[:, None],
        "depth_levels": np.eye(MAX_DEPTH + 1)[depth],
        "local_invalidity": local_invalidity(rows)[mask][:, None],
        "first_error": start[mask][:, None],
        "sticky": labels.sticky[mask][:, None],
        "position": position_features(rows.shape[1]).numpy()[place],
    }
    return {name: np.asarray(columns[name], np.float64) for name in FEATURES}


@dataclass(frozen=True, eq=False)
class Matches:
    """Closers that have an opener to match, up to a row's first error: ``row``, ``query``, ``key``.

    ``key`` is the place of the last open bracket, whether or not its family is right.
    """

    row: np.ndarray
    query: np.ndarray
    key: np.ndarray


def matches(rows: Int[np.ndarray, "n pos"], *, nearest: int = 1) -> Matches:
    """Every closer up to the first error with its opener, at least ``nearest`` places before it.

    Openers by depth: the last place where depth k was reached by an opener is the bracket that is
    open at depth k.
    """
    labels = label(rows)
    n, length = rows.shape
    last, found = np.zeros((n, MAX_DEPTH + 1), np.int64), []
    before = np.zeros(n, np.int64)
    sound = np.ones(n, bool)
    each = np.arange(n)
    for t in range(length):
        closes = np.isin(rows[:, t], CLOSERS) & sound & (before > 0)
        key = last[each, before]
        some = np.flatnonzero(closes & (t - key >= nearest))
        found.append(np.stack([some, np.full(len(some), t), key[some]]))
        sound &= labels.sticky[:, t] == 0
        opens = np.isin(rows[:, t], OPENERS) & sound
        last[each[opens], labels.depth[opens, t]] = t
        before = labels.depth[:, t]
    return Matches(*np.concatenate(found, axis=1))
