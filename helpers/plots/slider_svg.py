"""The two drawings of a slider figure as SVG, and where everything stands in each frame.

The page's script knows no mathematics: every point is placed, and every word written, here.
"""

from collections.abc import Iterator
from html import escape

import numpy as np
from matplotlib.ticker import MaxNLocator

from helpers.plots.slider_scene import Scene
from helpers.plots.theme import GRID, INK, MUTED, THEORY, TRAINED

Numbers = np.ndarray | np.number | complex | float | int

WIDTH, HEIGHT = 340, 320
LEFT, RIGHT, TOP, BOTTOM = 40, 20, 34, 44
MIDDLE, RADIUS = (176, 148), 136  # of the plane's square
DASHES = ("", "7 4", "8 3 2 3", "2 3", "8 2 2 2 2 2")
SHAPES = (
    "M0-5A5 5 0 1 1 0 5A5 5 0 1 1 0-5Z",
    "M-4.5-4.5H4.5V4.5H-4.5Z",
    "M0-5.6L5.4 4.2H-5.4Z",
    "M0-6L6 0L0 6L-6 0Z",
    "M0 5.6L5.4-4.2H-5.4Z",
)


def paint(colour: str) -> str:
    """The CSS variable that holds a theme colour's form for the page."""
    return f"var(--c{colour[1:]})"


def frames(scene: Scene) -> list[dict]:
    """For each step, where everything stands on the page and what is said about it."""
    x, rows = _across(scene, scene.steps), []
    for i, step in enumerate(scene.steps):
        points = scene.eigenvalues[i]
        flat = np.stack(_place(scene, points), axis=-1).ravel()
        count = f"{scene.near[i].sum()} of {len(points)}" if scene.band else f"{len(points)}"
        values = [_number(curve.values[i]) for curve in scene.curves]
        says = [f"{c.name} {v}" for c, v in zip(scene.curves, values, strict=True)]
        near = [f"{count} eigenvalues near the circle"] if scene.band else []
        rows.append(
            {
                "dots": [round(float(v), 1) for v in flat],
                "near": "".join("01"[int(v)] for v in scene.near[i]),
                "x": round(float(x[i]), 1),
                "y": [round(float(_up(scene, c.values[i])), 1) for c in scene.curves],
                "values": [scene.said(step), count, *values],
                "says": f"{scene.said(step)}: {', '.join(says + near)}",
            }
        )
    return rows


def plane(scene: Scene, frame: dict) -> Iterator[str]:
    """The complex plane with one frame's eigenvalues, as pieces of SVG."""
    (x, y), unit = MIDDLE, RADIUS / scene.reach
    ring = f'<circle cx="{x}" cy="{y}" r="{unit:.1f}" fill="none"'
    yield f'<path d="M{x - RADIUS} {y}H{x + RADIUS}M{x} {y - RADIUS}V{y + RADIUS}" '
    yield f'stroke="{paint(GRID)}"/>'
    if scene.band:
        yield f'{ring} stroke="{paint(MUTED)}" stroke-opacity=".22" '
        yield f'stroke-width="{2 * scene.band * unit:.1f}"/>'
    yield f'{ring} stroke="{paint(MUTED)}"/>'
    for turn in np.exp(2j * np.pi * np.arange(scene.roots) / max(scene.roots, 1)):
        ends = [f"{a:.1f} {b:.1f}" for a, b in (_place(scene, turn * r) for r in (0.97, 1.03))]
        yield f'<path d="M{ends[0]}L{ends[1]}" stroke="{paint(THEORY)}" stroke-width="1.4"/>'
    for value in (-1, 1):
        at = x + value * unit
        yield f'<text x="{at + 4:.1f}" y="{y + 14}">{_number(value, ".0f")}</text>'
    yield f'<text x="{x}" y="{HEIGHT - 8}" text-anchor="middle">real part</text>'
    yield f'<text transform="translate(20,{y}) rotate(-90)" text-anchor="middle">imaginary part'
    yield "</text>"
    for i in range(scene.eigenvalues.shape[1]):
        x, y = frame["dots"][2 * i : 2 * i + 2]
        # Not "far": the theme's icon font takes elements of that class for its own and hides them.
        hollow = " hollow" if frame["near"][i] == "0" else ""
        yield f'<circle class="dot{hollow}" r="5" fill="{paint(TRAINED)}" fill-opacity=".85" '
        yield f'stroke="{paint(TRAINED)}" stroke-width="1.5" '
        yield f'style="transform:translate({x}px,{y}px)"/>'


