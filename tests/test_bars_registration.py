"""Thresholds come first, and stay what they were: every way around them is refused."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.bars import (
    ACROSS,
    WITHIN,
    Bar,
    Evidence,
    Measured,
    RegistrationError,
    digest,
    evaluate,
    load,
    register,
)

GOOD = {"B": Measured(1e-5), "P": Measured(1e-4), "C": Measured(0.995), "Pr": Measured(0.999)}


@pytest.fixture
def begun(tmp_path):
    """A registration, and evidence that was opened after it."""
    evidence = Evidence()
    registration = register(ACROSS, tmp_path / "bars.json", spec="exact", evidence=evidence)
    evidence.open("rows", np.arange(4))
    return registration, evidence


def loosened(name="B", **changes):
    return tuple(dataclasses.replace(bar, **changes) if bar.name == name else bar for bar in ACROSS)


def test_the_four_bars_have_the_papers_thresholds():
    found = {bar.name: (bar.direction, bar.threshold) for bar in ACROSS}
    assert found == {"B": ("<", 1e-4), "P": ("<", 1e-3), "C": (">", 0.99), "Pr": (">", 0.99)}
    assert [bar.substantive for bar in ACROSS] == [True] * 4
    assert [bar.substantive for bar in WITHIN] == [True, False, False, False]
    assert all(bar.null for bar in ACROSS)


def test_a_registration_is_read_back_as_it_was_written(begun):
    registration, _ = begun
    assert load(registration.path) == registration
    assert registration.bars == ACROSS
    document = json.loads(registration.path.read_text())
    assert document["spec"] == "exact"
    assert [bar["threshold"] for bar in document["bars"]] == [1e-4, 1e-3, 0.99, 0.99]
    assert (
        registration.path.with_name("bars.json.sha256").read_text().strip() == registration.sha256
    )


def test_what_was_registered_first_is_evaluated(begun):
    registration, evidence = begun
    found = evaluate(ACROSS, GOOD, registration, evidence)
    assert [v.outcome for v in found.verdicts] == ["pass"] * 4
    assert found.registration == registration.sha256
    assert found.registered == registration.date
    assert [look.what for look in found.opened] == ["rows"]
    assert found.opened[0].sha256 == digest(np.arange(4))
    other = evaluate(ACROSS, {**GOOD, "B": Measured(2e-5)}, registration, evidence)
    assert found.sha256 != other.sha256


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"threshold": 1e-3}, "threshold is 0.001 and was registered as 0.0001"),
        ({"threshold": 1e-5}, "threshold is 1e-05"),  # not even a stricter one
        ({"direction": ">"}, "direction is '>'"),
        ({"substantive": False}, "substantive is False"),
        ({"null": "none"}, "null is 'none'"),
        ({"what": "something else"}, "what is 'something else'"),
    ],
)
def test_bars_that_are_not_the_registered_ones_are_refused(begun, changes, words):
    registration, evidence = begun
    with pytest.raises(RegistrationError, match=words):
        evaluate(loosened(**changes), GOOD, registration, evidence)
    forged = dataclasses.replace(registration, bars=loosened(**changes))
    with pytest.raises(RegistrationError, match="rules: use its bars"):
        evaluate(forged.bars, GOOD, forged, evidence)


def test_bars_left_out_or_added_are_refused(begun):
    registration, evidence = begun
    with pytest.raises(RegistrationError, match="bar Pr is registered and missing"):
        evaluate(ACROSS[:3], GOOD, registration, evidence)
    renamed = (dataclasses.replace(ACROSS[0], name="B2"), *ACROSS[1:])
    with pytest.raises(RegistrationError, match="bar B is registered and missing"):
        evaluate(renamed, GOOD, registration, evidence)
    with pytest.raises(RegistrationError, match="bar X is not registered"):
        evaluate((*ACROSS, Bar("X", "x", 1, "<")), GOOD, registration, evidence)
    with pytest.raises(RegistrationError, match="bar P is registered and was not measured"):
        evaluate(ACROSS, {k: v for k, v in GOOD.items() if k != "P"}, registration, evidence)
    with pytest.raises(RegistrationError, match="bar X was measured and is not registered"):
        evaluate(ACROSS, {**GOOD, "X": Measured(0.0)}, registration, evidence)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_byte_that_changes_is_refused(begun, data):
    registration, evidence = begun
    whole = registration.path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda b: b != whole[place]))
    mutant = data.draw(
        st.sampled_from(
            [
                whole[:place] + bytes([byte]) + whole[place + 1 :],  # changed
                whole[:place] + bytes([byte]) + whole[place:],  # put in
                whole[:place] + whole[place + 1 :],  # left out
                whole[:place],  # cut off
            ]
        )
    )
    try:
        registration.path.write_bytes(mutant)
        for act in (
            lambda: load(registration.path),
            lambda: load(registration.path, registration.sha256),
            lambda: evaluate(ACROSS, GOOD, registration, evidence),
            lambda: register(ACROSS, registration.path, spec="exact", evidence=Evidence()),
        ):
            with pytest.raises(RegistrationError, match=r"was changed after it was registered.*"):
                act()
    finally:
        registration.path.write_bytes(whole)
    assert load(registration.path) == registration


def test_a_new_hash_beside_a_changed_file_does_not_help_in_the_same_run(begun):
    import hashlib

    registration, evidence = begun
    content = registration.path.read_bytes().replace(b"0.0001", b"0.1000")
    registration.path.write_bytes(content)
    beside = registration.path.with_name("bars.json.sha256")
    beside.write_text(hashlib.sha256(content).hexdigest())
    with pytest.raises(RegistrationError, match="was changed"):
        evaluate(ACROSS, GOOD, registration, evidence)
    with pytest.raises(RegistrationError, match="was changed"):
        load(registration.path, registration.sha256)  # the hash that was committed


def test_registering_after_the_data_were_seen_is_refused(tmp_path):
    evidence = Evidence()
    evidence.open("test rows", np.arange(3))
    with pytest.raises(RegistrationError, match="too late: 'test rows' was opened"):
        register(ACROSS, tmp_path / "bars.json", spec="exact", evidence=evidence)
    assert not (tmp_path / "bars.json").exists()


def test_a_registration_that_is_younger_than_the_evidence_is_refused(tmp_path):
    early = Evidence()
    early.open("measurements", [0.5])
    late = register(ACROSS, tmp_path / "bars.json", spec="exact", evidence=Evidence())
    with pytest.raises(RegistrationError, match="after 'measurements' was opened"):
        evaluate(ACROSS, GOOD, late, early)
    with pytest.raises(RegistrationError, match="after 'measurements' was opened"):
        register(ACROSS, late.path, spec="exact", evidence=early)


def test_evaluation_wants_evidence(begun):
    registration, _ = begun
    with pytest.raises(RegistrationError, match="nothing was opened through this evidence"):
        evaluate(ACROSS, GOOD, registration, Evidence())


def test_an_older_registration_rules(begun):
    registration, evidence = begun
    again = register(ACROSS, registration.path, spec="exact", evidence=evidence)
    assert again == registration  # with its old date, although rows were opened since
    with pytest.raises(RegistrationError, match=r"registered as 0\.0001.*new path"):
        register(loosened(threshold=1.0), registration.path, spec="exact", evidence=Evidence())
    with pytest.raises(RegistrationError, match="for 'exact', not for 'other'"):
        register(ACROSS, registration.path, spec="other", evidence=Evidence())


def test_a_file_without_its_hash_or_of_another_kind_is_refused(begun, tmp_path):
    registration, _ = begun
    registration.path.with_name("bars.json.sha256").unlink()
    with pytest.raises(RegistrationError, match="no registration to go by"):
        load(registration.path)
    with pytest.raises(RegistrationError, match="no registration to go by"):
        load(tmp_path / "none.json")
    import hashlib

    for content in (b"{}", b"no json", b'{"format": 2}', b"[]"):
        path = tmp_path / "other.json"
        path.write_bytes(content)
        with pytest.raises(RegistrationError, match="is no registration of format 1"):
            load(path, hashlib.sha256(content).hexdigest())


def test_bad_bars_are_refused(tmp_path, unchecked):
    with pytest.raises(ValueError, match="direction is '<' or '>'"):
        Bar("B", "b", 1, "<=")
    for threshold in (float("nan"), float("inf"), True):
        with pytest.raises(ValueError, match="finite number"):
            Bar("B", "b", threshold, "<")
    with pytest.raises(ValueError, match="needs a name"):
        Bar("", "b", 1, "<")
    for bars, spec in (((), "s"), ((ACROSS[0], ACROSS[0]), "s"), (ACROSS, " ")):
        with pytest.raises(RegistrationError, match="different names"):
            register(bars, tmp_path / "x.json", spec=spec, evidence=Evidence())


def test_evidence_keeps_hashes_and_refuses_a_swap():
    evidence, rows = Evidence(), np.arange(6)
    assert evidence.open("rows", rows) is rows
    first = evidence.opened
    evidence.open("rows", rows.copy())
    assert evidence.opened == first  # the first look counts
    with pytest.raises(ValueError, match="opened before with other content"):
        evidence.open("rows", rows[::-1])
    with pytest.raises(TypeError, match="has no stable hash"):
        evidence.open("model", object())
    with pytest.raises(TypeError, match="Python objects"):
        evidence.open("objects", np.array([object()]))


def test_the_hash_sees_types_shapes_names_and_every_value():
    state = {"a": torch.arange(4.0), "b": [1, "x", None, 2.5, True]}
    same = {"b": [1, "x", None, 2.5, True], "a": torch.arange(4.0)}
    assert digest(state) == digest(same)
    assert digest(torch.arange(4.0)) == digest(np.arange(4, dtype=np.float32))
    others = [
        {**state, "a": torch.arange(4.0).double()},
        {**state, "a": torch.arange(4.0).view(2, 2)},
        {**state, "a": torch.tensor([0, 1, 2, 3.0000005])},
        {"c": state["a"], "b": state["b"]},
        {**state, "b": [1, "x", None, 2.5, 1]},
        {**state, "b": [[1, "x"], None, 2.5, True]},
        {**state, "b": [1, "x", None, 2.5]},
    ]
    hashes = [digest(other) for other in (state, *others)]
    assert len(set(hashes)) == len(hashes)


def test_outcomes_follow_value_and_interval(begun):
    registration, evidence = begun
    measured = {
        "B": Measured(1e-4),  # equality does not clear
        "P": Measured(5e-4, (1e-4, 2e-3)),
        "C": Measured(0.5, (0.3, 0.7)),
        "Pr": Measured(0.995, (0.991, 0.999)),
    }
    found = evaluate(ACROSS, measured, registration, evidence)
    assert [v.outcome for v in found.verdicts] == ["fail", "undecided", "fail", "pass"]
    for bad in (
        Measured(float("nan")),
        Measured(0.5, (0.6, 0.7)),
        Measured(0.5, nulls={"x": float("inf")}),
    ):
        with pytest.raises(ValueError, match="must be finite, with the value inside"):
            evaluate(ACROSS, {**measured, "C": bad}, registration, evidence)


def test_the_table_says_theorem_beside_what_cannot_fail_and_which_null_passes(tmp_path):
    evidence = Evidence()
    registration = register(WITHIN, tmp_path / "w.json", spec="seed 0", evidence=evidence)
    evidence.open("model", torch.zeros(2))
    measured = {
        **GOOD,
        "B": Measured(1.7e-4, (1.5e-4, 1.9e-4), nulls={"decoy": 0.226}),
        "Pr": Measured(0.999, relative_error=0.07, nulls={"shuffled": 0.995, "other": 0.4}),
    }
    found = evaluate(WITHIN, measured, registration, evidence)
    rows = {row["bar"]: row for row in found.rows}
    assert rows["B"]["verdict"] == "fail"
    assert rows["P"]["verdict"] == rows["Pr"]["verdict"] == "pass (theorem)"
    assert rows["Pr"]["nulls"] == "shuffled: 0.995 (passes); other: 0.4"
    assert rows["Pr"]["Σ error / Σ effect"] == "0.07"
    assert found["Pr"].nulls_that_pass == ("shuffled",)
    assert found.markdown.count("(theorem)") == 3
    assert registration.sha256[:12] in found.markdown


def test_one_function_is_a_theorem_whatever_the_bar_says(begun):
    registration, evidence = begun
    measured = {**GOOD, "C": Measured(1.0, same_function=True)}
    found = evaluate(ACROSS, measured, registration, evidence)
    assert [v.theorem for v in found.verdicts] == [False, False, True, False]
