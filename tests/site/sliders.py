"""The check of figures with a slider: the reader can move them, by keys alone, and see them."""

import re

from playwright.sync_api import Locator

from helpers.plots.theme import contrast
from tests.site.browser import Look

MIN_CONTRAST = 3.0  # what WCAG 2.1 asks of a drawing's parts
TICK_MS = 1000  # longer than a frame stays
PLACES = """figure => ['.dot', '.mark'].map(kind => [...figure.querySelectorAll(kind)].map(node => {
  const box = node.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2, box.width];
}))"""
STROKES = """figure => [...figure.querySelectorAll('.dot, .mark, .curve')].map(node => {
  const style = getComputedStyle(node);
  return style.stroke === 'none' ? style.fill : style.stroke;
})"""
GROUND = """figure => {
  for (let up = figure; up; up = up.parentElement) {
    const colour = getComputedStyle(up).backgroundColor;
    if (!/, 0\\)$|transparent/.test(colour)) return colour;
  }
  return 'rgb(255, 255, 255)';
}"""


def sliders(look: Look) -> list[str]:
    """Slider figures that do not follow the keys or Play, say nothing, or do not show."""
    found = []
    for figure in look.page.locator("figure.book-slider").all():
        if figure.is_visible():
            name = figure.get_attribute("id")
            found += [f"{name}: {problem}" for problem in _problems(look, figure)]
    return found


def _problems(look: Look, figure: Locator) -> list[str]:
    handle, button = figure.locator("input[type=range]"), figure.locator("button")
    if handle.count() != 1 or not handle.is_visible():
        return ["there is no slider to move; did its script run?"]
    if button.count() != 1 or not button.is_visible():
        return ["there is no button that plays"]
    found, before = [], handle.input_value()
    if not (handle.get_attribute("aria-label") or "").strip():
        found.append("the slider has no name for a screen reader")
    (first, said_first), (last, said_last) = (_at(look, figure, key) for key in ("Home", "End"))
    for kind, one, other in zip(("points", "marks"), first, last, strict=True):
        if not one or any(width == 0 for *_, width in one):
            found.append(f"there are no {kind} to see")
        elif one == other:
            found.append(f"no {kind} move with the slider")
    if not re.search(r"\d", said_first) or said_first == said_last:
        found.append("a screen reader is not told the step (aria-valuetext)")
    back, _ = _at(look, figure, "Home")
    if back != first:
        found.append("the way back ends in another place")
    found += _played(look, handle, button)
    found += _faint(figure)
    handle.fill(before)  # the page is left as it was found
    return found


def _at(look: Look, figure: Locator, key: str) -> tuple[list[list[list[float]]], str]:
    """Where points and marks stand after a key, and what is said."""
    handle = figure.locator("input[type=range]")
    handle.focus()
    look.page.keyboard.press(key)
    return figure.evaluate(PLACES), handle.get_attribute("aria-valuetext") or ""


def _played(look: Look, handle: Locator, button: Locator) -> list[str]:
    """Whether the button starts and stops the film, by a clock of our own: nobody waits."""
    look.page.clock.install()
    seen = [handle.input_value()]
    for _ in range(2):
        button.focus()
        look.page.keyboard.press("Enter")
        for _ in range(2):
            look.page.clock.run_for(TICK_MS)
            seen.append(handle.input_value())
    look.page.clock.resume()
    start, playing, further, stopped, still = seen
    if start == playing or playing == further:
        return ["the button does not play"]
    return [] if stopped == still else ["the button does not stop what it started"]


def _faint(figure: Locator) -> list[str]:
    ground = _hex(figure.evaluate(GROUND))
    colours = {_hex(colour) for colour in figure.evaluate(STROKES)}
    return [
        f"a part drawn in {colour} on {ground} has a contrast of {contrast(colour, ground):.1f}"
        for colour in sorted(colours)
        if contrast(colour, ground) < MIN_CONTRAST
    ]


def _hex(colour: str) -> str:
    red, green, blue = (round(float(part)) for part in re.findall(r"[\d.]+", colour)[:3])
    return f"#{red:02x}{green:02x}{blue:02x}"
