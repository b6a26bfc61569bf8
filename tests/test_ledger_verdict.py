"""Verdicts follow from numbers by the rules, whichever way they come out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.ledger.claims import Claim, Part
from helpers.ledger.verdict import Value, judge, judge_part, satisfies


def part(op: str, value, decide: str = "interval", name: str = "x", profiles=("laptop",)) -> Part:
    value = tuple(map(float, value)) if isinstance(value, tuple) else float(value)
    return Part(name, op, value, f"label of {name}", decide, profiles)


def claim(*parts: Part, kind="presence", reference_parts=(), min_n=1) -> Claim:
    return Claim(
        id="a.claim",
        chapter="01_x",
        source={"paper": "book", "section": "x"},
        statement="s",
        quantity="q",
        paper=None,
        kind=kind,
        condition="c",
        parts=parts,
        null="n",
        control=None,
        reference_parts=tuple(reference_parts),
        min_n=min_n,
        dagger=False,
        expected=None,
        history=(),
    )


def verdict(subject: Claim, measured, n=8, nulls=None, controls=None, caveat="", profile="laptop"):
    return judge(
        subject,
        measured,
        n=n,
        profile=profile,
        nulls=nulls or {},
        controls=controls or {},
        caveat=caveat,
    )


FAILING_NULL = {"a random draw": {"x": Value(0.0)}}
AT_LEAST_1 = part(">=", 1)


@pytest.mark.parametrize(
    "op, bound, interval, outcome",
    [
        ("<=", 1, (0.5, 1.0), "pass"),
        ("<=", 1, (1.01, 2.0), "fail"),
        ("<=", 1, (0.5, 1.5), "undecided"),
        ("<", 1, (0.5, 0.99), "pass"),
        ("<", 1, (0.5, 1.0), "undecided"),
        ("<", 1, (1.0, 2.0), "fail"),
        (">=", 1, (1.0, 2.0), "pass"),
        (">=", 1, (0.0, 0.99), "fail"),
        (">=", 1, (0.0, 1.0), "undecided"),
        (">", 1, (1.01, 2.0), "pass"),
        (">", 1, (1.0, 2.0), "undecided"),
        (">", 1, (0.0, 1.0), "fail"),
        ("between", (1, 2), (1.0, 2.0), "pass"),
        ("between", (1, 2), (0.9, 1.5), "undecided"),
        ("between", (1, 2), (0.0, 3.0), "undecided"),
        ("between", (1, 2), (2.1, 3.0), "fail"),
        ("between", (1, 2), (0.0, 0.9), "fail"),
        ("holds", -1, (-1.2, -0.8), "pass"),
        ("holds", -1, (-0.9, -0.8), "fail"),
    ],
)
def test_the_whole_interval_decides(op, bound, interval, outcome):
    value = Value(sum(interval) / 2, interval)
    assert judge_part(part(op, bound), value) == outcome


def test_a_count_is_decided_on_its_point_whatever_the_interval():
    assert judge_part(part(">=", 0.875, "point"), Value(0.875, (0.5, 1.0))) == "pass"


def test_exact_equality_is_decided_on_the_point():
    assert judge_part(part("==", 0, "point"), Value(0.0)) == "pass"
    assert judge_part(part("==", 0, "point"), Value(1e-12)) == "fail"


def test_holding_a_value_needs_an_interval():
    with pytest.raises(ValueError, match="x: `holds` asks about an interval"):
        judge_part(part("holds", -1), Value(-1.0))


@given(
    op=st.sampled_from(["<=", "<", ">=", ">"]),
    bound=st.floats(-5, 5),
    ends=st.tuples(st.floats(-5, 5), st.floats(-5, 5)),
)
def test_an_interval_passes_or_fails_only_if_every_point_of_it_does(op, bound, ends):
    low, high = sorted(ends)
    points = {judge_part(part(op, bound), Value(end)) for end in (low, high)}
    outcome = judge_part(part(op, bound), Value(low, (low, high)))
    assert outcome == (points.pop() if len(points) == 1 else "undecided")


def test_all_parts_pass_and_the_null_fails_is_reproduced():
    result = verdict(claim(AT_LEAST_1), {"x": Value(2.0, (1.5, 2.5))}, nulls=FAILING_NULL)
    assert (result.verdict, result.reasons) == ("reproduced", ())


def test_one_failed_part_is_not_reproduced_and_is_named():
    subject = claim(AT_LEAST_1, part("<=", 0, name="y"))
    result = verdict(subject, {"x": Value(2.0), "y": Value(1.0)})
    assert result.verdict == "not reproduced"
    assert result.reasons == ("fails: label of y",)


def test_a_failed_part_outweighs_an_undecided_one():
    subject = claim(AT_LEAST_1, part("<=", 0, name="y"))
    result = verdict(subject, {"x": Value(1.0, (0.5, 1.5)), "y": Value(1.0)})
    assert result.verdict == "not reproduced"


def test_an_undecided_part_outweighs_a_passing_null():
    passing = {"a random draw": {"x": Value(3.0)}}
    result = verdict(claim(AT_LEAST_1), {"x": Value(1.0, (0.5, 1.5))}, nulls=passing)
    assert result.verdict == "undecided"


def test_a_null_that_passes_leaves_a_caveat_and_is_named():
    nulls = FAILING_NULL | {"bare embeddings": {"x": Value(1.0)}}
    result = verdict(claim(AT_LEAST_1), {"x": Value(2.0)}, nulls=nulls)
    assert result.verdict == "reproduced with a caveat"
    assert result.reasons == ("the null passes as well: bare embeddings",)


def test_a_null_must_satisfy_every_part_to_count_as_passing():
    subject = claim(AT_LEAST_1, part("<=", 0, name="y"))
    nulls = {"half": {"x": Value(2.0), "y": Value(1.0)}}
    result = verdict(subject, {"x": Value(2.0), "y": Value(0.0)}, nulls=nulls)
    assert result.verdict == "reproduced"


def test_a_null_is_judged_on_its_point_though_its_interval_straddles():
    nulls = {"noisy": {"x": Value(1.2, (0.2, 2.0))}}
    result = verdict(claim(AT_LEAST_1), {"x": Value(2.0)}, nulls=nulls)
    assert result.verdict == "reproduced with a caveat"


def test_a_control_that_violates_an_absence_claim_lets_it_stand():
    subject = claim(part("<=", 0.06), kind="absence")
    result = verdict(subject, {"x": Value(0.04)}, controls={"itself": {"x": Value(1.0)}})
    assert result.verdict == "reproduced"


def test_a_control_that_does_not_violate_leaves_a_caveat():
    subject = claim(part("<=", 0.06), kind="absence")
    controls = {"itself": {"x": Value(1.0)}, "blind": {"x": Value(0.05)}}
    result = verdict(subject, {"x": Value(0.04)}, controls=controls)
    assert result.verdict == "reproduced with a caveat"
    assert result.reasons == ("the control does not violate the condition: blind",)


@pytest.mark.parametrize("rate, outcome", [(0.1, "reproduced"), (0.3, "reproduced with a caveat")])
def test_a_null_with_a_condition_of_its_own_must_meet_it(rate, outcome):
    subject = claim(part(">=", 0.6), reference_parts=[part("<=", 0.15)])
    nulls = {"a random axis": {"x": Value(rate)}}  # 0.3 fails the claim, yet is too much
    assert verdict(subject, {"x": Value(0.9)}, nulls=nulls).verdict == outcome


@pytest.mark.parametrize(
    "interval, outcome",
    [
        ((0.05, 0.12), "reproduced"),
        ((0.2, 0.4), "reproduced with a caveat"),
        ((0.1, 0.4), "undecided"),
    ],
)
def test_an_interval_that_straddles_a_reference_s_own_threshold_decides_nothing(interval, outcome):
    subject = claim(part(">=", 0.6), reference_parts=[part("<=", 0.15)])
    nulls = {"a random axis": {"x": Value(sum(interval) / 2, interval)}}
    result = verdict(subject, {"x": Value(0.9)}, nulls=nulls)
    assert result.verdict == outcome
    if outcome == "undecided":
        assert "a random axis" in result.reasons[0]
    assert verdict(subject, {"x": Value(0.1)}, nulls=nulls).verdict == "not reproduced"


def test_one_part_that_surely_fails_settles_a_reference():
    own = [part("<=", 0.15), part("<=", 1, name="y")]
    subject = claim(part(">=", 0.6), part("<=", 5, name="y"), reference_parts=own)
    nulls = {"random": {"x": Value(0.2, (0.1, 0.3)), "y": Value(3.0)}}
    result = verdict(subject, {"x": Value(0.9), "y": Value(0.0)}, nulls=nulls)
    assert result.verdict == "reproduced with a caveat"


def test_too_few_units_leave_it_undecided():
    result = verdict(claim(AT_LEAST_1, min_n=8), {"x": Value(2.0)}, n=3, nulls=FAILING_NULL)
    assert result.verdict == "undecided"
    assert "3, and the condition asks for 8" in result.reasons[0]


def test_a_stated_caveat_weakens_reproduced():
    result = verdict(claim(AT_LEAST_1), {"x": Value(2.0)}, nulls=FAILING_NULL, caveat="one corpus")
    assert (result.verdict, result.reasons) == ("reproduced with a caveat", ("one corpus",))


@pytest.mark.parametrize(
    "value, outcome",
    [(Value(0.0), "not reproduced"), (Value(1.0, (0.5, 1.5)), "undecided")],
)
def test_a_stated_caveat_never_strengthens(value, outcome):
    assert verdict(claim(AT_LEAST_1), {"x": value}, caveat="one corpus").verdict == outcome


def test_a_part_of_another_profile_does_not_decide():
    subject = claim(AT_LEAST_1, part(">=", 50, name="y", profiles=("full",)))
    measured = {"x": Value(2.0), "y": Value(3.0)}
    assert verdict(subject, measured, nulls=FAILING_NULL).verdict == "reproduced"
    assert verdict(subject, measured, profile="full").verdict == "not reproduced"


def test_satisfying_looks_at_points_only():
    assert satisfies([AT_LEAST_1], {"x": Value(1.0, (0.0, 2.0))})
