"""The page of the book that lists every claim beside what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from helpers.ledger import Claim, Claims, load_claims, read_records, text
from helpers.ledger.card import measurement_table, reasons_html

Found = Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]  # claim id → (record, entry)

_HOW_TO_READ = """\
# The ledger

Every claim of the two papers that this book touches is listed here, and so are the book's own. The
conditions were fixed on {fixed}, before the book measured anything. What comes out is reported,
whichever way it goes. Nothing is dropped afterwards, and a corrected condition shows its old form.

## How to read it

- **Ours** is what we measured, with its 95 % interval in brackets. The interval comes from
  resampling n independent units, mostly seeds; for pairs of models the models are resampled.
- A **null** is something in which nothing is shared or learnt, scored exactly as we are. It must
  fail the condition.
- A **control** belongs to a claim that something is absent. It must violate the condition, or the
  test could not have seen anything.
- **†** marks a condition that was written with the outcome of a rough trial already known.
- The **verdict** follows from the numbers by rule:

  - ✓ *reproduced*: the whole interval meets the condition, the nulls fail it, and the controls
    violate it.
  - ≈ *reproduced with a caveat*: we meet the condition, but so does a null, or a control does not
    violate it, or the chapter states a limit.
  - ✗ *not reproduced*: the whole interval misses the condition.
  - ? *undecided*: the interval straddles the threshold, or there were too few units.
- Counts such as "7 of 8 models" are decided on the count itself.
- The **expected** verdict was committed before the run that is published here. A later change of it
  keeps its history.
