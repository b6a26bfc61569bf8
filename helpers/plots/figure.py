"""Show a figure in a light and a dark form, with its finding and its alternative text."""

import base64
import io
import re
from html import escape

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.text import Text

from helpers.plots.theme import BACKGROUND, DARK, FIXED, FONT_POINTS, contrast, dark, dark_figure

DOTS_PER_INCH = 160
MIN_ALT = 20
MIN_CONTRAST = 4.5
MIN_FONT_PIXELS = 9
PIXELS_PER_INCH = 112

# The selectors are, in order: the book's site, Colab, JupyterLab, VS Code.
DARK_PAGES = (
    'html[data-theme="dark"]',
    'html[theme="dark"]',
    '[data-jp-theme-light="false"]',
    "body.vscode-dark",
)
STYLE = (
    "figure.book-figure{margin:1.5rem 0;padding:0;color:inherit;background:none}"
    "figure.book-figure>div{overflow-x:auto;scrollbar-width:thin}"
    "figure.book-figure img{display:block;height:auto;max-width:none;margin:0 auto;"
    "padding:0!important;"
    "background:none!important;filter:none!important;border-radius:0}"
    "figure.book-figure img.book-dark{display:none}"
    "figure.book-figure figcaption{display:block;max-width:42rem;margin:.5rem auto 0;"
    "font-size:.95em;line-height:1.45;color:inherit;"
    "font-weight:inherit;text-align:left}"
    + ",".join(f"{page} figure.book-figure img.book-light" for page in DARK_PAGES)
    + "{display:none}"
    + ",".join(f"{page} figure.book-figure img.book-dark" for page in DARK_PAGES)
    + "{display:block}"
    # The theme puts a light card behind every HTML output of a cell; our figures fit both themes.
    + 'html[data-theme="dark"] .bd-content div.cell_output .text_html:has(figure.book-figure)'
    + "{background:none;color:inherit;padding:0}"
    # Paper is white, whatever the page's theme.
    "@media print{figure.book-figure img.book-light{display:block!important}"
    "figure.book-figure img.book-dark{display:none!important}}"
)


class Shown:
    """A finished figure. Jupyter, Colab and the site display it; `print` says its caption.

    `light` and `dark` are PNG bytes on a transparent ground, `plain` is the light form on white.
    """

    def __init__(
        self,
        light: bytes,
        dark: bytes,
        plain: bytes,
        inches: float,
        alt: str,
        caption: str,
        name: str,
    ):
        self.light, self.dark, self.plain = light, dark, plain
        self.inches, self.alt, self.caption, self.name = inches, alt, caption, name

    def pictures(self) -> str:
        """Both pictures as HTML, in a box that scrolls."""
        full = round(self.inches * PIXELS_PER_INCH)
        # Below this width the letters would fall under MIN_FONT_PIXELS: the card scrolls instead.
        least = min(full, round(self.inches * 72 * MIN_FONT_PIXELS / FONT_POINTS))
        images = "".join(
            f'<img class="book-{theme} only-{theme}" alt="{escape(self.alt, quote=True)}" '
            f'style="width:min(100%,{full}px);min-width:{least}px" '
            f'src="data:image/png;base64,{base64.b64encode(png).decode()}">'
            for theme, png in (("light", self.light), ("dark", self.dark))
        )
        label = escape(f"Figure: {self.name}", quote=True)
        return f'<div tabindex="0" role="group" aria-label="{label}">{images}</div>'

    def words(self) -> str:
        """The caption as HTML."""
        return f"<figcaption>{_inline(self.caption)}</figcaption>"

    def _repr_html_(self) -> str:
        return (
            f'<figure class="book-figure" id="figure-{self.name}"><style>{STYLE}</style>'
            f"{self.pictures()}{self.words()}</figure>"
        )

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> dict[str, object]:
        return {
            "text/html": self._repr_html_(),
            "image/png": base64.b64encode(self.plain).decode(),
            "text/plain": repr(self),
        }

    def __repr__(self) -> str:
        return f"Figure {self.name}: {self.caption}"


def show(figure: Figure, *, alt: str, caption: str, name: str) -> Shown:
    """Close a figure and return it in a form that every place can display.

    Write it as the last line of a cell. The result holds the figure for light and for dark pages,
    and each page shows the one that fits.

    Args:
        figure: a matplotlib figure drawn with the colours of `helpers.plots`.
        alt: what the figure shows, for a reader who cannot see it; at least 20 characters.
        caption: the finding, in one or two sentences; `*emphasis*` and `` `code` `` are kept.
            Write maths in plain characters (R², λ): a caption is not typeset.
        name: short name in lower case with dashes, unique in its chapter.

    Raises:
        ValueError: the alternative text or the caption is missing or too short, a number in one of
            them came out as `nan`, the name has other characters, or a text has too little
            contrast in one of the themes.
    """
    if len(alt.strip()) < MIN_ALT:
        raise ValueError(
            f"Figure {name!r}: the alternative text has {len(alt.strip())} characters, and needs "
            f"at least {MIN_ALT}. Say what a reader who cannot see the figure must know."
        )
    if not caption.strip():
        raise ValueError(f"Figure {name!r} has no caption. State what the figure shows.")
    for what, words in (("alternative text", alt), ("caption", caption)):
        if re.search(r"\bnan\b", words):
            raise ValueError(
                f"Figure {name!r}: the {what} has a number that is nan: {words.strip()!r}. "
                "Find out why first."
            )
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise ValueError(
            f"The figure name {name!r} must be lower-case words joined by dashes, like 'core-rank'."
        )
    plain = _png(figure, transparent=False)  # also creates all ticks, so that the sweep finds them
    _check_contrast(figure, name)
    light = _png(figure, transparent=True)
    with dark_figure(figure):
        night = _png(figure, transparent=True)
    inches = float(figure.get_size_inches()[0])
    plt.close(figure)
    return Shown(
        light, night, plain, inches, " ".join(alt.split()), " ".join(caption.split()), name
    )


def _png(figure: Figure, transparent: bool) -> bytes:
    buffer = io.BytesIO()
    # No version or date inside: the same figure gives the same bytes.
    figure.savefig(
        buffer,
        format="png",
        dpi=DOTS_PER_INCH,
        transparent=transparent,
        metadata={"Software": None},
    )
    return buffer.getvalue()


def _check_contrast(figure: Figure, name: str) -> None:
    for text in figure.findobj(Text):
        words = text.get_text().strip()
        if not words or not text.get_visible() or text.get_gid() == FIXED:
            continue
        colour = text.get_color()
        for theme, ink, ground in (
            ("light", colour, BACKGROUND),
            ("dark", dark(colour) or colour, DARK[BACKGROUND]),
        ):
            ratio = contrast(ink, ground)
            if ratio < MIN_CONTRAST:
                raise ValueError(
                    f"Figure {name!r}: the text {words!r} in colour {colour!r} has a contrast of "
                    f"{ratio:.1f} in the {theme} theme, below {MIN_CONTRAST}. Use a colour of "
                    f"helpers.plots. Text inside a coloured cell: set_gid({FIXED!r})."
                )


def _inline(text: str) -> str:
    html = escape(text)
    html = re.sub(r"`([^`]+)`", r"<code>\1</code>", html)
    return re.sub(r"(?<![\w*])\*([^*]+)\*(?![\w*])", r"<em>\1</em>", html)
