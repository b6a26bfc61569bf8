"""Values with their uncertainty: strips of seeds, bands of null models, lines of theory."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

from helpers.plots.theme import BACKGROUND, FIXED, INK, NULL, SEQUENTIAL, THEORY, TRAINED, contrast


def interval_strip(
    ax: Axes,
    values: Float[np.ndarray, " n"] | Sequence[float | int],
    at: float | int,
    *,
    interval: tuple[float | int, float | int] | None = None,
    colour: str = TRAINED,
    marker: str = "o",
    label: str | None = None,
    horizontal: bool = True,
) -> None:
    """Draw one point for each seed, their mean, and an interval that you computed.

    Args:
        ax: where to draw.
        values: one number a seed (or any independent unit), shape (n,).
        at: position of the strip on the other axis.
        interval: lower and upper end; no bar without it.
        horizontal: values run along x (the default, which leaves room for names on y).

    Raises:
        ValueError: no values, a value that is not finite, or the interval's ends are swapped.
    """
    points = np.asarray(values, dtype=float)
    need_finite("interval_strip", points)
    if interval is not None and interval[0] > interval[1]:
        raise ValueError(f"interval_strip: the interval {interval} has its ends swapped.")
    # Spread the points over a fixed small height, so that equal values stay apart.
    height = at + 0.11 * np.resize([-1.0, 0.0, 1.0], points.size)
    centre = points.mean()

    def place(along: object, across: object) -> tuple[object, object]:
        return (along, across) if horizontal else (across, along)

    ax.plot(
        *place(points, height),
        marker,
        ls="none",
        ms=4,
        mfc=BACKGROUND,
        mec=colour,
        mew=1.1,
        zorder=3,
    )
    if interval is not None:
        ax.plot(*place(list(interval), [at, at]), "-", color=colour, lw=2.4, marker="", zorder=4)
    ax.plot(
        *place([centre], [at]),
        marker,
        ls="none",
        ms=8,
        mfc=colour,
        mec=colour,
        label=label,
        zorder=5,
    )


def null_band(
    ax: Axes,
    low: float | int,
    high: float | int,
    *,
    label: str = "null",
    colour: str = NULL,
    along: str = "x",
) -> None:
    """Shade the range that a null model reaches: what a value must leave to mean something.

    `along` names the axis that the values are on, "x" or "y".

    Raises:
        ValueError: the ends are swapped or not finite, or `along` is another word.
    """
    need_finite("null_band", np.asarray([low, high]))
    if low > high:
        raise ValueError(f"null_band: low ({low}) lies above high ({high}).")
    span = {"x": ax.axvspan, "y": ax.axhspan}.get(along)
    if span is None:
        raise ValueError(f"null_band: along must be 'x' or 'y', not {along!r}.")
    span(low, high, facecolor=colour, alpha=0.22, lw=0, zorder=0, label=label)


def reference_line(
    ax: Axes, value: float | int, label: str, *, colour: str = THEORY, along: str = "x"
) -> None:
    """Draw a dashed line at a value known from theory or stated in a paper, with its name.

    `along` names the axis that the value is on, "x" or "y".
    """
    need_finite("reference_line", np.asarray([value]))
    if along not in ("x", "y"):
        raise ValueError(f"reference_line: along must be 'x' or 'y', not {along!r}.")
    line = ax.axvline if along == "x" else ax.axhline
    line(value, color=colour, ls="--", lw=1.3, marker="", zorder=2)
    at, across = ((value, 1.0), (3, -3)) if along == "x" else ((1.0, value), (-3, 3))
    ax.annotate(
        label,
        at,
        xycoords=ax.get_xaxis_transform() if along == "x" else ax.get_yaxis_transform(),
        xytext=across,
        textcoords="offset points",
        ha="left" if along == "x" else "right",
        va="top" if along == "x" else "bottom",
        color=colour,
        fontsize="small",
    )


def number_grid(
    ax: Axes,
    values: Float[np.ndarray, "rows columns"],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    form: str = "{:.2f}",
    limits: tuple[float | int, float | int] | None = None,
    cmap: str = SEQUENTIAL,
) -> None:
    """Draw a small matrix as coloured cells with the numbers written in them."""
    need_finite("number_grid", values)
    low, high = limits if limits is not None else (float(values.min()), float(values.max()))
    image = ax.imshow(values, cmap=cmap, norm=Normalize(low, high), aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        cell = image.cmap(image.norm(value))
        ink = max((INK, BACKGROUND), key=lambda c: contrast(c, cell))
        # The cell has the same colour in both themes, so its number must have it too.
        ax.text(column, row, form.format(value), ha="center", va="center", color=ink, gid=FIXED)
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), rows)
    ax.tick_params(length=0)
    ax.grid(False)
    ax.spines[:].set_visible(False)


def need_finite(where: str, values: np.ndarray) -> None:
    """Raise ValueError where there is nothing to draw, or a value is NaN or infinite."""
    if values.size == 0:
        raise ValueError(f"{where}: there is nothing to draw (no values).")
    bad = int(np.count_nonzero(~np.isfinite(values)))
    if bad:
        raise ValueError(
            f"{where}: {bad} of {values.size} values are not finite. Find out why before you draw."
        )