def chart(scene: Scene, frame: dict) -> Iterator[str]:
    """The curves over the steps, with marks at one frame's step, as pieces of SVG."""
    floor, low, high = HEIGHT - BOTTOM, *scene.limits
    for value in MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high):
        if low <= value <= high + 1e-9:
            y = _up(scene, value)
            yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{paint(GRID)}"/>'
            yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            yield f"{_number(value, '.6g')}</text>"
    for value in MaxNLocator(5, integer=True).tick_values(scene.steps[0], scene.steps[-1]):
        if scene.steps[0] <= value <= scene.steps[-1]:
            x = _across(scene, value)
            yield f'<path d="M{x:.1f} {floor}v5" stroke="{paint(MUTED)}"/>'
            yield f'<text x="{x:.1f}" y="{floor + 18}" text-anchor="middle">{value:,.0f}</text>'
    yield f'<path d="M{LEFT} {floor}H{WIDTH - RIGHT}" stroke="{paint(MUTED)}"/>'
    yield f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">'
    yield f"{escape(scene.axis)}</text>"
    for i, (name, step) in enumerate(scene.events.items()):
        x, y = _across(scene, step), TOP - 8 - 14 * (i % 2)  # neighbours do not write over another
        side = "start" if x < WIDTH / 2 else "end"
        yield f'<path d="M{x:.1f} {y - 8}V{floor}" stroke="{paint(MUTED)}" '
        yield f'stroke-dasharray="2 4"/><text x="{x + (4 if side == "start" else -4):.1f}" y="{y}" '
        yield f'text-anchor="{side}">{escape(name)}</text>'
    yield f'<path class="rule" d="M0 {TOP}V{floor}" stroke="{paint(INK)}" stroke-width="1.2" '
    yield f'style="transform:translate({frame["x"]}px,0)"/>'
    for i, (curve, colour) in enumerate(zip(scene.curves, scene.colours, strict=True)):
        points = zip(_across(scene, scene.steps), _up(scene, curve.values), strict=True)
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        yield f'<path class="curve" d="M{path}" {stroke(colour, i)}/>'
    for i, colour in enumerate(scene.colours):
        yield f'<path class="mark" d="{SHAPES[i]}" fill="{paint(colour)}" '
        yield f'style="transform:translate({frame["x"]}px,{frame["y"][i]}px)"/>'


def stroke(colour: str, order: int) -> str:
    """SVG attributes of the line of the curve with index ``order``."""
    dash = f' stroke-dasharray="{DASHES[order]}"' if DASHES[order] else ""
    return f'fill="none" stroke="{paint(colour)}" stroke-width="2"{dash}'


def _place(scene: Scene, points: Numbers) -> tuple[Numbers, Numbers]:
    unit = RADIUS / scene.reach
    return MIDDLE[0] + unit * np.real(points), MIDDLE[1] - unit * np.imag(points)


def _across(scene: Scene, step: Numbers) -> Numbers:
    first, last = scene.steps[0], scene.steps[-1]
    return LEFT + (WIDTH - RIGHT - LEFT) * (np.asarray(step) - first) / (last - first)


def _up(scene: Scene, value: Numbers) -> Numbers:
    low, high = scene.limits
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (np.asarray(value) - low) / (high - low)


def _number(value: float | int, form: str = ".2f") -> str:
    text = format(float(value), form)
    return text.replace("-", "−") if float(text) else text.replace("-", "")
