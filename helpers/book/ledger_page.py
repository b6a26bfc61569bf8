"""The page of the book that lists every claim beside what was measured."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from helpers.book.ledger_claim import Found, anchor, card, correction
from helpers.ledger import Claim, Claims, load_claims, read_records, text

_HOW_TO_READ = """\
# The ledger

Every claim of the two papers that this book touches is listed here, and so are the book's own. The
conditions were fixed on {fixed}; for some (†) the outcome of a rough trial was known by then. What
we *expect* to find was written later: after trials on tuning seeds (100 and above), and before the
published seeds (0 and up) ran. What comes out is reported, whichever way it goes.
Nothing is dropped afterwards, and a corrected condition shows its old form.

## How to read it

- **Ours** is what we measured, with its 95 % interval in brackets. The interval comes from
  resampling n independent units, mostly seeds; for pairs of models the models are resampled. With
  3 seeds it covers in about 75 % of cases only; [related work](related.md) says how it is made.
- A **null** is something that lacks what the claim is about, scored exactly as we are. It must
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
        cards = [card(claims, c, run, full) for c in measured if c.chapter == chapter]
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
    return f"Chapter {stem.split('_')[0].lstrip('0')}: {title}"


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
        text.escape(claim.statement) + "".join(correction(change) for change in claim.history),
        text.escape(claim.paper or "–"),
        text.escape(text.about(claim)),
        text.escape(asked),
    )
    style = "vertical-align:top;padding:.3em .8em .3em 0"
    row = "".join(f'<td style="{style}">{cell}</td>' for cell in cells)
    return f'<tr id="{anchor(claim)}">{row}</tr>'
