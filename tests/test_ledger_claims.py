"""The claims file says what was fixed, and the reader refuses what it does not understand."""

import re

import pytest
import yaml

from helpers.ledger import ClaimsError, load_claims, parse_claims
from helpers.ledger.reading import default_root

GOOD = """
fixed: 2026-11-30
sources: {cores: {title: A paper}}
chapters: {01_x: X}
claims:
- id: a.claim
  chapter: 01_x
  source: {paper: cores, section: the experiment}
  statement: Something holds.
  quantity: a number
  paper: "3"
  kind: presence
  condition:
    text: the number is at least 3
    parts:
    - {name: number, op: ">=", value: 3, label: the number}
  "null": a random draw
  dagger: false
  expected: null
  history: []
"""


def broken(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_the_small_example_is_accepted():
    claim = parse_claims(GOOD).by_id["a.claim"]
    assert (claim.parts[0].op, claim.parts[0].value, claim.null) == (">=", 3.0, "a random draw")


@pytest.mark.parametrize(
    "old, new, says",
    [
        ('op: ">="', 'op: "=>"', "unknown op '=>'"),
        ('op: ">="', "op: between", r"low, high"),
        ('op: ">="', 'op: "=="', "decide: point"),
        ("value: 3", "value: .nan", "must be a number"),
        ("value: 3", "value: 3, value: 2", "given twice"),
        ("label: the number}", "label: the number, rounded: 2}", "may have"),
        ("label: the number}", "label: x, profiles: [laptop]}", "no part applies in profile quick"),
        ("name: number", 'name: "a number"', "letters, digits"),
        ('  "null": a random draw\n', "", "must fail this condition"),
        ('"null": a random draw', "null: a random draw", "in quotes"),
        ("kind: presence", "kind: absence", "must violate this condition"),
        ("kind: presence", "kind: finding", "no null or control"),
        ("kind: presence", "kind: guess", "kind 'guess' is unknown"),
        ("chapter: 01_x", "chapter: 02_y", "not among `chapters`"),
        ("paper: cores", "paper: other", "to `sources`"),
        ("paper: cores", "paper: [cores]", "claim a.claim: a field is of the wrong type"),
        ("  dagger: false\n", "", r"missing fields \['dagger'\]"),
        ("dagger: false", "dagger: maybe", "true or false"),
        ('paper: "3"', "paper: 3", "paper must be a text"),
        ("history: []", "history: []\n  comment: x", r"unknown fields \['comment'\]"),
        ("history: []", "history: [{date: 2026-12-01}]", "each step of history"),
        ("expected: null", "expected: reproduced", "expected needs exactly"),
        (
            "expected: null",
            "expected: {verdict: likely, since: 2026-11-30, why: x}",
            "expected verdict 'likely' is unknown",
        ),
        (
            "expected: null",
            "expected: {verdict: reproduced, since: soon, why: x}",
            "a date like 2026-11-30",
        ),
    ],
)
def test_a_mistake_is_refused_with_the_entry_and_the_reason(old, new, says):
    with pytest.raises(ClaimsError, match=says) as caught:
        parse_claims(broken(old, new))
    assert "given twice" in says or "a.claim" in str(caught.value)


def test_the_same_id_twice_is_refused():
    entry = GOOD.split("claims:\n")[1]
    with pytest.raises(ClaimsError, match=r"claim a\.claim: this id is used twice"):
        parse_claims(GOOD + entry)


@pytest.mark.parametrize(
    "old, new, says",
    [
        ("sources: {cores: {title: A paper}}", "sources: [cores]", "sources must be a mapping"),
        ("chapters: {01_x: X}", "chapters: 3", "chapters must be a mapping"),
        ("chapters: {01_x: X}", "chapters: {x: X}", "names like 01_name"),
        ("chapters: {01_x: X}", "chapters: {01_x: 3}", "names like 01_name"),
    ],
)
def test_a_mistake_above_the_claims_is_refused(old, new, says):
    with pytest.raises(ClaimsError, match=says):
        parse_claims(broken(old, new))


def test_claims_that_are_no_list_are_refused():
    with pytest.raises(ClaimsError, match="claims must be a list"):
        parse_claims(GOOD[: GOOD.index("claims:")] + "claims: 3\n")


def test_a_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "claims.yml").write_bytes(b"\xff\xfe")
    with pytest.raises(ClaimsError, match=r"claims\.yml is not UTF-8"):
        load_claims(tmp_path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ClaimsError, match=re.escape(str(tmp_path))):
        load_claims(tmp_path)


