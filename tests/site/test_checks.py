"""Every check of the site reports a small page that is broken in just its way, and no sound one."""

import pytest

from helpers.plots.theme import DARK, INK
from tests.site import browser as tools
from tests.site import checks

pytestmark = pytest.mark.site

DOT = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGD4DwABBAEAX+XDSwAA"
    "AABJRU5ErkJggg=="
)
STYLE = (
    "html{background:#fff;color:#111}html[data-theme=dark]{background:#121212;color:#eee}"
    "figure .book-dark{display:none}html[data-theme=dark] figure .book-dark{display:block}"
    "html[data-theme=dark] figure .book-light{display:none}"
)
THEME = "document.documentElement.dataset.theme = localStorage.getItem('theme')"
MATHS = '<span class="math"><mjx-container>x</mjx-container></span>'


def figure(light=INK, dark=DARK[INK], style=""):
    """A figure whose two forms are squares of one colour, drawn in the page."""
    return (
        f'<figure class="book-figure" id="figure-f" {style}>'
        f'<img class="book-light" alt="a square" data-ink="{light}">'
        f'<img class="book-dark" alt="a square" data-ink="{dark}"></figure>'
        "<script>for (const img of document.querySelectorAll('img[data-ink]')) {"
        "const c = Object.assign(document.createElement('canvas'), {width: 9, height: 9});"
        "const x = c.getContext('2d'); x.fillStyle = img.dataset.ink; x.fillRect(0, 0, 9, 9);"
        "img.src = c.toDataURL() }</script>"
    )


def page(body="", head=""):
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><link rel="icon" href="data:,">'
        f"<script>{THEME}</script><style>{STYLE}</style>{head}</head>"
        f"<body><article><h1>Title</h1><p>Some words.</p>{body}</article></body></html>"
    )


SOUND = page(f'{MATHS}{figure()}<img alt="a dot" src="{DOT}"><pre>\\(raw\\) in code</pre>')

BROKEN = {
    "another host's script": (
        checks.third_parties,
        page(head='<script src="http://third.example/x.js"></script>'),
    ),
    "another host's picture": (
        checks.third_parties,
        page('<img alt="x" src="https://third.example/x.png">'),
    ),
    "another host's font": (
        checks.third_parties,
        page(
            "<p style='font-family:f'>x</p>",
            "<style>@font-face{font-family:f;src:url(https://third.example/f.woff2)}</style>",
        ),
    ),
    "a request made late by a script": (
        checks.third_parties,
        page("<script>fetch('https://third.example/api').catch(() => 0)</script>"),
    ),
    "a script that throws": (checks.errors, page("<script>undefinedThing()</script>")),
    "a console error": (checks.errors, page("<script>console.error('no')</script>")),
    "a missing style sheet": (
        checks.errors,
        page(head='<link rel="stylesheet" href="missing.css">'),
    ),
    "a formula left as it was": (checks.maths, page('<span class="math">\\(x^2\\)</span>')),
    "a formula with an error": (
        checks.maths,
        page(
            '<span class="math"><mjx-container><mjx-merror>bad</mjx-merror></mjx-container></span>'
        ),
    ),
    "TeX in the prose": (checks.maths, page("<p>Let \\(x\\) be small.</p>")),
    "dollars around TeX in the prose": (checks.maths, page("<p>Let $\\lambda$ be small.</p>")),
    "a picture with no alternative text": (checks.pictures, page(f'<img src="{DOT}">')),
    "a picture with blank alternative text": (checks.pictures, page(f'<img alt=" " src="{DOT}">')),
    "a picture with its path as alternative text": (
        checks.pictures,
        page(f'<img alt="../_images/dot.png" src="{DOT}">'),
    ),
    "a picture with its address as alternative text": (
        checks.pictures,
        page(f'<img alt="{DOT}" src="{DOT}">'),
    ),
    "a picture that is not there": (checks.pictures, page('<img alt="x" src="missing.png">')),
    "a figure that shows both forms": (
        checks.figure_themes,
        page(figure() + "<style>figure img{display:block!important}</style>"),
    ),
    "a figure that shows neither form": (
        checks.figure_themes,
        page(figure() + "<style>figure img{display:none!important}</style>"),
    ),
    "a figure that shows the other form": (
        checks.figure_themes,
        page(
            figure() + "<style>html figure img.book-light{display:none!important}"
            "html figure img.book-dark{display:block!important}</style>"
        ).replace("localStorage.getItem('theme')", "'light'"),
    ),
    "a block wider than a phone": (checks.sideways, page('<div style="width:500px">wide</div>')),
    "a word wider than a phone": (checks.sideways, page(f"<p>{'a' * 90}</p>")),
    "a table wider than a phone": (
        checks.sideways,
        page("<table><tr>" + "<td>123456789</td>" * 9 + "</tr></table>"),
    ),
    "grey text": (checks.faint_text, page('<p style="color:#808080">faint</p>')),
    "text faded by its parent": (
        checks.faint_text,
        page('<div style="opacity:.4"><p>faint</p></div>'),
    ),
    "a slider that moves nothing": (
        checks.sliders,
        page(
            '<figure class="book-slider" id="figure-s"><button>Play</button>'
            '<input type="range" aria-label="Step" aria-valuetext="step 3">'
            '<svg><circle class="dot" r="5" cx="9" cy="9"/></svg></figure>'
        ),
    ),
    "text on a ground of its own": (
        checks.faint_text,
        page('<p style="color:#fff;background:rgb(255 210 80 / 90%)">faint</p>'),
    ),
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("check", checks.ALL, ids=lambda check: check.__name__)
def test_a_sound_page_passes(look, check, theme):
    assert check(look(SOUND, theme)) == []


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_page_is_reported(look, name):
    check, text = BROKEN[name]
    assert check(look(text)) != []


def test_every_check_has_a_broken_page():
    tested_below = {checks.faint_figures}
    assert {check for check, _ in BROKEN.values()} | tested_below == set(checks.ALL)


@pytest.mark.parametrize(
    ("theme", "forms"),
    [("dark", {"dark": INK}), ("light", {"light": DARK[INK]}), ("dark", {"dark": "#121212"})],
)
def test_a_figure_in_the_ink_of_the_other_theme_is_reported(look, theme, forms):
    assert checks.faint_figures(look(page(figure(**forms)), theme)) != []


def test_a_figure_on_a_light_card_in_the_dark_theme_is_reported(look):
    text = page(figure(style='style="background:#cdd5dd"'))
    assert checks.faint_figures(look(text, "dark")) != []
    assert checks.faint_figures(look(text, "light")) == []


def test_text_that_only_vanishes_in_the_dark_theme_is_reported_there(look):
    text = page('<p style="color:#1b1f24">dark ink</p>')
    assert checks.faint_text(look(text, "light")) == []
    assert checks.faint_text(look(text, "dark")) != []


def test_wide_things_in_a_scrolling_box_are_fine(look):
    box = '<div style="overflow-x:auto"><div style="width:900px">wide</div></div>'
    assert checks.sideways(look(page(box))) == []


def test_a_page_is_wide_again_after_the_narrow_look(look):
    found = look(page())
    checks.sideways(found)
    assert found.page.evaluate("innerWidth") == tools.WIDE[0]
