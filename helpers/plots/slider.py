"""Eigenvalues that the reader moves through training with a slider.

The figure is a few kilobytes of SVG and script inside its own HTML. So it works on the site, in
JupyterLab and in Colab without a network and without a plotting library in the page, and it
follows the page's theme as every other figure does. Where no script runs, and on paper, a row of
snapshots stands in its place.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Complex, Int
from matplotlib.figure import Figure
from matplotlib.patches import Annulus

from helpers.plots.figure import Shown, show
from helpers.plots.planes import complex_plane, eigenvalues
from helpers.plots.slider_page import figure as page_figure
from helpers.plots.slider_scene import Curve, Scene
from helpers.plots.theme import INK, LINES, MARKERS, MUTED, THEORY

SNAPSHOTS = 5


class SliderShown(Shown):
    """A finished slider figure: live HTML, with the pictures of `Shown` to fall back on."""

    def __init__(self, still: Shown, scene: Scene, start: int):
        super().__init__(**vars(still))
        self._html = page_figure(scene, start, self.name, self.alt, self.pictures() + self.words())

    def _repr_html_(self) -> str:
        return self._html


def eigenvalue_slider(
    steps: Int[np.ndarray, " n"],
    values: Complex[np.ndarray, "frames r"],
    curves: Sequence[Curve],
    *,
    alt: str,
    caption: str,
    name: str,
    band: float | int = 0.0,
    roots: int = 0,
    events: Mapping[str, int] | None = None,
    start: int | None = None,
    snapshots: Sequence[int] | None = None,
    axis: str = "training step",
    now: str = "step {}",
) -> SliderShown:
    r"""Show the eigenvalues at every step beside curves over all steps. Last line of a cell.

    The reader moves a slider with a finger, the mouse or the arrow keys, or presses Play. A point
    is full where :math:`\big||\lambda|-1\big|` ≤ ``band``, and hollow elsewhere.

    Args:
        steps: training steps of the n frames, rising.
        values: complex eigenvalues, shape (n, r), in any order: rows are matched to one another,
            so that each point moves as little as it can.
        curves: one to five, with a value for every step. Their axis runs from 0 to 1, and further
            where a value lies beyond.
        alt: what the figure shows over the whole training, for a reader who cannot see it.
        caption: the finding, as in `helpers.plots.show`.
        name: short name in lower case with dashes, unique in its chapter.
        band: half-width of the band around the unit circle; 0 draws none.
        roots: mark the roots-th roots of unity, the spectrum of a perfect cycle; 0 marks none.
        events: steps to mark by name on the curves, such as the one at which the run grokked.
        start: the step that is shown first; the last one without it.
        snapshots: steps of the still form, four to six; evenly spread frames without it.
        axis: what the slider moves along, if not training: the steps are its positions.
        now: how a position is said, such as ``"{} % of the turn"``.

    Raises:
        ValueError: shapes that do not fit, a value that is not finite, an unknown step or colour,
            too many points for a page, or words that `helpers.plots.show` refuses.
    """
    scene = Scene(steps, values, tuple(curves), band, roots, dict(events or {}), axis, now)
    scene = scene.matched()
    first = len(steps) - 1 if start is None else scene.at(start)
    if snapshots is None:
        even = np.linspace(0, len(steps) - 1, min(SNAPSHOTS, len(steps)))
        shots = [int(index) for index in even.round()]
    else:
        shots = [scene.at(step) for step in snapshots]
        if not 4 <= len(shots) <= 6:
            raise ValueError(f"slider: name four to six snapshots; got {len(shots)}.")
    still = show(_still(scene, shots), alt=alt, caption=caption, name=name)
    return SliderShown(still, scene, first)


def _still(scene: Scene, shots: Sequence[int]) -> Figure:
    """Snapshots in a row over the curves, whose axis marks where each was taken."""
    figure = plt.figure(figsize=(1.55 * len(shots), 5.0), layout="constrained")
    top, below = figure.subfigures(2, 1, height_ratios=(1, 1.6), hspace=0.02)
    for ax, index in zip(top.subplots(1, len(shots), squeeze=False)[0], shots, strict=True):
        complex_plane(ax, reach=scene.reach)
        if scene.band:
            ring = Annulus((0, 0), 1 + scene.band, 2 * scene.band, fc=MUTED, alpha=0.22, lw=0)
            ax.add_patch(ring)
        turns = np.exp(2j * np.pi * np.arange(scene.roots) / max(scene.roots, 1))
        ax.plot(turns.real, turns.imag, ".", ms=2, color=THEORY, ls="none")
        near = scene.near[index]
        for group, filled in ((near, True), (~near, False)):
            if group.any():
                eigenvalues(ax, scene.eigenvalues[index][group], size=3.5, filled=filled)
        ax.set(title=scene.said(scene.steps[index]), xlabel="", ylabel="", xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    ax = below.subplots()
    for index in shots:
        ax.axvline(scene.steps[index], color=MUTED, lw=0.8, ls=":", marker="")
    for i, (curve, colour) in enumerate(zip(scene.curves, scene.colours, strict=True)):
        ax.plot(
            scene.steps,
            curve.values,
            color=colour,
            ls=LINES[i],
            marker=MARKERS[i],
            markevery=list(shots),
            label=curve.name,
        )
    for event, step in scene.events.items():
        ax.axvline(step, color=INK, lw=1, ls="--", marker="")
        at = (step, 1.02)
        ax.annotate(event, at, xycoords=ax.get_xaxis_transform(), ha="center", fontsize="small")
    low, high = scene.limits
    ax.set(xlabel=scene.axis, ylim=(low - 0.04, high + 0.04))
    ax.xaxis.set_major_formatter("{x:,.0f}")
    below.legend(loc="outside lower center", ncols=2)
    return figure
