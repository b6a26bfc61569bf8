"""Who made a model, and under which terms it may be used: shown on every page that uses it."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class Licence:
    """A licence's name, its address ("" where there is none), and the text that came along."""

    name: str
    link: str = ""
    text: str = ""


@runtime_checkable
class Licensed(Protocol):
    """What `card` reads of a model."""

    name: str
    licence: Licence
    source: str
    revision: str


def card(models: Iterable[Licensed]) -> str:
    """Markdown for the page: a row for each model, then the licences' own texts behind folds."""
    rows, folds = ["| model | source | version | licence |", "|---|---|---|---|"], []
    for model in models:
        licence = model.licence
        named = f"[{licence.name}]({licence.link})" if licence.link else licence.name
        cells = (model.name, model.source, model.revision, named)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        if licence.text:
            folds.append(
                f"<details><summary>What comes with {html.escape(model.name)}: "
                f"{html.escape(licence.name)}</summary>"
                f"<pre>{html.escape(licence.text.strip())}</pre></details>"
            )
    return "\n".join(rows) + "\n" + "".join(f"\n{fold}\n" for fold in folds)
