"""The one look of the book: its colours in a light and a dark form, and the figure style.

Draw with the constants below, which are the light form. `helpers.plots.show` makes the dark form
by swapping each colour of this module for its partner.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib
import seaborn
from matplotlib.artist import Artist
from matplotlib.collections import Collection
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

# Structure: what carries no data.
BACKGROUND = "#ffffff"
INK = "#1b1f24"
MUTED = "#57606a"
GRID = "#d5dae0"

# Meaning: one colour for one role in every chapter.
TRAINED = "#0a3f96"
NULL = "#6f7680"
THEORY = "#cf4208"
PAPER = "#b5278f"
CONTROL = "#0a6b4f"

VERDICT_COLOURS = {
    "reproduced": "#0a6b4f",
    "reproduced with a caveat": "#8a5a00",
    "not reproduced": "#b3261e",
    "undecided": "#57606a",
    "not run": "#6f7680",
}

DARK = {
    BACKGROUND: "#121212",
    INK: "#e6e8eb",
    MUTED: "#a9b0b8",
    GRID: "#3b424b",
    TRAINED: "#7dbcff",
    NULL: "#9aa2ac",
    THEORY: "#ff9548",
    PAPER: "#ffa3d9",
    CONTROL: "#4fe3b0",
    "#8a5a00": "#e8b64c",
    "#b3261e": "#ff9d94",
    "#000000": "#ffffff",
}
"""Light colour → dark colour. A colour that is not listed stays as it is."""

CYCLE = [TRAINED, THEORY, CONTROL, PAPER, NULL]
MARKERS = ["o", "s", "^", "D", "v"]
LINES = ["-", "--", "-.", ":", (0, (6, 1, 1, 1))]

SEQUENTIAL = "cividis"
DIVERGING = "PuOr"

FONT_POINTS = 11
WIDTH_INCHES = 6.0
FIXED = "fixed"
"""Group id of artists that keep their colour in both themes, such as numbers in a heat map."""


def use_style() -> None:
    """Set the book's figure style for every figure made after this call.

    Colours, markers and line styles change together from one series to the next, so that a
    figure still reads in greyscale and by a colour-blind reader.
    """
    cycle = matplotlib.cycler(color=CYCLE, marker=MARKERS, linestyle=LINES)
    seaborn.set_theme(
        context="notebook",
        style="ticks",
        palette=CYCLE,
        rc={
            "axes.axisbelow": True,
            "axes.edgecolor": MUTED,
            "axes.facecolor": BACKGROUND,
            "axes.grid": True,
            "axes.labelcolor": INK,
            "axes.labelsize": FONT_POINTS,
            "axes.linewidth": 0.8,
            "axes.prop_cycle": cycle,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlecolor": INK,
            "axes.titlelocation": "left",
            "axes.titlesize": FONT_POINTS,
            "axes.titleweight": "bold",
            "figure.constrained_layout.use": True,
            "figure.dpi": 100,
            "figure.facecolor": BACKGROUND,
            "figure.figsize": (WIDTH_INCHES, 3.6),
            "font.family": "DejaVu Sans",  # matplotlib ships it, so every machine draws alike
            "font.size": FONT_POINTS,
            "grid.color": GRID,
            "grid.linewidth": 0.6,
            "image.cmap": SEQUENTIAL,
            "legend.edgecolor": GRID,
            "legend.facecolor": BACKGROUND,
            "legend.fontsize": FONT_POINTS - 1,
            "legend.frameon": False,
            "lines.linewidth": 1.8,
            "lines.markersize": 5,
            "patch.edgecolor": BACKGROUND,
            "text.color": INK,
            "xtick.color": MUTED,
            "xtick.labelcolor": INK,
            "xtick.labelsize": FONT_POINTS - 1,
            "ytick.color": MUTED,
            "ytick.labelcolor": INK,
            "ytick.labelsize": FONT_POINTS - 1,
        },
    )


def dark(colour: object) -> tuple[float, float, float, float] | None:
    """The dark partner of a colour as RGBA with its opacity kept; None where it has none."""
    r, g, b, alpha = to_rgba(colour)  # type: ignore[arg-type]
    partner = DARK.get(to_hex((r, g, b)))
    return None if partner is None else to_rgba(partner, alpha)


def contrast(first: object, second: object) -> float:
    """WCAG 2 contrast ratio of two opaque colours, from 1 (equal) to 21 (black on white)."""

    def luminance(colour: object) -> float:
        channels = to_rgba(colour)[:3]  # type: ignore[arg-type]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def _artists(figure: Figure) -> Iterator[Artist]:
    for artist in figure.findobj():
        yield artist
        if isinstance(artist, Text):  # matplotlib does not list these two among the children
            for extra in (artist.get_bbox_patch(), getattr(artist, "arrow_patch", None)):
                if extra is not None:
                    yield extra


def _properties(artist: Artist) -> tuple[str, ...]:
    if isinstance(artist, Text):
        return ("color",)
    if isinstance(artist, Line2D):
        return ("color", "markerfacecolor", "markeredgecolor")
    if isinstance(artist, Patch):
        return ("facecolor", "edgecolor")
    if isinstance(artist, Collection):
        # Faces that encode data come from a colour map, which stays.
        return ("edgecolor",) if artist.get_array() is not None else ("facecolor", "edgecolor")
    return ()


@contextmanager
def dark_figure(figure: Figure) -> Iterator[Figure]:
    """The figure in its dark form inside the `with` block, and as it was afterwards."""
    undo = []
    try:
        for artist in _artists(figure):
            if artist.get_gid() == FIXED:
                continue
            # Read all of them before setting one: a marker's colour can follow its line's.
            before = {name: getattr(artist, f"get_{name}")() for name in _properties(artist)}
            for name, old in before.items():
                new = _swap(old, many=isinstance(artist, Collection))
                if new is not None:
                    undo.append((getattr(artist, f"set_{name}"), old))
                    undo[-1][0](new)
        yield figure
    finally:
        for setter, old in reversed(undo):
            setter(old)


def _swap(colour: object, many: bool) -> object | None:
    if not many:
        return dark(colour)
    rows = [dark(row) for row in colour]  # type: ignore[attr-defined]
    if not any(rows):
        return None
    return [row if new is None else new for row, new in zip(colour, rows, strict=True)]  # type: ignore[call-overload]
