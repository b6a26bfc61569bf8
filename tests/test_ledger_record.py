"""A chapter's measurements are checked, judged, shown and written down whole."""

import html.parser
import json
import math
import subprocess

import numpy as np
import pytest

from helpers.ledger import Ledger, LedgerError, parse_claims
from helpers.ledger.provenance import commit, machine
from helpers.ledger.text import measured, number

CLAIMS = parse_claims("""
fixed: 2026-11-30
sources: {book: {title: this book}}
chapters: {01_x: X, 02_y: Y}
claims:
- &one
  id: x.one
  chapter: 01_x
  source: {paper: book, section: this book}
  statement: The number is <small> & true.
  quantity: a number
  paper: null
  kind: presence
  condition:
    text: at most 1
    parts: [{name: number, op: "<=", value: 1, label: the number}]
  "null": a random draw
  dagger: true
  expected: null
  history: []
- <<: *one
  id: x.law
  condition:
    text: holds 1
    parts: [{name: number, op: holds, value: 1, label: the number}]
- <<: *one
  id: y.one
  chapter: 02_y
- <<: *one
  id: x.pair
  condition:
    text: both at most 1
    parts:
    - {name: left, op: "<=", value: 1, label: the left one}
    - {name: right, op: "<=", value: 1, label: the right one}
- <<: *one
  id: x.other
  reference_parts: [{name: chance, op: "<=", value: 0.5, label: the null's share}]
- id: x.count
  chapter: 01_x
  source: {paper: book, section: this book}
  statement: All of them.
  quantity: a share
  paper: null
  kind: finding
  condition:
    text: every model
    parts:
    - {name: share, op: ">=", value: 1, decide: point, profiles: [quick, laptop], label: share}
    - {name: share_full, op: ">=", value: 1, decide: point, profiles: [full], label: share}
  dagger: false
  expected: null
  history: []
""")
NULL = {"a random draw": {"number": 3.0}}


@pytest.fixture(autouse=True)
def _no_runner(monkeypatch):
    for name in ("BOOK_RECORDS", "BOOK_CHAPTER", "BOOK_PROFILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def ledger():
    return Ledger("01_x", claims=CLAIMS)


def record_one(ledger, **changes):
    given = {"measured": {"number": 0.5}, "n": 8, "nulls": NULL} | changes
    return ledger.record("x.one", **given)


def test_a_measurement_is_judged_and_kept(ledger):
    card = record_one(ledger, interval={"number": (0.4, 0.6)})
    assert card.verdict == "reproduced"
    assert ledger.document["entries"][0]["interval"] == {"number": [0.4, 0.6]}


def test_numpy_numbers_are_accepted(ledger):
    interval = {"number": np.array([0.4, 0.6], dtype=np.float32)}
    card = record_one(
        ledger, measured={"number": np.float32(0.5)}, interval=interval, n=np.int64(8)
    )
    assert json.loads(json.dumps(card.entry))["measured"] == {"number": 0.5}


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"measured": {"number": math.nan}}, "measured number is nan"),
        ({"measured": {"number": math.inf}}, "measured number is inf"),
        ({"measured": {"number": "much"}}, "must be one number"),
        ({"measured": {"number": [1.0, 2.0]}}, "must be one number"),
        ({"measured": {}}, r"measured lacks \['number'\]"),
        ({"measured": {"number": 0.5, "extra": 1}}, r"measured has unknown \['extra'\]"),
        ({"interval": {"number": (0.6, 0.4)}}, "goes from low to high"),
        ({"interval": {"number": (0.6, 0.7)}}, "holds its point"),
        ({"interval": {"number": (0.4, math.nan)}}, "interval of measured number is nan"),
        ({"interval": {"number": (0.4, 0.5, 0.6)}}, r"an interval is \(low, high\)"),
        ({"interval": {"extra": (0, 1)}}, r"unknown \['extra'\]"),
        ({"n": 0}, "at least 1, not 0"),
        ({"n": 2.5}, "at least 1, not 2.5"),
        ({"n": True}, "at least 1, not True"),
        ({"nulls": None}, "at least one null or control.*a random draw"),
        ({"nulls": {"a": {}}}, r"null 'a' lacks \['number'\]"),
        ({"nulls": {"a": {"number": math.nan}}}, "null 'a' number is nan"),
        ({"nulls": {"a": {"number": 3, "other": 1}}}, r"null 'a' has unknown \['other'\]"),
        ({"nulls": {"a": {"number": (3, 4, 5)}}}, r"null 'a' number: give a number"),
        ({"controls": {"b": {}}}, r"control 'b' lacks \['number'\]"),
    ],
)
def test_a_bad_measurement_is_refused_by_claim_and_part(ledger, changes, says):
    with pytest.raises(LedgerError, match=says) as caught:
        record_one(ledger, **changes)
    assert "x.one" in str(caught.value)
    assert ledger.document["entries"] == []


