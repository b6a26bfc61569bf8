"""Check the numbers that a chapter hands to the ledger, before anything is judged."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from helpers.ledger.claims import Claim
from helpers.ledger.verdict import Value


class LedgerError(ValueError):
    """A measurement that cannot be judged. The message names the claim and what to do."""


def checked(
    at: str,
    role: str,
    claim: Claim,
    wanted: Sequence[str],
    points: Mapping[str, Any],
    intervals: Mapping[str, Any],
) -> dict[str, Value]:
    """Check the numbers of one thing measured; errors name the claim, the thing and the part."""
    # What another profile decides on, or what is context for a null, is kept without being judged.
    known = {part.name for part in claim.parts} | set(wanted)
    for problem, names in (
        ("lacks", [name for name in wanted if name not in points]),
        ("has unknown", [name for name in (*points, *intervals) if name not in known]),
        ("has an interval without a value for", [name for name in intervals if name not in points]),
    ):
        if names:
            raise LedgerError(f"{at}: {role} {problem} {sorted(names)}. Parts wanted: {wanted}.")
    values = {}
    for name, point in points.items():
        point = _finite(f"{at}: {role} {name}", point)
        pair = intervals.get(name)
        if pair is not None:
            if len(pair) != 2:
                raise LedgerError(f"{at}: {role} {name}: an interval is (low, high), not {pair!r}.")
            low, high = (_finite(f"{at}: the interval of {role} {name}", end) for end in pair)
            if not low <= point <= high:
                raise LedgerError(
                    f"{at}: {role} {name} is {point}, its interval ({low}, {high}): an interval "
                    "goes from low to high and holds its point. Compute both from the same numbers."
                )
            pair = (low, high)
        values[name] = Value(point, pair)
    return values


def _finite(what: str, value: Any) -> float:
    try:
        value = float(value)
    except (TypeError, ValueError):
        raise LedgerError(f"{what} must be one number, found {value!r}.") from None
    if not math.isfinite(value):
        raise LedgerError(f"{what} is {value}. Find where it arises; it cannot be judged.")
    return value


def split(at: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parts given as `number` or `(number, (low, high))`, as points and intervals apart."""
    pairs = {name: value for name, value in given.items() if isinstance(value, tuple | list)}
    for name, pair in pairs.items():
        if len(pair) != 2:
            raise LedgerError(f"{at} {name}: give a number, or (number, (low, high)): {pair!r}.")
    points = {name: pairs[name][0] if name in pairs else value for name, value in given.items()}
    return points, {name: pair[1] for name, pair in pairs.items()}


def plain(values: Mapping[str, Value]) -> dict[str, Any]:
    """Values as JSON."""
    return {
        name: {"value": value.point, "interval": list(value.interval) if value.interval else None}
        for name, value in values.items()
    }


def units(at: str, n: Any) -> int:
    """The number of independent units, checked."""
    try:
        count = 0 if isinstance(n, bool) else operator.index(n)
    except TypeError:
        count = 0
    if count < 1:
        raise LedgerError(f"{at}: n is the number of independent units, at least 1, not {n!r}.")
    return count
