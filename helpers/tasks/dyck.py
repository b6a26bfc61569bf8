"""Brackets of three families, with the depth and the first error known at every position.

A row is ``BOS s EOS PAD …`` with n_ctx = 64 places, s being 2 to 62 brackets.  Three things are
asked at each position (McCann 2026, small scale): the token itself (copy), the depth 0…8, and a
sticky flag: 0 until the first error, and 1 from it on.  An error is a closer at depth 0, a closer
of another family than the last open bracket's, or an opener at depth 8.  The depth stays where it
was before the error.  EOS changes nothing: brackets that are still open are no error.

Every distribution is a function of (rng, n) that returns n rows; :func:`label` answers them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

PAD, BOS, EOS = 0, 1, 2
SYMBOLS = ("", "^", "$", "(", ")", "[", "]", "{", "}")  # by token; the other 31 are never used
OPENERS, CLOSERS = np.array([3, 5, 7]), np.array([4, 6, 8])
D_VOCAB, N_CTX, MAX_DEPTH = 40, 64, 8
LONGEST = N_CTX - 2
P_OPEN = 0.55
MIN_NEST = 5  # levels of a held-out nest, at least

_KIND = np.array([0, 0, 0, 1, -1, 1, -1, 1, -1])  # by token: 1 opens, −1 closes
_FAMILY = np.array([0, 0, 0, 1, 1, 2, 2, 3, 3])


@dataclass(frozen=True)
class Labels:
    """What is asked of rows (n, pos): ``copy``, ``depth`` and ``sticky``; ``mask``: not padding."""

    copy: Int[np.ndarray, "n pos"]
    depth: Int[np.ndarray, "n pos"]
    sticky: Int[np.ndarray, "n pos"]
    mask: Bool[np.ndarray, "n pos"]


def label(tokens: Int[np.ndarray, "n pos"]) -> Labels:
    """The right answers, by a stack a row; all rows advance together.

    The stack is one integer: two bits a level, the last open family in the lowest.  0 is no
    family, so that a closer at depth 0 matches nothing.

    Raises:
        ValueError: a token that is no bracket, BOS, EOS or PAD.
    """
    if tokens.size and not 0 <= tokens.min() <= tokens.max() < len(_KIND):
        raise ValueError(
            f"tokens lie in 0…{len(_KIND) - 1}; got {tokens.min()}…{tokens.max()}. The rest of the "
            f"vocabulary ({D_VOCAB}) is never used."
        )
    kinds, families = _KIND[tokens.T], _FAMILY[tokens.T]  # a position's are neighbours
    depths, flags = np.empty(kinds.shape, np.int64), np.empty(kinds.shape, np.int64)
    depth = np.zeros(len(tokens), np.int64)
    stack, sound = depth.copy(), np.ones(len(tokens), bool)
    for t, (kind, family) in enumerate(zip(kinds, families, strict=True)):
        opens, closes = kind == 1, kind == -1
        sound &= ~(opens & (depth == MAX_DEPTH)) & ~(closes & (stack & 3 != family))
        stack = np.where(opens & sound, stack << 2 | family, stack)
        stack = np.where(closes & sound, stack >> 2, stack)
        depth = depth + kind * sound
        depths[t], flags[t] = depth, ~sound
    return Labels(tokens.astype(np.int64), depths.T.copy(), flags.T.copy(), tokens != PAD)


def train_rows(rng: np.random.Generator, n: int) -> Int[np.ndarray, "n 64"]:
    """Half valid Dyck-3 of even lengths, half uniformly random brackets of any length 2…62.

    No row has the shape of a held-out one (:func:`nested`): these 0.3 % are drawn again.  Other
    rows may come back in any two batches, also in one that is kept for evaluation: there are only
    36 of two brackets.  Of twenty brackets and more, hardly any does.
    """
    parts = [_held_off(rng, n // 2, _random), _held_off(rng, n - n // 2, _valid)]
    return np.concatenate(parts)[rng.permutation(n)]


def thinned_rows(rng: np.random.Generator, n: int) -> Int[np.ndarray, "n 64"]:
    """Rows to train on: :func:`train_rows`, without most of what only repeats an answer.

    After a random row's first error, which comes early, depth and flag stay as they are: some
    thirty places ask one question.  So random rows end some places behind their first error, 1 to
    64 (log-uniformly), or at their own end if that comes first, and five of them, instead of one,
    go with a valid one.  Half of them fail at their first bracket, which is one question again: so
    of two random rows the one is taken that fails later.  A row that is cut has no EOS; a causal
    model answers at a place whatever follows.
    """
    parts = [_held_off(rng, n - n // 6, _cut), _held_off(rng, n // 6, _valid)]
    return np.concatenate(parts)[rng.permutation(n)]


def long_rows(rng: np.random.Generator, n: int) -> Int[np.ndarray, "n 64"]:
    """As :func:`train_rows`, with 50 to 60 brackets.

    Training has such lengths too.  That it has one of these very rows is out of the question: a
    random one comes up with probability 6⁻⁵⁰ or less, a valid one hardly more often.
    """
    parts = [_random(rng, n // 2, 50, 60), _valid(rng, n - n // 2, 50, 60)]
    return np.concatenate(parts)[rng.permutation(n)]


def compositional_rows(rng: np.random.Generator, n: int) -> Int[np.ndarray, "n 64"]:
    """Deep nests of one family inside one or two shallow pairs of other families, 1 to 3 a row.

    ``([{{{{{}}}}}])`` is one: k = 1 or 2 outer pairs, each of another family than what it holds,
    and 4 to 8 − k pairs of one family.  In half of the rows one closer has a wrong family.
    Training has none of these: see :func:`nested`.
    """
    outer = rng.integers(1, 3, (n, 3))
    inner = rng.integers(MIN_NEST - 1, MAX_DEPTH - outer + 1)
    pairs = (outer + inner) * (np.arange(3) < rng.integers(1, 4, (n, 1)))
    core = rng.integers(3, size=(n, 3))
    second = (core + rng.integers(1, 3, (n, 3))) % 3  # around the core
    first = (np.where(outer == 2, second, core) + rng.integers(1, 3, (n, 3))) % 3
    ends = np.cumsum(2 * pairs, axis=1)
    place = np.arange(LONGEST)
    item = np.minimum((place >= ends[:, :, None]).sum(axis=1), 2)

    def of_item(values: np.ndarray) -> np.ndarray:
        return np.take_along_axis(values, item, axis=1)

    offset = place - of_item(ends - 2 * pairs)
    opens = offset < of_item(pairs)
    level = np.where(opens, offset, 2 * of_item(pairs) - 1 - offset)
    family = np.where((level == 1) & (of_item(outer) == 2), of_item(second), of_item(core))
    family = np.where(level == 0, of_item(first), family)
    closers = ~opens & (place < ends[:, -1:])
    broken = np.argmax(rng.random(closers.shape) * closers, axis=1)
    shift = rng.integers(1, 3, n) * (rng.random(n) < 0.5)
    family[np.arange(n), broken] = (family[np.arange(n), broken] + shift) % 3
    return _framed(np.where(opens, OPENERS[family], CLOSERS[family]), ends[:, -1])


def nested(tokens: Int[np.ndarray, "n 64"]) -> Bool[np.ndarray, " n"]:
    """Whether a row has the shape of a held-out one: straight nests of at least five levels.

    Openers and closers alone count, not their families: every nest goes straight up from depth 0
    to 5 or more, and straight down again, and there is nothing else.
    """
    kind = _KIND[tokens]
    walk = np.cumsum(kind, axis=1)
    before, after, between = kind[:, :-1], kind[:, 1:], walk[:, :-1]
    short = (before == 1) & (after == -1) & (between < MIN_NEST)
    bent = (before == -1) & (after == 1) & (between != 0)
    straight = ~(short | bent).any(axis=1) & (walk.min(axis=1) >= 0)
    return straight & (walk[:, -1] == 0) & (walk.max(axis=1) > 0)


def text(row: Int[np.ndarray, " pos"]) -> str:
    """A row to read: ``^([])$``."""
    return "".join(SYMBOLS[token] for token in row)


def _held_off(rng: np.random.Generator, n: int, draw: Callable[..., np.ndarray]) -> np.ndarray:
    """Rows of any length, without the shape of held-out ones."""
    rows = draw(rng, n, 2, LONGEST)
    while len(bad := np.flatnonzero(nested(rows))):
        rows[bad] = draw(rng, len(bad), 2, LONGEST)
    return rows


def _random(rng: np.random.Generator, n: int, low: int, high: int) -> np.ndarray:
    """Rows of ``low`` to ``high`` brackets, each drawn from all six."""
    brackets = rng.integers(OPENERS[0], CLOSERS[-1] + 1, (n, LONGEST))
    return _framed(brackets, rng.integers(low, high + 1, n))


def _cut(rng: np.random.Generator, n: int, low: int, high: int) -> np.ndarray:
    """Of two random rows each, the one whose first error comes later, cut behind that error."""
    rows = _random(rng, 2 * n, low, high)
    sticky = label(rows).sticky
    first = np.where(sticky[:, -1], sticky.argmax(axis=1), N_CTX).reshape(2, n)
    rows = np.where((first[0] >= first[1])[:, None], rows[:n], rows[n:])
    last = first.max(axis=0) + np.floor(N_CTX ** rng.random(n))
    return np.where(np.arange(N_CTX) > last[:, None], PAD, rows)


def _valid(rng: np.random.Generator, n: int, low: int, high: int) -> np.ndarray:
    """Rows that are a Dyck-3 word of an even length from ``low`` to ``high`` (both even).

    A walk that opens with P_OPEN, except where depth 0 or 8, or the places that are left, leave
    no choice.  A closer takes the family of the bracket that it closes.
    """
    lengths = 2 * rng.integers(low // 2, high // 2 + 1, n)
    wants = rng.random((LONGEST, n), dtype=np.float32) < P_OPEN
    fresh = rng.integers(3, size=(LONGEST, n))
    words, depth = np.empty((LONGEST, n), np.int64), np.zeros(n, np.int64)
    families, rows = np.zeros((MAX_DEPTH + 1, n), np.int64), np.arange(n)  # open, by depth
    for t in range(LONGEST):
        opens = (depth == 0) | (wants[t] & (depth < MAX_DEPTH) & (depth < lengths - t))
        depth += opens
        family = families[depth, rows] = np.where(opens, fresh[t], families[depth, rows])
        words[t] = np.where(opens, OPENERS[family], CLOSERS[family])
        depth -= ~opens
    return _framed(words.T, lengths)


def _framed(brackets: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """``BOS s EOS PAD …``: s being the first ``lengths`` of the brackets (n, 62)."""
    place, lengths = np.arange(LONGEST + 1), lengths[:, None]
    padded = np.pad(brackets, ((0, 0), (0, 1)))
    body = np.where(place < lengths, padded, np.where(place == lengths, EOS, PAD))
    return np.pad(body, ((0, 0), (1, 0)), constant_values=BOS)