def test_an_unknown_claim_is_refused_with_the_known_ones(ledger):
    with pytest.raises(
        LedgerError, match=r"no claim 'x\.two'.*x\.one, x\.law, x\.pair, x\.other, x\.count"
    ):
        ledger.record("x.two", {"number": 1}, n=8)


def test_a_claim_of_another_chapter_is_refused(ledger):
    with pytest.raises(LedgerError, match=r"y\.one belongs to 02_y, not to 01_x"):
        ledger.record("y.one", {"number": 1}, n=8)


def test_an_unknown_chapter_or_profile_is_refused():
    with pytest.raises(LedgerError, match=r"unknown chapter '03_z': .*01_x, 02_y"):
        Ledger("03_z", claims=CLAIMS)
    with pytest.raises(LedgerError, match=r"unknown profile 'desktop'.*laptop"):
        Ledger("01_x", "desktop", claims=CLAIMS)


def test_a_profile_other_than_the_runners_is_refused(monkeypatch):
    monkeypatch.setenv("BOOK_PROFILE", "quick")
    with pytest.raises(LedgerError, match=r"BOOK_PROFILE=quick.*'laptop'"):
        Ledger("01_x", "laptop", claims=CLAIMS)


def test_an_interval_question_without_an_interval_is_refused_by_name(ledger):
    with pytest.raises(LedgerError, match=r"x\.law: number: `holds` asks about an interval"):
        ledger.record("x.law", {"number": 1}, n=8, nulls={"a": {"number": (3, (2, 4))}})


def test_a_null_may_carry_its_interval(ledger):
    given = {"measured": {"number": 1}, "interval": {"number": (0.9, 1.1)}, "n": 8}
    card = ledger.record("x.law", **given, nulls={"a": {"number": (1.2, (0.8, 1.6))}})
    assert card.verdict == "reproduced with a caveat"


def test_a_finding_needs_no_null_and_only_its_profiles_parts(ledger):
    assert ledger.record("x.count", {"share": 1.0}, n=4, unit="widths").verdict == "reproduced"
    full = Ledger("01_x", "full", claims=CLAIMS)
    assert full.record("x.count", {"share": 1, "share_full": 0.5}, n=4).verdict == "not reproduced"


def test_recording_the_same_again_changes_nothing(ledger):
    record_one(ledger)
    before = ledger.document
    record_one(ledger)
    assert ledger.document == before


def test_recording_other_values_again_is_refused(ledger):
    record_one(ledger)
    with pytest.raises(LedgerError, match=r"x\.one: recorded before in this run"):
        record_one(ledger, measured={"number": 0.6})


def test_the_record_is_on_disk_after_every_measurement(tmp_path, monkeypatch):
    monkeypatch.setenv("BOOK_RECORDS", str(tmp_path / "records"))
    ledger = Ledger("01_x", claims=CLAIMS)
    for count, act in enumerate([lambda: None, lambda: record_one(ledger)]):
        act()
        written = json.loads((tmp_path / "records" / "01_x.json").read_text(encoding="utf-8"))
        assert written == ledger.document
        assert len(written["entries"]) == count
    assert {"chapter", "profile", "date", "commit", "machine"} <= set(written)
    assert [path.name for path in (tmp_path / "records").iterdir()] == ["01_x.json"]


def test_a_new_ledger_drops_what_an_earlier_run_left(tmp_path, monkeypatch):
    monkeypatch.setenv("BOOK_RECORDS", str(tmp_path))
    record_one(Ledger("01_x", claims=CLAIMS))
    Ledger("01_x", claims=CLAIMS)
    assert json.loads((tmp_path / "01_x.json").read_text(encoding="utf-8"))["entries"] == []