"""

_BOX = (
    "border:1px solid rgba(128,128,128,.45);border-radius:.5em;padding:.7em 1em;margin:1em 0;"
    "color:inherit;overflow-wrap:break-word"
)
_P = '<p style="margin:.4em 0">'


def render(root: Path | str, records_dir: Path | str) -> str:
    """The ledger as a MyST page: `book/claims.yml` and `results/full` of `root`, and the records.

    Raises what `load_claims` and `read_records` raise for files that they cannot read.
    """
    claims = load_claims(root)
    run = _by_id(read_records(records_dir))
    full = _by_id(read_records(Path(root) / "results" / "full"))
    measured = [claim for claim in claims.by_id.values() if claim.id in run or claim.id in full]
    waiting = [claim for claim in claims.by_id.values() if claim.id not in run | full]
    sections = [_HOW_TO_READ.format(fixed=claims.fixed), _summary(measured, waiting, run, full)]
    for chapter, title in claims.chapters.items():
        cards = [_card(claims, c, run, full) for c in measured if c.chapter == chapter]
        if cards:
            sections.append(f"## {_chapter(chapter, title)}\n\n{_raw(''.join(cards))}")
    if waiting:
        sections.append(_waiting(claims, waiting))
    return "\n".join(sections)


def _by_id(records: list[dict[str, Any]]) -> Found:
    return {entry["id"]: (record, entry) for record in records for entry in record["entries"]}


def _raw(html: str) -> str:
    return f"```{{raw}} html\n{html}\n```\n"


def _chapter(stem: str, title: str) -> str:
    return f"Chapter {int(stem.split('_')[0])}: {title}"


def _summary(measured: list[Claim], waiting: list[Claim], run: Found, full: Found) -> str:
    counts = Counter((run.get(c.id) or full[c.id])[1]["verdict"] for c in measured)
    order = [verdict for verdict in text.BADGES if verdict != "not run"]
    rows = "".join(
        f'<li style="margin:.2em 0">{text.badge(verdict)} {counts[verdict]}</li>'
        for verdict in order
    )
    rows += f'<li style="margin:.2em 0">{text.badge("not run")} {len(waiting)}</li>'
    return (
        f"## Where it stands\n\n{len(measured)} of {len(measured) + len(waiting)} claims have been "
        "measured so far.\n\n"
        + _raw(f'<ul class="ledger-summary" style="list-style:none;padding:0">{rows}</ul>')
    )


def _card(claims: Claims, claim: Claim, run: Found, full: Found) -> str:
    escape = text.escape
    verdict = run[claim.id][1]["verdict"] if claim.id in run else "not run"
    parts = [
        '<p style="display:flex;flex-wrap:wrap;gap:.3em 1em;align-items:baseline;margin:0">'
        f"<code>{escape(claim.id)}</code>{text.badge(verdict)}</p>",
        f"{_P}<strong>{escape(claim.statement)}</strong></p>",
        f"{_P}Quantity: {escape(claim.quantity)}.</p>",
        f"{_P}{_paper(claims, claim)}.</p>",
        f"{_P}Condition, fixed beforehand: {escape(text.about(claim))}.</p>",
        _asked(claim),
    ]
    if claim.id in run:
        parts.append(_measurement(claim, *run[claim.id], linked=True))
    if claim.id in full:
        record, entry = full[claim.id]
        numbers = _measurement(claim, record, entry, linked=False)
        parts.append(
            '<div style="border-left:.25em solid rgba(128,128,128,.6);padding-left:.8em;'
            f'margin:.6em 0">{_P}<strong>Full profile</strong> (kept result, paper scale) '
            f"{text.badge(entry['verdict'])}</p>{numbers}</div>"
        )
    if claim.expected:
        expected = claim.expected
        parts.append(
            f"{_P}Expected since {expected['since']}: {escape(expected['verdict'])}. "
            f"{escape(expected['why'])}</p>"
        )
    parts += [_step(step) for step in claim.history]
    return f'<div class="ledger-claim" id="{_anchor(claim)}" style="{_BOX}">{"".join(parts)}</div>'


def _measurement(
    claim: Claim, record: Mapping[str, Any], entry: Mapping[str, Any], *, linked: bool
) -> str:
    """The numbers of one run, where they come from, and the cell if it is in this site."""
    note = f"{_P}{text.escape(entry['note'])}</p>" if entry["note"] else ""
    where = f"{record['date'][:10]}, commit {record['commit'][:10]}"
    where += " with local changes" if record["commit"].endswith("+dirty") else ""
    link = ""
    if linked:
        href = f"../notebooks/{record['chapter']}.html#{text.anchor(claim.id)}"
        link = f' <a href="{href}">See {text.escape(claim.id)} measured</a>.'
    return (
        measurement_table(claim, record["profile"], entry)
        + note
        + reasons_html(entry)
        + f'<p style="margin:.4em 0;font-size:.9em">n = {entry["n"]} '
        f"{text.escape(entry['unit'])}; {record['profile']} profile; {where}.{link}</p>"
    )


def _asked(claim: Claim) -> str:
    """What was asked for, as null and as control."""
    return "".join(
        f"{_P}{role}: {text.escape(asked)}.</p>"
        for role, asked in (
            ("Must fail it (null)", claim.null),
            ("Must violate it (control)", claim.control),
        )
        if asked
    )


def _paper(claims: Claims, claim: Claim) -> str:
    source = claims.sources[claim.source["paper"]]
    if source["url"] is None:
        return "The book's own claim, which no paper gives a value for"
    name = text.escape(f"{source['authors']} ({source['year']})")
    where = f'<a href="{source["url"]}">{name}</a>, {text.escape(claim.source["section"])}'
    return f"Paper's value: {text.escape(claim.paper or 'none given')} ({where})"


def _step(step: Mapping[str, str]) -> str:
    """One correction, with the version that it replaced."""
    return (
        f"{_P}<strong>Changed on {step['date']}:</strong> {text.escape(step['field'])} was "
        f"“{text.escape(step['was'])}”. {text.escape(step['why'])}</p>"
    )


def _waiting(claims: Claims, waiting: list[Claim]) -> str:
    """One collapsed table a chapter of what has been fixed and not been measured yet."""
    blocks = []
    for chapter, title in claims.chapters.items():
        rows = "".join(_waiting_row(claim) for claim in waiting if claim.chapter == chapter)
        if not rows:
            continue
        heads = ("claim", "statement", "paper", "condition", "null or control")
        head = "".join(f'<th scope="col">{name}</th>' for name in heads)
        label = text.escape(_chapter(chapter, title))
        blocks.append(
            f'<details style="margin:.6em 0"><summary>{label}: conditions fixed, not yet run'
            '</summary><div style="overflow-x:auto" tabindex="0" role="region" '
            f'aria-label="{label}, not yet run"><table style="min-width:44em"><thead><tr>{head}'
            f"</tr></thead><tbody>{rows}</tbody></table></div></details>"
        )
    intro = "These conditions stand, and no number of ours is beside them yet."
    return f"## Fixed, not yet run\n\n{intro}\n\n{_raw(''.join(blocks))}"


def _waiting_row(claim: Claim) -> str:
    asked = "; ".join(filter(None, (claim.null, claim.control))) or "–"
    cells = (
        f"<code>{text.escape(claim.id)}</code>",
        text.escape(claim.statement) + "".join(_step(step) for step in claim.history),
        text.escape(claim.paper or "–"),
        text.escape(text.about(claim)),
        text.escape(asked),
    )
    style = "vertical-align:top;padding:.3em .8em .3em 0"
    row = "".join(f'<td style="{style}">{cell}</td>' for cell in cells)
    return f'<tr id="{_anchor(claim)}">{row}</tr>'


def _anchor(claim: Claim) -> str:
    """The id of a claim on this page."""
    return "claim-" + claim.id.replace(".", "-")
