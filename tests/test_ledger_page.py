"""The ledger's page lists everything, whichever way it came out."""

import html.parser
import json
import re

import pytest

from helpers.book.ledger_page import render
from helpers.ledger import ClaimsError, Ledger, parse_claims

CLAIMS = """
fixed: 2026-11-30
sources:
  cores: {authors: Schiffman, year: 2026, title: A paper, url: "https://arxiv.org/abs/2602.22600"}
chapters: {01_x: Small numbers, 02_y: Large numbers}
claims:
- &one
  id: x.one
  chapter: 01_x
  source: {paper: cores, section: the experiment}
  statement: It is <small>.
  quantity: a number
  paper: about 0.3
  kind: presence
  condition:
    text: at most 1
    parts: [{name: number, op: "<=", value: 1, label: the number}]
  "null": a random draw
  dagger: true
  expected: {verdict: reproduced, since: 2026-11-30, why: a rough trial}
  history: [{date: 2026-12-01, field: condition, was: at most 2, why: A slip of the pen.}]
- {<<: *one, id: x.two, statement: It was never measured., expected: null, history: []}
- {<<: *one, id: y.one, chapter: 02_y, statement: It is large., expected: null}
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    for name in ("BOOK_RECORDS", "BOOK_CHAPTER", "BOOK_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "claims.yml").write_text(CLAIMS, encoding="utf-8")
    for folder, profile, value in (("records", "laptop", 0.5), ("results/full", "full", 2.0)):
        (tmp_path / folder).mkdir(parents=True)
        ledger = Ledger("01_x", profile, claims=parse_claims(CLAIMS))
        ledger.record(
            "x.one",
            {"number": value},
            interval={"number": (value - 0.1, value + 0.1)},
            n=8,
            nulls={"a random draw": {"number": 3.0}},
            note="Measured twice.",
        )
        text = json.dumps(ledger.document)
        (tmp_path / folder / "01_x.json").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def page(root):
    return render(root, root / "records")


def between(page: str, start: str, end: str) -> str:
    return page.split(start, 1)[1].split(end, 1)[0]


def card(page: str) -> str:
    """The measured claim as one reads it, with links; the spans that hold lines together gone."""
    shown = between(page, 'id="claim-x-one"', "```")
    return re.sub(r"<span style=\"white-space:nowrap\">(.*?)</span>", r"\1", shown)


def test_a_measured_claim_shows_paper_condition_ours_null_and_verdict(page):
    shown = card(page)
    for piece in ("about 0.3", "at most 1", "0.5 [0.4, 0.6]", "null: a random draw", "n = 8 seeds"):
        assert piece in shown
    assert "✓</span> reproduced</span>" in shown and "Measured twice." in shown


def test_a_measured_claim_links_to_the_cell_that_measured_it(page):
    assert 'href="../notebooks/01_x.html#measure-x-one"' in card(page)


def test_the_text_of_claims_is_escaped(page):
    assert "<small>" not in page and "&lt;small&gt;" in page


def test_a_dagger_is_shown_and_explained(page):
    assert "†" in card(page) and "**†** marks" in page


def test_a_changed_condition_shows_its_old_form(page):
    assert "Changed on 2026-12-01:" in card(page) and "“at most 2”" in card(page)


def test_the_expectation_and_its_reason_are_shown(page):
    assert "Expected since 2026-11-30: reproduced. a rough trial" in card(page)


def test_a_kept_full_result_stands_beside_and_is_marked(page):
    beside = card(page).split("Full profile", 1)[1]
    assert "2 [1.9, 2.1]" in beside and "not reproduced" in beside and "href" not in beside


def test_claims_not_measured_are_in_a_collapsed_table_with_their_conditions(page):
    waiting = between(page, "## Fixed, not yet run", "```\n")
    rest = page.split("## Fixed, not yet run", 1)[1]
    assert "<details" in rest and "<details open" not in rest and waiting
    for piece in ("It was never measured.", "Chapter 2: Large numbers", 'id="claim-y-one"'):
        assert piece in rest
    assert "x.one" not in rest


def test_every_claim_has_exactly_one_place(page):
    for name in ("x-one", "x-two", "y-one"):
        assert page.count(f'id="claim-{name}"') == 1


def test_the_summary_counts_every_verdict(page):
    summary = between(page, "## Where it stands", "## Chapter 1")
    assert "1 of 3 claims" in summary
    counts = [int(item.split("</li>")[0].split()[-1]) for item in summary.split("<li")[1:]]
    assert counts == [1, 0, 0, 0, 2]  # reproduced, caveat, not reproduced, undecided, not run


def test_without_any_record_the_page_still_stands(root, tmp_path):
    page = render(root, tmp_path / "nothing")
    assert "Fixed, not yet run" in page and 'id="claim-x-two"' in page


def test_without_claims_the_page_is_refused(tmp_path):
    with pytest.raises(ClaimsError, match="is missing"):
        render(tmp_path, tmp_path)


class _Balance(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.stack, self.wrong = [], []

    def handle_starttag(self, tag, attrs):
        self.stack.append(tag)

    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag:
            self.wrong.append(tag)


def test_every_block_of_html_is_sound_and_stays_inside_its_fence(page):
    blocks = page.split("```{raw} html\n")[1:]
    assert blocks
    for block in blocks:
        balance = _Balance()
        balance.feed(block.split("\n```\n")[0])
        assert (balance.wrong, balance.stack) == ([], [])


def test_the_real_claims_make_a_page(tmp_path):
    from helpers.ledger.reading import default_root

    page = render(default_root(), tmp_path)
    assert page.count('id="claim-') == len(parse_claims_of_checkout())


def parse_claims_of_checkout():
    from helpers.ledger import load_claims

    return load_claims().by_id
