"""One claim on the ledger's page: what was asked, what was measured, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from helpers.ledger import Claim, Claims, text
from helpers.ledger.card import measurement_table, reasons_html

Found = Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]  # claim id → (record, entry)

_BOX = (
    "border:1px solid rgba(128,128,128,.45);border-radius:.5em;padding:.7em 1em;margin:1em 0;"
    "color:inherit;overflow-wrap:break-word"
)
_P = '<p style="margin:.4em 0">'


def card(claims: Claims, claim: Claim, run: Found, full: Found) -> str:
    """The whole entry of a measured claim, with a kept full result beside the run."""
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
    parts += [correction(change) for change in claim.history]
    return f'<div class="ledger-claim" id="{anchor(claim)}" style="{_BOX}">{"".join(parts)}</div>'


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


def correction(change: Mapping[str, str]) -> str:
    """One correction, with the version that it replaced."""
    return (
        f"{_P}<strong>Changed on {change['date']}:</strong> {text.escape(change['field'])} was "
        f"“{text.escape(change['was'])}”. {text.escape(change['why'])}</p>"
    )


def anchor(claim: Claim) -> str:
    """The id of a claim on this page."""
    return "claim-" + claim.id.replace(".", "-")
