"""Words and numbers of the ledger, the same on the card, the page and the terminal."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from helpers.ledger.claims import Claim, Part

BADGES = {  # symbol, translucent background, border: readable in both themes and without colour
    "reproduced": ("✓", "rgba(34,160,90,.18)", "rgb(34,140,85)"),
    "reproduced with a caveat": ("≈", "rgba(214,158,20,.22)", "rgb(176,128,10)"),
    "not reproduced": ("✗", "rgba(214,60,60,.18)", "rgb(200,60,60)"),
    "undecided": ("?", "rgba(110,130,160,.22)", "rgb(110,130,160)"),
    "not run": ("·", "transparent", "rgb(128,128,128)"),
}


def number(value: float | int) -> str:
    """At most four significant digits, a true minus sign, no trailing noise; counts stay whole."""
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return str(value)
    exponent = math.floor(math.log10(abs(value)))
    if exponent >= 4 and value != int(value):
        value = round(value, 3 - exponent)
    if -4 <= exponent < 6:
        text = f"{value:.{max(0, 3 - exponent)}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        text = f"{value:.3e}".replace("e-0", "e-").replace("e+0", "e+")
    return text.replace("-", "−")


def measured(value: float | int, interval: Sequence[float | int] | None) -> str:
    """`0.0004 [−0.0001, 0.0008]`, or in words where four digits cannot show the interval.

    An interval over units that are all equal is a point; see `helpers.stats.interval`.
    """
    shown = number(value)
    if interval is None:
        return shown
    low, high = interval
    if low == high and math.isclose(value, low, rel_tol=1e-9, abs_tol=1e-12):
        return f"{shown} (all equal)"
    if shown == number(low) == number(high):
        return f"{shown} (within rounding)"
    return f"{shown} [{number(low)}, {number(high)}]"


def bound(part: Part) -> str:
    """The inequality of a part in symbols."""
    if part.op == "between":
        return f"{number(part.value[0])} to {number(part.value[1])}"
    if part.op == "holds":
        return f"interval holds {number(part.value)}"
    symbol = {"<=": "≤", ">=": "≥", "==": "=", "<": "<", ">": ">"}[part.op]
    return f"{symbol} {number(part.value)}"


def anchor(claim_id: str) -> str:
    """The id that the card of a claim has on its chapter's page."""
    return "measure-" + claim_id.replace(".", "-")


def escape(text: str) -> str:
    return html.escape(text, quote=True)


def badge(verdict: str) -> str:
    """A verdict as a small label that says it in a symbol and words as well as in colour."""
    symbol, background, border = BADGES[verdict]
    style = (
        f"display:inline-block;padding:0 .55em;border-radius:.8em;border:1.5px solid {border};"
        f"background:{background};font-weight:600;white-space:nowrap"
    )
    kind = verdict.replace(" ", "-")
    return (
        f'<span class="ledger-badge ledger-{kind}" style="{style}">'
        f'<span aria-hidden="true">{symbol}</span> {escape(verdict)}</span>'
    )


def about(claim: Claim) -> str:
    """`†` where the condition was written with a rough trial's outcome known."""
    return f"{claim.condition} †" if claim.dagger else claim.condition