def test_without_a_checkout_the_packaged_copy_is_read(tmp_path, monkeypatch):
    (tmp_path / "claims.yml").write_text(GOOD, encoding="utf-8")
    monkeypatch.setattr("helpers.ledger.reading.default_root", lambda: None)
    monkeypatch.setattr("importlib.resources.files", lambda package: tmp_path)
    assert list(load_claims().by_id) == ["a.claim"]


# ------------------------------------------------------------------ the book's own claims

DAGGERS = {
    "markov.pair",
    "markov.real",
    "mess3.rank",
    "mess3.spectrum",
    "mess3.belief",
    "rot.decoder.shared",
    "rot.decoder.own",
    "rot.sparse",
    "syn.frequencies",
}
ABSENCES = {
    "markov.overlap",
    "markov.weights",
    "markov.gcca",
    "rot.naive",
    "rot.frobenius",
    "rot.haar",
    "bars.cross.p",
    "bars.cross.c",
    "bars.cross.pr",
}
# What was fixed beforehand for the first chapter, written out a second time.
CHAPTER_1 = {
    "markov.rank": {"rank3_fraction": (">=", 7 / 8)},
    "markov.keep": {"keep_minus_base": ("between", (-0.002, 0.002))},
    "markov.remove": {"remove_accuracy": ("<=", 0.27)},
    "markov.overlap": {"overlap": ("<=", 0.06)},
    "markov.cca": {"cca1": (">=", 0.98), "cca2": (">=", 0.98), "cca3": (">=", 0.90)},
    "markov.weights": {"abs_cosine": ("<=", 0.05)},
    "markov.pair": {
        "pair_ratio_re": ("between", (0.98, 1.02)),
        "pair_ratio_im": ("between", (0.98, 1.02)),
    },
    "markov.real": {"real_ratio": ("between", (0.95, 1.05))},
    "markov.r2": {"r2_over_oracle": (">=", 0.95)},
    "markov.gcca": {"remove_accuracy": (">=", 0.50)},
    "size.rank": {"rank3_fraction": (">=", 1.0)},
    "mess3.rank": {"energy2_a": (">=", 0.98), "energy2_b": (">=", 0.98)},
    "mess3.spectrum": {
        name: ("between", (0.95, 1.05)) for name in ("ratio1_a", "ratio2_a", "ratio1_b", "ratio2_b")
    },
    "mess3.belief": {"r2_a": (">=", 0.95), "r2_b": (">=", 0.95)},
    "hidden.future": {"rank1_fraction": (">=", 1.0), "probe_r2_min": (">=", 0.9)},
}


@pytest.fixture(scope="module")
def claims():
    return load_claims()


def test_chapter_1_holds_the_conditions_that_were_fixed(claims):
    found = {
        claim.id: {part.name: (part.op, part.value) for part in claim.parts}
        for claim in claims.of_chapter("01_markov_cores")
    }
    assert found == CHAPTER_1


def test_no_chapter_has_lost_a_claim(claims):
    counts = {chapter: len(claims.of_chapter(chapter)) for chapter in claims.chapters}
    fixed = dict(zip(sorted(counts), (15, 10, 10, 14, 14, 12, 4), strict=True))
    assert all(counts[chapter] >= number for chapter, number in fixed.items()), counts


def test_claims_written_after_a_rough_trial_are_marked(claims):
    assert {claim.id for claim in claims.by_id.values() if claim.dagger} == DAGGERS


def test_claims_of_absence_are_marked(claims):
    assert {claim.id for claim in claims.by_id.values() if claim.kind == "absence"} >= ABSENCES


def test_counts_are_decided_on_the_point(claims):
    for claim in claims.by_id.values():
        for part in claim.parts:
            if part.name.endswith("_fraction") and part.value in (7 / 8, 1.0):
                assert part.decide == "point", (claim.id, part.name)


def test_the_claims_file_is_plain_yaml_with_text_keys():
    raw = yaml.safe_load((default_root() / "book" / "claims.yml").read_text(encoding="utf-8"))
    assert all(isinstance(key, str) for entry in raw["claims"] for key in entry)


def test_every_expectation_has_its_reason_in_words(claims):
    expected = [claim for claim in claims.by_id.values() if claim.expected]
    assert expected
    for claim in expected:
        assert len(claim.expected["why"].split()) >= 4, claim.id
