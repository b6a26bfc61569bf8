"""The HTML of a slider figure: two SVG drawings that a short script moves. It loads nothing.

The script knows no mathematics. Python places every point and writes every word beforehand; the
script picks the frame. (Script and style are strings here, not files of their own, because the
caches look at the source of modules.)
"""

import json
from html import escape

from helpers.plots.figure import DARK_PAGES
from helpers.plots.figure import STYLE as FIGURE_STYLE
from helpers.plots.slider_scene import Scene
from helpers.plots.slider_svg import HEIGHT, SHAPES, WIDTH, chart, frames, paint, plane, stroke
from helpers.plots.theme import DARK, INK, MUTED, TRAINED

# JupyterLab would take the arrow keys for itself; it looks at the element that has the focus.
OWN_KEYS = 'data-lm-suppress-shortcuts="true"'


def _colours(column: int) -> str:
    return "".join(f"--c{pair[0][1:]}:{pair[column]};" for pair in DARK.items())


STYLE = (
    f".book-slider{{{_colours(0)}color-scheme:light}}"
    + ",".join(f"{page} .book-slider" for page in DARK_PAGES)
    + f"{{{_colours(1)}color-scheme:dark}}"
    + ".book-slider:not([data-live])>.live,.book-slider[data-live]>div:not(.live){display:none}"
    "figure.book-slider>.live{overflow:visible}"
    ".book-slider .steer{display:flex;align-items:center;gap:.8rem;margin:0 0 .6rem;padding:4px}"
    ".book-slider button{min-width:4.8rem;min-height:2.75rem;padding:0 .8rem;font:inherit;"
    f"color:{paint(INK)};background:none;border:1px solid {paint(MUTED)};border-radius:.4rem;"
    "cursor:pointer}"
    ".book-slider input{flex:1 1 8rem;min-width:6rem;height:2.75rem;margin:0;cursor:pointer;"
    f"accent-color:{paint(TRAINED)}}}"
    f".book-slider :is(button,input):focus-visible{{outline:2px solid {paint(TRAINED)};"
    "outline-offset:2px}"
    ".book-slider .now{flex:none;min-width:6.5rem;text-align:right}"
    f".book-slider .now,.book-slider .key{{color:{paint(INK)};font-size:.9rem;"
    "font-variant-numeric:tabular-nums}"
    ".book-slider .panels{display:flex;flex-wrap:wrap;gap:.6rem 1.2rem;justify-content:center}"
    ".book-slider .panel{flex:1 1 290px;max-width:440px}"
    ".book-slider svg{display:block;width:100%;height:auto;max-width:none;overflow:visible}"
    ".book-slider .key{list-style:none;margin:.2rem 0 0;padding:0 0 0 .5rem}"
    ".book-slider .key li{display:flex;align-items:center;gap:.5rem;margin:.15rem 0;padding:0}"
    ".book-slider .key svg{flex:none;width:36px;height:14px}"
    ".book-slider .key .value{margin-left:auto;white-space:nowrap}"
    f".book-slider text{{fill:currentColor;color:{paint(INK)};font-size:12px;"
    "font-family:inherit}"
    ".book-slider :is(.dot,.mark,.rule){transition:transform .15s linear}"
    ".book-slider .dot.hollow{fill:none}"
    "@media (prefers-reduced-motion:reduce)"
    "{.book-slider :is(.dot,.mark,.rule){transition:none}}"
    "@media print{.book-slider[data-live]>.live{display:none}"
    ".book-slider[data-live]>div:not(.live){display:block}}"
)

