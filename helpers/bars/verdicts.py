"""From measured values to verdicts, under registered thresholds only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from helpers.bars.bar import Bar
from helpers.bars.evidence import Evidence, Opened, digest
from helpers.bars.registration import Registration, RegistrationError, check

PASS, FAIL, UNDECIDED = "pass", "fail", "undecided"


@dataclass(frozen=True)
class Measured:
    """What a bar reads.

    Args:
        value: in the bar's own unit.
        interval: its 95 % interval.
        relative_error: Σ|error| / Σ|effect|, beside every r.
        nulls: the same quantity on what the bar's ``null`` names.
        same_function: the specification and the model are one function, so that this could not
            fail, whatever the bar says of itself.
    """

    value: float
    interval: tuple[float, float] | None = None
    relative_error: float | None = None
    nulls: Mapping[str, float] = field(default_factory=dict)
    same_function: bool = False


@dataclass(frozen=True)
class Verdict:
    """One bar's outcome (``pass``, ``fail``, ``undecided``), and whether it was ever in doubt.

    ``theorem``: the value could not fail.  ``nulls_that_pass``: what passes without being right.
    """

    bar: Bar
    measured: Measured
    outcome: str
    theorem: bool
    nulls_that_pass: tuple[str, ...]


@dataclass(frozen=True)
class Verdicts:
    """All verdicts, with what they rest on: the registration's hash and date, and every look.

    ``sha256`` is the hash of the measured values.
    """

    verdicts: tuple[Verdict, ...]
    spec: str
    registration: str
    registered: str
    opened: tuple[Opened, ...]
    sha256: str

    def __getitem__(self, name: str) -> Verdict:
        return {verdict.bar.name: verdict for verdict in self.verdicts}[name]

    @property
    def rows(self) -> list[dict[str, str]]:
        """A row a bar, as texts to show."""
        return [_row(verdict) for verdict in self.verdicts]

    @property
    def markdown(self) -> str:
        """The same as a table in Markdown, with the registration under it."""
        rows = self.rows
        lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return (
            f"{table}\n\nSpecification: {self.spec}. Registered {self.registered}, "
            f"SHA-256 `{self.registration[:12]}`."
        )


def evaluate(
    bars: Sequence[Bar],
    measured: Mapping[str, Measured],
    registration: Registration,
    evidence: Evidence,
) -> Verdicts:
    """The verdict on every registered bar.

    A bar passes where value and whole interval clear the threshold, fails where both miss it, and
    is undecided in between.

    Args:
        bars: the registered ones.
        measured: by the bar's name; every registered bar needs a value.
        registration: from :func:`helpers.bars.register` or :func:`helpers.bars.load`.
        evidence: what was opened to measure this.

    Raises:
        RegistrationError: other thresholds, a changed file, a registration that came after the
            first look, a registered bar that was not measured, or one that was not registered.
        ValueError: a value that is not finite, or outside of its interval.
    """
    filed = check(registration, bars, evidence)
    names = [bar.name for bar in filed.bars]
    missing = [name for name in names if name not in measured]
    extra = [name for name in measured if name not in names]
    if missing or extra:
        raise RegistrationError(
            f"bar {missing[0]} is registered and was not measured: measure it, since a registered "
            "bar is not dropped."
            if missing
            else f"bar {extra[0]} was measured and is not registered: it decides nothing."
        )
    verdicts = tuple(_judge(bar, measured[bar.name]) for bar in filed.bars)
    values = digest({name: asdict(value) for name, value in measured.items()})
    return Verdicts(verdicts, filed.spec, filed.sha256, filed.date, evidence.opened, values)


def _judge(bar: Bar, measured: Measured) -> Verdict:
    low, high = measured.interval or (measured.value, measured.value)
    numbers = (measured.value, low, high, *measured.nulls.values())
    if not all(math.isfinite(number) for number in numbers) or not low <= measured.value <= high:
        raise ValueError(
            f"bar {bar.name}: value {measured.value}, interval {measured.interval} and nulls "
            f"{dict(measured.nulls)} must be finite, with the value inside the interval."
        )
    cleared = {bar.clears(number) for number in (measured.value, low, high)}
    outcome = UNDECIDED if len(cleared) == 2 else PASS if cleared == {True} else FAIL
    theorem = not bar.substantive or measured.same_function
    passing = tuple(name for name, value in measured.nulls.items() if bar.clears(value))
    return Verdict(bar, measured, outcome, theorem, passing)


def _row(verdict: Verdict) -> dict[str, str]:
    bar, measured = verdict.bar, verdict.measured
    nulls = [
        f"{name}: {value:.3g}" + (" (passes)" if name in verdict.nulls_that_pass else "")
        for name, value in measured.nulls.items()
    ]
    interval: Any = measured.interval
    return {
        "bar": bar.name,
        "what": bar.what,
        "condition": bar.condition,
        "value": f"{measured.value:.4g}",
        "95 % interval": f"{interval[0]:.4g} … {interval[1]:.4g}" if interval else "",
        "Σ error / Σ effect": ""
        if measured.relative_error is None
        else f"{measured.relative_error:.3g}",
        "nulls": "; ".join(nulls),
        "verdict": verdict.outcome + (" (theorem)" if verdict.theorem else ""),
    }
