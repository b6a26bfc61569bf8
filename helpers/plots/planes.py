"""Points in a plane that has a meaning: eigenvalues, and beliefs over three states."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Complex, Float
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from helpers.plots.theme import GRID, MUTED, TRAINED
from helpers.plots.values import need_finite


def complex_plane(ax: Axes, *, reach: float | int = 1.12, circle: bool = True) -> None:
    """Make the axes a complex plane: unit circle, both axes, equal scales."""
    if circle:
        ax.add_patch(Circle((0, 0), 1, fill=False, ec=MUTED, lw=1, zorder=1))
    ax.axhline(0, color=GRID, lw=0.8, ls="-", marker="", zorder=0)
    ax.axvline(0, color=GRID, lw=0.8, ls="-", marker="", zorder=0)
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    ax.set(xlabel="real part", ylabel="imaginary part")
    ax.grid(False)


def eigenvalues(
    ax: Axes,
    values: Complex[np.ndarray, " n"] | Sequence[complex | float | int],
    *,
    colour: str = TRAINED,
    marker: str = "o",
    size: float | int = 6,
    filled: bool = True,
    label: str | None = None,
) -> None:
    """Mark eigenvalues, shape (n,), on a complex plane."""
    points = np.asarray(values, dtype=complex)
    need_finite("eigenvalues", points)
    face = colour if filled else "none"
    ax.plot(
        points.real,
        points.imag,
        marker,
        ls="none",
        ms=size,
        mfc=face,
        mec=colour,
        mew=1.5,
        label=label,
    )


CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])
# Red, green and blue of one middle lightness: their mixtures show on light and on dark pages.
CORNER_COLOURS = np.array([[0.88, 0.33, 0.24], [0.12, 0.60, 0.40], [0.29, 0.53, 0.91]])


def belief_triangle(
    ax: Axes,
    beliefs: Float[np.ndarray, "n 3"],
    *,
    names: Sequence[str] = ("state 0", "state 1", "state 2"),
    shades: Float[np.ndarray, "n 3"] | None = None,
    colour: str = TRAINED,
    size: float | int = 3,
) -> None:
    """Draw beliefs over three hidden states, shape (n, 3), as points in a triangle.

    The corners are certainty of one state. Estimated beliefs may fall outside the triangle, and
    are drawn there. `shades`, shape (n, 3), gives each point the mixture of three colours that
    its (say, true) belief stands for; without it all points have one `colour`.

    Raises:
        ValueError: a value is not finite, or a shade has a negative part.
    """
    need_finite("belief_triangle", beliefs)
    if shades is not None:
        need_finite("belief_triangle", shades)
        if shades.min() < -1e-6:
            raise ValueError("belief_triangle: shades must be probabilities; one is negative.")
    edge = CORNERS[[0, 1, 2, 0]]
    ax.plot(edge[:, 0], edge[:, 1], color=MUTED, lw=1, ls="-", marker="", zorder=1)
    points = beliefs @ CORNERS
    paint = colour if shades is None else np.clip(shades @ CORNER_COLOURS, 0, 1)
    ax.scatter(points[:, 0], points[:, 1], c=paint, s=size, lw=0, marker="o", zorder=2)
    for corner, name, lift in zip(CORNERS, names, (-0.04, -0.04, 0.04), strict=True):
        up = "bottom" if lift > 0 else "top"
        ax.text(corner[0], corner[1] + lift, name, ha="center", va=up, fontsize="small")
    ax.set(xlim=(-0.18, 1.18), ylim=(-0.16, 1.02), aspect="equal")
    ax.set_axis_off()
