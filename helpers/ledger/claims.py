"""What a claim is: a statement of a paper, and the condition fixed before the book measured it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KINDS = ("presence", "absence", "finding")
OPS = ("<=", ">=", "<", ">", "==", "between", "holds")
PROFILES = ("quick", "laptop", "full")
VERDICTS = ("reproduced", "reproduced with a caveat", "not reproduced", "undecided")


class ClaimsError(ValueError):
    """`claims.yml` does not say what it must. The message names the entry and what to do."""


@dataclass(frozen=True)
class Part:
    """One inequality of a condition: the measured number `name`, compared with `value` by `op`."""

    name: str
    op: str
    value: float | tuple[float, float]
    label: str
    decide: str = "interval"
    profiles: tuple[str, ...] = PROFILES


@dataclass(frozen=True)
class Claim:
    """One entry of `claims.yml`. `expected` is None until it is fixed before a published run."""

    id: str
    chapter: str
    source: Mapping[str, str]
    statement: str
    quantity: str
    paper: str | None
    kind: str
    condition: str
    parts: tuple[Part, ...]
    null: str | None
    control: str | None
    reference_parts: tuple[Part, ...]
    min_n: int
    dagger: bool
    expected: Mapping[str, str] | None
    history: tuple[Mapping[str, str], ...]

    def active_parts(self, profile: str) -> tuple[Part, ...]:
        """The parts of the condition that decide in `profile`."""
        return tuple(part for part in self.parts if profile in part.profiles)

    @property
    def needs_reference(self) -> bool:
        """Whether a measurement without any null or control is worthless."""
        return self.null is not None or self.control is not None


@dataclass(frozen=True)
class Claims:
    """All claims by id, with their sources, the chapters' titles and the day they were fixed."""

    fixed: str
    sources: Mapping[str, Mapping[str, Any]]
    chapters: Mapping[str, str]
    by_id: Mapping[str, Claim]

    def of_chapter(self, chapter: str) -> list[Claim]:
        return [claim for claim in self.by_id.values() if claim.chapter == chapter]