def test_a_failed_write_leaves_the_last_record_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("BOOK_RECORDS", str(tmp_path))
    ledger = Ledger("01_x", claims=CLAIMS)
    before = (tmp_path / "01_x.json").read_bytes()

    def full_disk(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        record_one(ledger)
    assert (tmp_path / "01_x.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["01_x.json"]


class _Balance(html.parser.HTMLParser):
    """Collects tags that are closed in the wrong order."""

    def __init__(self) -> None:
        super().__init__()
        self.stack, self.wrong, self.ids = [], [], []

    def handle_starttag(self, tag, attrs):
        self.stack.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag:
            self.wrong.append(tag)


def parsed(markup: str) -> _Balance:
    balance = _Balance()
    balance.feed(markup)
    return balance


def test_the_card_is_sound_html_with_the_anchor_of_its_claim(ledger):
    markup = record_one(ledger, note="a < b", caveat="one & only")._repr_html_()
    found = parsed(markup)
    assert (found.wrong, found.stack, found.ids) == ([], [], ["measure-x-one"])
    assert "&lt;small&gt; &amp; true" in markup and "a &lt; b" in markup and "†" in markup


def test_a_tag_left_open_would_be_noticed():
    assert parsed("<div><p></div>").wrong == ["div"]


def test_the_card_names_no_colour_for_text_and_loads_nothing(ledger):
    markup = record_one(ledger)._repr_html_()
    styles = [
        rule for style in markup.split('style="')[1:] for rule in style.split('"')[0].split(";")
    ]
    colours = [rule.split(":")[1] for rule in styles if rule.split(":")[0].strip() == "color"]
    assert set(colours) == {"inherit"}
    assert "src=" not in markup and "http" not in markup and "<style" not in markup


def test_the_plain_card_tells_the_same(ledger):
    shown = repr(record_one(ledger, interval={"number": (0.4, 0.6)}, caveat="one corpus"))
    for piece in ("x.one: reproduced with a caveat", "0.5 [0.4, 0.6]", "≤ 1", "n = 8 seeds"):
        assert piece in shown
    assert "null a random draw: 3" in shown and "one corpus" in shown


class _Rows(html.parser.HTMLParser):
    """The rows of a table as lists of texts."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = []

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data):
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def table_rows(card) -> list:
    found = _Rows()
    markup = card._repr_html_()
    found.feed(markup[markup.index("<table") : markup.index("</table>")])
    return found.rows


def test_every_part_has_a_row_for_ours_and_for_each_null(ledger):
    values = {"left": 0.5, "right": 0.25}
    nulls = {"a random draw": {"left": 3.0, "right": 4.0}, "another": {"left": 5.0, "right": 6.0}}
    card = ledger.record("x.pair", values, n=8, nulls=nulls)
    assert table_rows(card) == [
        ["the left one; wanted ≤ 1: pass"],
        ["ours", "0.5"],
        ["null: a random draw", "3"],
        ["null: another", "5"],
        ["the right one; wanted ≤ 1: pass"],
        ["ours", "0.25"],
        ["null: a random draw", "4"],
        ["null: another", "6"],
    ]
    assert parsed(card._repr_html_()).wrong == []
    assert "  null another:\n    the left one: 5\n    the right one: 6" in repr(card)


def test_what_is_asked_of_nulls_alone_has_rows_of_its_own(ledger):
    card = ledger.record(
        "x.other", {"number": 0.5}, n=8, nulls={"a random draw": {"chance": (0.2, (0.1, 0.3))}}
    )
    assert table_rows(card) == [
        ["the number; wanted ≤ 1: pass"],
        ["ours", "0.5"],
        ["the null's share; wanted of nulls and controls: ≤ 0.5"],
        ["null: a random draw", "0.2 [0.1, 0.3]"],
    ]


@pytest.mark.parametrize(
    "value, interval, shown",
    [
        (0.5, None, "0.5"),
        (0.5, (0.4, 0.6), "0.5 [0.4, 0.6]"),
        (1.0, (1.0, 1.0), "1 (all equal)"),
        (0, (0, 0), "0 (all equal)"),
        (0.1 + 0.2, (0.3, 0.3), "0.3 (all equal)"),
        (0.99999, (0.99998, 1.0), "1 (within rounding)"),
        (0.99999, (0.9998, 1.0), "1 [0.9998, 1]"),
        (0.5, (0.4, 0.4), "0.5 [0.4, 0.4]"),  # not an interval of this value: say what is there
    ],
)
def test_an_interval_is_shown_where_it_says_something(value, interval, shown):
    assert measured(value, interval) == shown


@pytest.mark.parametrize(
    "value, shown",
    [
        (0, "0"),
        (-0.00012345, "−0.0001234"),
        (0.75, "0.75"),
        (103.25, "103.2"),
        (20, "20"),
        (1e-9, "1.000e−9"),
        (123456.0, "123456"),
        (12345.6, "12350"),
        (-123456.7, "−123500"),
        (-1.5e7, "−1.500e+7"),
    ],
)
def test_numbers_are_short_and_true(value, shown):
    assert number(value) == shown


def git(folder, *arguments):
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_the_commit_is_named_and_marked_when_files_differ(tmp_path):
    assert commit(tmp_path) == "unknown"
    git(tmp_path, "init")
    assert commit(tmp_path) == "unknown"
    (tmp_path / "a").write_text("1")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-m", "one")
    clean = commit(tmp_path)
    assert len(clean) >= 40 and set(clean) <= set("0123456789abcdef")
    (tmp_path / "a").write_text("2")
    assert commit(tmp_path) == f"{clean}+dirty"
    (tmp_path / "inner").mkdir()
    assert commit(tmp_path / "inner") == "unknown"


def test_without_git_the_commit_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit(tmp_path) == "unknown"
    assert commit(None) == "unknown"


def test_the_machine_is_described():
    described = machine()
    assert described["cores"] >= 1 and described["memory_gb"] > 0.1
    assert described["torch"][0].isdigit() and described["python"].startswith("3.")