# A cell that is run again leaves two figures of one name, and some places run a script while it
# is not in the page: so the script looks for figures that are not live yet, and uses no ids.
SCRIPT = """(() => {
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  for (const figure of document.querySelectorAll("figure.book-slider:not([data-live])")) {
    const all = (name) => [...figure.querySelectorAll(name)];
    const frames = JSON.parse(figure.dataset.frames);
    const [input] = all("input"), [button] = all("button"), [rule] = all(".rule");
    const dots = all(".dot"), marks = all(".mark"), values = all(".value");
    const put = (node, x, y) => { node.style.transform = `translate(${x}px, ${y}px)`; };
    const last = frames.length - 1;
    let timer = 0;
    const show = () => {
      const frame = frames[input.value];
      dots.forEach((dot, i) => {
        put(dot, frame.dots[2 * i], frame.dots[2 * i + 1]);
        dot.classList.toggle("hollow", frame.near[i] === "0");
      });
      marks.forEach((mark, i) => put(mark, frame.x, frame.y[i]));
      put(rule, frame.x, 0);
      values.forEach((value, i) => { value.textContent = frame.values[i]; });
      input.setAttribute("aria-valuetext", frame.says);
    };
    const pause = () => { clearInterval(timer); timer = 0; button.textContent = "Play"; };
    const tick = () => {
      if (!figure.isConnected) return pause();
      input.value = Number(input.value) + 1;
      show();
      if (Number(input.value) === last) pause();
    };
    input.addEventListener("input", () => { pause(); show(); });
    button.addEventListener("click", () => {
      if (timer) return pause();
      if (Number(input.value) === last) { input.value = 0; show(); }
      button.textContent = "Pause";
      timer = setInterval(tick, calm.matches ? 600 : Math.min(500, Math.max(150, 9000 / last)));
    });
    show();
    figure.dataset.live = "";
  }
})();"""


def figure(scene: Scene, start: int, name: str, alt: str, rest: str) -> str:
    """The whole figure as HTML, at the frame with index ``start``.

    ``rest`` is HTML too: the pictures for readers without scripts, and the caption.
    """
    every = frames(scene)
    packed = json.dumps(every, separators=(",", ":"), allow_nan=False)
    return (
        f'<figure class="book-figure book-slider" id="figure-{name}" '
        f'data-frames="{escape(packed, quote=True)}"><style>{FIGURE_STYLE}{STYLE}</style>'
        f"{_live(scene, every[start], start, name, alt)}{rest}<script>{SCRIPT}</script></figure>"
    )


def _live(scene: Scene, frame: dict, start: int, name: str, alt: str) -> str:
    """The part that moves."""
    label = escape(f"Figure: {name}", quote=True)
    dot = f'<circle cx="18" cy="7" r="5" fill="{paint(TRAINED)}"/>'
    what = f"within {scene.band:.3f} of the circle" if scene.band else "eigenvalues"
    parts = zip(scene.curves, scene.colours, frame["values"][2:], strict=True)
    curves = "".join(
        _key(
            f'<path d="M0 7H36" {stroke(colour, i)}/>'
            f'<path d="{SHAPES[i]}" transform="translate(18,7)" fill="{paint(colour)}"/>',
            curve.name,
            value,
        )
        for i, (curve, colour, value) in enumerate(parts)
    )
    view = f'viewBox="0 0 {WIDTH} {HEIGHT}"'
    return (
        f'<div class="live" role="group" aria-label="{label}"><div class="steer">'
        f'<button type="button" {OWN_KEYS}>Play</button><input type="range" {OWN_KEYS} '
        f'min="0" max="{len(scene.steps) - 1}" step="1" value="{start}" '
        f'autocomplete="off" aria-label="{escape(scene.axis, quote=True).capitalize()}" '
        f'aria-valuetext="{escape(frame["says"], quote=True)}">'
        f'<span class="now" aria-hidden="true"><span class="value">{escape(frame["values"][0])}'
        '</span></span></div><div class="panels"><div class="panel">'
        f'<svg {view} role="img" aria-label="{escape(alt, quote=True)}">'
        f"{''.join(plane(scene, frame))}</svg>"
        f'<ul class="key">{_key(dot, what, frame["values"][1])}</ul></div>'
        f'<div class="panel"><svg {view} aria-hidden="true">{"".join(chart(scene, frame))}</svg>'
        f'<ul class="key">{curves}</ul></div></div></div>'
    )


def _key(picture: str, name: str, value: str) -> str:
    return (
        f'<li><svg viewBox="0 0 36 14" aria-hidden="true">{picture}</svg>'
        f'<span>{escape(name)}</span><span class="value">{escape(value)}</span></li>'
    )
