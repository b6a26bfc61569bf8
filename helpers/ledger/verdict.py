"""From numbers to a verdict: pure logic, no files.

A part of a condition passes where the whole interval satisfies it, fails where the whole interval
violates it, and is undecided in between. The verdict is

- *not reproduced* if any part fails,
- else *undecided* if any part is undecided, too few independent units were measured, or a null or
  control has a threshold of its own and an interval that straddles it,
- else *reproduced with a caveat* if a null passes, a control does not violate, or the chapter
  states a caveat of its own,
- else *reproduced*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from helpers.ledger.claims import Claim, Part

PASS, FAIL, UNDECIDED = "pass", "fail", "undecided"


@dataclass(frozen=True)
class Value:
    """A measured number and, where there is one, its 95 % interval (low, high)."""

    point: float
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Judgement:
    """The verdict, what became of each part (`pass`, `fail`, `undecided`), and why."""

    verdict: str
    parts: Mapping[str, str]
    reasons: tuple[str, ...] = field(default=())


def judge_part(part: Part, value: Value) -> str:
    """`pass`, `fail` or `undecided` for one part of a condition.

    Raises ValueError for `holds` without an interval: nothing else can answer it.
    """
    if part.op == "holds":
        if value.interval is None:
            raise ValueError(f"{part.name}: `holds` asks about an interval. Give one.")
        low, high = value.interval
        return PASS if low <= part.value <= high else FAIL
    if part.op == "==":
        return PASS if value.point == part.value else FAIL
    use_point = part.decide == "point" or value.interval is None
    low, high = (value.point, value.point) if use_point else value.interval
    return _judge_interval(part, low, high)


def _judge_interval(part: Part, low: float, high: float) -> str:
    """Compare the whole of [low, high] with the set that the part allows."""
    bound = part.value
    inside, outside = {
        "<=": lambda: (high <= bound, low > bound),
        "<": lambda: (high < bound, low >= bound),
        ">=": lambda: (low >= bound, high < bound),
        ">": lambda: (low > bound, high <= bound),
        "between": lambda: (
            bound[0] <= low and high <= bound[1],
            high < bound[0] or low > bound[1],
        ),
    }[part.op]()
    return PASS if inside else FAIL if outside else UNDECIDED


def satisfies(parts: Sequence[Part], values: Mapping[str, Value]) -> bool:
    """Whether the point values satisfy all parts; only `holds` looks at the interval."""
    points = {
        part.name: values[part.name] if part.op == "holds" else Value(values[part.name].point)
        for part in parts
    }
    return all(judge_part(part, points[part.name]) == PASS for part in parts)


def judge(
    claim: Claim,
    measured: Mapping[str, Value],
    *,
    n: int,
    profile: str,
    nulls: Mapping[str, Mapping[str, Value]],
    controls: Mapping[str, Mapping[str, Value]],
    caveat: str = "",
) -> Judgement:
    """The verdict on `claim`, given values for all its parts and for all references' parts."""
    active = claim.active_parts(profile)
    parts = {part.name: judge_part(part, measured[part.name]) for part in active}
    failed = [part.label for part in active if parts[part.name] == FAIL]
    if failed:
        return Judgement("not reproduced", parts, (f"fails: {', '.join(failed)}",))
    open_ = [part.label for part in active if parts[part.name] == UNDECIDED]
    doubts = [f"the interval straddles the threshold: {', '.join(open_)}"] if open_ else []
    if n < claim.min_n:
        doubts.append(f"too few independent units: {n}, and the condition asks for {claim.min_n}")
    doubts += [
        f"the {role}'s own interval straddles its threshold: {name}"
        for role, group in (("null", nulls), ("control", controls))
        for name, values in group.items()
        if _cannot_tell(claim, profile, values)
    ]
    if doubts:
        return Judgement("undecided", parts, tuple(doubts))
    reasons = [
        f"the {role} passes as well: {name}"
        if role == "null"
        else f"the control does not violate the condition: {name}"
        for role, group in (("null", nulls), ("control", controls))
        for name, values in group.items()
        if not _stands_apart(claim, profile, values)
    ]
    if caveat.strip():
        reasons.append(caveat.strip())
    return Judgement("reproduced with a caveat" if reasons else "reproduced", parts, tuple(reasons))


def reference_parts(claim: Claim, profile: str) -> tuple[Part, ...]:
    """The parts that a null or control of this claim must give."""
    return claim.reference_parts or claim.active_parts(profile)


def _stands_apart(claim: Claim, profile: str, values: Mapping[str, Value]) -> bool:
    """Whether a null or control does what it must: violate the condition, or meet its own."""
    wanted = reference_parts(claim, profile)
    return satisfies(wanted, values) == bool(claim.reference_parts)


def _cannot_tell(claim: Claim, profile: str, values: Mapping[str, Value]) -> bool:
    """Whether its interval leaves open if a null or control meets a condition of its own.

    One part that surely fails settles it; so does it if all surely pass.  Without a condition of
    its own it is judged on its point: the question is then only if it does as well as we do.
    """
    found = [judge_part(part, values[part.name]) for part in claim.reference_parts]
    return FAIL not in found and UNDECIDED in found
