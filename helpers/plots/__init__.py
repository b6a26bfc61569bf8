"""One look for every figure: colours with a meaning, a style, shared pieces, and `show`."""

from helpers.plots.figure import Shown, show
from helpers.plots.planes import belief_triangle, complex_plane, eigenvalues
from helpers.plots.slider import SliderShown, eigenvalue_slider
from helpers.plots.slider_scene import Curve
from helpers.plots.theme import (
    BACKGROUND,
    CONTROL,
    CYCLE,
    DIVERGING,
    FIXED,
    GRID,
    INK,
    LINES,
    MARKERS,
    MUTED,
    NULL,
    PAPER,
    SEQUENTIAL,
    THEORY,
    TRAINED,
    VERDICT_COLOURS,
    contrast,
    use_style,
)
from helpers.plots.values import interval_strip, null_band, number_grid, reference_line

__all__ = [
    "BACKGROUND",
    "CONTROL",
    "CYCLE",
    "DIVERGING",
    "FIXED",
    "GRID",
    "INK",
    "LINES",
    "MARKERS",
    "MUTED",
    "NULL",
    "PAPER",
    "SEQUENTIAL",
    "THEORY",
    "TRAINED",
    "VERDICT_COLOURS",
    "Curve",
    "Shown",
    "SliderShown",
    "belief_triangle",
    "complex_plane",
    "contrast",
    "eigenvalue_slider",
    "eigenvalues",
    "interval_strip",
    "null_band",
    "number_grid",
    "reference_line",
    "show",
    "use_style",
]
