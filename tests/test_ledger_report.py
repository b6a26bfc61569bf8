"""Records beside claims: the table, and what differs from the expectation."""

import json

import pytest

from helpers.ledger import Ledger, RecordError, compare, parse_claims, read_records, review, table

KEYS = [
    *("id", "chapter", "source", "statement", "quantity", "paper", "measured", "interval", "n"),
    *("condition", "null", "verdict", "expected", "profile", "commit", "date"),
]

HEAD = """
fixed: 2026-11-30
sources: {book: {title: this book}}
chapters: {01_x: X}
claims:
"""
ENTRY = """
- id: %s
  chapter: 01_x
  source: {paper: book, section: this book}
  statement: It is small.
  quantity: a number
  paper: null
  kind: finding
  condition:
    text: at most 1
    parts: [{name: number, op: "<=", value: 1, label: the number}]
  min_n: 4
  dagger: false
  expected: %s
  history: []
"""


def claims_text(**expected: str | None) -> str:
    text = HEAD
    for name, verdict in expected.items():
        value = "null"
        if verdict:
            value = f"{{verdict: {verdict}, since: 2026-11-30, why: a rough trial}}"
        text += ENTRY % (f"x.{name}", value)
    return text


def measured(expected: dict, numbers: dict, profile="laptop", n=8) -> dict:
    ledger = Ledger("01_x", profile, claims=parse_claims(claims_text(**expected)))
    for name, (value, interval) in numbers.items():
        ledger.record(f"x.{name}", {"number": value}, interval={"number": interval}, n=n)
    return ledger.document


GOOD = (0.5, (0.4, 0.6))
BAD = (2.0, (1.9, 2.1))
OPEN = (1.0, (0.9, 1.1))


@pytest.fixture(autouse=True)
def _no_runner(monkeypatch):
    for name in ("BOOK_RECORDS", "BOOK_CHAPTER", "BOOK_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def compared(expected: dict, numbers: dict, **options):
    records = [measured(expected, numbers, **options)]
    return review(records, parse_claims(claims_text(**expected)), "laptop")


def test_the_expected_verdict_is_no_mismatch():
    found = compared({"one": "reproduced"}, {"one": GOOD})
    assert (found.mismatches, found.notes) == ([], [])


def test_another_verdict_is_a_mismatch_that_says_both():
    (message,) = compared({"one": "reproduced"}, {"one": BAD}).mismatches
    assert "x.one: not reproduced, expected reproduced" in message
    assert "fails: the number" in message


@pytest.mark.parametrize("expected, number", [("reproduced", OPEN), ("undecided", BAD)])
def test_a_move_to_or_from_undecided_is_only_noted(expected, number):
    found = compared({"one": expected}, {"one": number})
    assert found.mismatches == []
    assert "accepted" in found.notes[0]


def test_expected_but_not_measured_is_a_mismatch():
    (message,) = compared({"one": "reproduced", "two": "reproduced"}, {"one": GOOD}).mismatches
    assert message.startswith("x.two: expected reproduced, but 01_x did not measure it")


def test_measured_without_an_expectation_is_a_mismatch():
    (message,) = compared({"one": None}, {"one": GOOD}).mismatches
    assert "x.one: measured (reproduced) without an expectation" in message


def test_a_claim_that_waits_for_its_chapter_is_no_mismatch():
    assert compared({"one": "reproduced", "two": None}, {"one": GOOD}).mismatches == []


def test_too_few_units_are_a_mismatch_though_the_verdict_is_undecided():
    (message,) = compared({"one": "reproduced"}, {"one": GOOD}, n=3).mismatches
    assert "n = 3, and the condition asks for 4" in message


def test_a_record_of_another_profile_is_a_mismatch_not_a_measurement():
    found = compared({"one": "reproduced"}, {"one": GOOD}, profile="quick").mismatches
    assert "recorded in profile quick, not laptop" in found[0]
    assert "did not measure it" in found[1]


def test_a_measured_claim_that_the_file_lacks_is_a_mismatch():
    records = [measured({"one": "reproduced"}, {"one": GOOD})]
    claims = parse_claims(claims_text(two=None))
    assert "claims.yml has no such claim" in compare(records, claims, "laptop")[0]


def test_records_are_read_from_a_folder(tmp_path):
    record = measured({"one": "reproduced"}, {"one": BAD})
    (tmp_path / "01_x.json").write_text(json.dumps(record), encoding="utf-8")
    (tmp_path / ".01_x-17.json").write_text("half", encoding="utf-8")
    assert read_records(tmp_path) == [record]
    claims = parse_claims(claims_text(one="reproduced"))
    assert len(compare(tmp_path, claims, "laptop")) == 1


RECORD_HEAD = (
    '"format": 1, "chapter": "a", "profile": "a", "date": "a", "commit": "a", "machine": "a"'
)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"format": 1, "entries": []}',
        '{"format": 99}',
        f'{{{RECORD_HEAD}, "entries": [3]}}',
        f'{{{RECORD_HEAD}, "entries": [{{"id": "a.b"}}]}}',
    ],
)
def test_a_damaged_record_is_named(tmp_path, content):
    (tmp_path / "01_x.json").write_text(content, encoding="utf-8")
    with pytest.raises(RecordError, match=r"01_x\.json is not a whole record: delete it"):
        read_records(tmp_path)


@pytest.fixture
def book(tmp_path):
    """A tree with claims, one laptop record and one kept full record."""
    expected = {"one": "reproduced", "two": None}
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "claims.yml").write_text(claims_text(**expected), encoding="utf-8")
    for folder, profile, number in (
        ("_build/records/laptop", "laptop", GOOD),
        ("results/full", "full", BAD),
    ):
        (tmp_path / folder).mkdir(parents=True)
        record = measured(expected, {"one": number}, profile=profile)
        (tmp_path / folder / "01_x.json").write_text(json.dumps(record), encoding="utf-8")
    return tmp_path


def test_the_table_has_exactly_the_promised_keys(book):
    assert all(list(row) == KEYS for row in table(book))
    json.dumps(table(book), allow_nan=False)


def test_the_table_joins_claims_runs_and_kept_full_results(book):
    found = [(row["id"], row["profile"], row["verdict"], row["expected"]) for row in table(book)]
    assert found == [
        ("x.one", "laptop", "reproduced", "reproduced"),
        ("x.one", "full", "not reproduced", "reproduced"),
        ("x.two", None, "not run", None),
    ]
