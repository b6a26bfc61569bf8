"""The card that a chapter shows for each measurement.

It uses `currentColor` and translucent backgrounds only, so that it reads in light and dark themes,
on the site, in JupyterLab and in Colab.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from helpers.ledger import text
from helpers.ledger.claims import Claim, Part

_LINE = "border-top:1px solid rgba(128,128,128,.35)"
_CELL = (
    "padding:.2em .9em .2em 0;text-align:left;vertical-align:top;background:transparent;"
    "font-weight:inherit"
)


@dataclass(frozen=True)
class Card:
    """One measurement beside its claim. `entry` is what the record file holds."""

    claim: Claim
    profile: str
    entry: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        return self.entry["verdict"]

    def __repr__(self) -> str:
        lines = [f"{self.claim.id}: {self.verdict}", f"  {self.claim.statement}"]
        for part in self.claim.active_parts(self.profile):
            lines.append(f"  {part.label}: {_ours(self.entry, part)}  (wanted {text.bound(part)})")
        lines.append(f"  n = {self.entry['n']} {self.entry['unit']}; paper: {_paper(self.claim)}")
        for role, name, values in references(self.entry):
            (label, first), *more = _reference_lines(self.claim, values)
            if more:
                lines.append(f"  {role} {name}:")
                lines += [f"    {label}: {shown}" for label, shown in ((label, first), *more)]
            else:
                lines.append(f"  {role} {name}: {first}")
        lines += [f"  {reason}" for reason in self.entry["reasons"]]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        claim, escape = self.claim, text.escape
        quick = " · quick profile, a smoke run" if self.profile == "quick" else ""
        head = (
            f'<div style="display:flex;flex-wrap:wrap;gap:.3em 1em;align-items:baseline">'
            f"<code>{escape(claim.id)}</code>{text.badge(self.verdict)}"
            f'<span style="opacity:.8">paper: {escape(_paper(claim))}</span></div>'
        )
        note = f'<p style="margin:.4em 0">{escape(self.entry["note"])}</p>'
        return (
            f'<a id="{text.anchor(claim.id)}"></a>'
            '<div class="ledger-card" style="border:1px solid rgba(128,128,128,.45);'
            'border-radius:.5em;padding:.6em .9em;margin:.6em 0;color:inherit;line-height:1.45">'
            f'{head}<p style="margin:.4em 0">{escape(claim.statement)}</p>'
            f"{measurement_table(claim, self.profile, self.entry)}"
            f"{note if self.entry['note'] else ''}{reasons_html(self.entry)}"
            f'<p style="margin:.4em 0 0;opacity:.8;font-size:.9em">Condition, fixed beforehand: '
            f"{escape(text.about(claim))}. n = {self.entry['n']} {escape(self.entry['unit'])}"
            f"{quick}.</p></div>"
        )


def measurement_table(claim: Claim, profile: str, entry: Mapping[str, Any]) -> str:
    """A table that scrolls on narrow screens: under each part our value, every null and control.

    Where a claim asks something else of its nulls or controls, those parts follow, without ours.
    """
    groups = []
    for part in claim.active_parts(profile):
        passed = f"wanted {text.bound(part)}: {entry['parts'][part.name]}"
        lines = [("ours", _ours(entry, part)), *_beside(entry, part)]
        groups.append(_group(part, passed, lines))
    for part in claim.reference_parts:
        asked = f"wanted of nulls and controls: {text.bound(part)}"
        groups.append(_group(part, asked, _beside(entry, part)))
    return (
        '<div style="overflow-x:auto" tabindex="0" role="region" '
        f'aria-label="measurement of {text.escape(claim.id)}">'
        '<table style="border-collapse:collapse;border:0;margin:.2em 0;color:inherit;'
        f'font-variant-numeric:tabular-nums">{"".join(groups)}</table></div>'
    )


def _beside(entry: Mapping[str, Any], part: Part) -> list[tuple[str, str]]:
    """(role and name, number) of every null and control that gives this part."""
    return [
        (f"{role}: {name}", text.measured(*(values[part.name][k] for k in ("value", "interval"))))
        for role, name, values in references(entry)
        if part.name in values
    ]


def _group(part: Part, wanted: str, lines: list[tuple[str, str]]) -> str:
    """The rows of one part: its label, then who, and what was measured on it."""
    rows = "".join(
        f'<tr><th scope="row" style="{_CELL};padding-left:1em">{text.escape(who)}</th>'
        f'<td style="{_CELL}">{_unbroken(*shown.split(" ", 1))}</td></tr>'
        for who, shown in lines
    )
    head = f"{text.escape(part.label)}; {_unbroken(wanted)}"
    return (
        f'<tbody><tr style="{_LINE}"><th scope="rowgroup" colspan="2" style="{_CELL}">{head}</th>'
        f"</tr>{rows}</tbody>"
    )


def reasons_html(entry: Mapping[str, Any]) -> str:
    """Why the verdict is not a plain *reproduced*."""
    if not entry["reasons"]:
        return ""
    why = text.escape("; ".join(entry["reasons"]))
    return f'<p style="margin:.4em 0"><strong>Why:</strong> {why}.</p>'


def references(entry: Mapping[str, Any]) -> list[tuple[str, str, Mapping[str, Any]]]:
    """(role, name, values) of every null and control of an entry."""
    return [("null", *pair) for pair in entry["nulls"].items()] + [
        ("control", *pair) for pair in entry["controls"].items()
    ]


def _reference_lines(claim: Claim, values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label, number) of every part of a null or control."""
    labels = {part.name: part.label for part in (*claim.parts, *claim.reference_parts)}
    return [
        (labels[name], text.measured(value["value"], value["interval"]))
        for name, value in values.items()
    ]


def _ours(entry: Mapping[str, Any], part: Part) -> str:
    return text.measured(entry["measured"][part.name], entry["interval"].get(part.name))


def _paper(claim: Claim) -> str:
    return claim.paper or "no value (the book's own claim)"


def _unbroken(*pieces: str) -> str:
    """Pieces between which a narrow column may break, and inside which it may not."""
    return " ".join(f'<span style="white-space:nowrap">{text.escape(p)}</span>' for p in pieces)
