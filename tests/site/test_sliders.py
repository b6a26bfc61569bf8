"""The slider figure in a real browser: it moves, in every place; and its check can fail."""

import matplotlib

matplotlib.use("agg")

import numpy as np
import pytest

from helpers import plots
from helpers.plots.theme import DARK
from tests.site import browser as tools
from tests.site import checks
from tests.site.test_figures import PLACES

pytestmark = pytest.mark.site

N = 12
ALT = "Six eigenvalues start near zero and lie on the unit circle from step 800 on."


@pytest.fixture(scope="module")
def figure():
    with matplotlib.rc_context():
        plots.use_style()
        rise = np.linspace(0.1, 1, N)
        turns = np.exp(2j * np.pi * np.array([1, -1, 2, -2, 5, -5]) / 13)
        return plots.eigenvalue_slider(
            np.arange(N) * 100,
            rise[:, None] * turns,
            [plots.Curve("test accuracy", rise**4), plots.Curve("R²", rise)],
            alt=ALT,
            caption="They *arrive*.",
            name="film",
            band=0.1,
            roots=13,
            events={"grokked": 800},
        )._repr_html_()


def page(body, html='data-theme="light"', attributes="", ground="#ffffff"):
    ink = plots.INK if ground == "#ffffff" else DARK[plots.INK]
    return (
        f'<!doctype html><html lang="en" {html}><head><meta charset="utf-8">'
        '<link rel="icon" href="data:,"></head>'
        f'<body {attributes} style="background:{ground};color:{ink}">{body}</body></html>'
    )


def in_theme(body, theme):
    ground = "#ffffff" if theme == "light" else "#121212"
    return page(body, f'data-theme="{theme}"', "", ground)


def step(found, keys):
    """Focus the slider, press keys, and return what a screen reader is told."""
    handle = found.page.locator("input").first
    handle.focus()
    for key in keys:
        found.page.keyboard.press(key)
    return handle.get_attribute("aria-valuetext")


@pytest.mark.parametrize(("place", "theme"), PLACES)
def test_it_moves_and_shows_in_every_place(look, figure, place, theme):
    html, attributes = PLACES[place, theme]
    ground = "#ffffff" if theme == "light" else "#121212"
    found = look(page(figure, html, attributes, ground), theme)
    assert found.page.locator("figure .live").is_visible()
    for check in checks.ALL:
        assert check(found) == [], check.__name__


def test_each_key_goes_one_checkpoint_on_and_says_its_numbers(look, figure):
    found = look(in_theme(figure, "light"))
    assert step(found, ["Home"]) == (
        "step 0: test accuracy 0.00, R² 0.10, 0 of 6 eigenvalues near the circle"
    )
    assert step(found, ["Home", "ArrowRight", "ArrowRight"]).startswith("step 200: ")
    assert step(found, ["End"]).endswith("R² 1.00, 6 of 6 eigenvalues near the circle")
    assert found.page.locator(".dot.hollow").count() == 0
    assert found.page.locator(".now").inner_text() == "step 1,100"


def test_points_stand_at_their_eigenvalues(look, figure):
    found = look(in_theme(figure, "light"))
    step(found, ["End"])
    spots = found.page.evaluate(
        """() => [...document.querySelectorAll('[role=img] circle')].map(node => {
          const box = node.getBoundingClientRect();
          return [node.classList.contains('dot'), box.x + box.width / 2, box.y + box.height / 2,
            box.width / 2];
        })"""
    )
    rings = [spot for spot in spots if not spot[0]]
    _, x, y, _ = rings[0]
    radius = min(ring[3] for ring in rings)  # the other ring is the band, with its stroke
    seen = [(dot[1] - x - 1j * (dot[2] - y)) / radius for dot in spots if dot[0]]
    wanted = np.exp(2j * np.pi * np.array([1, -1, 2, -2, 5, -5]) / 13)
    assert np.allclose(np.sort_complex(seen), np.sort_complex(wanted), atol=0.02)


def test_the_film_ends_at_the_last_step_and_begins_anew(look, figure):
    found = look(in_theme(figure, "light"))
    found.page.clock.install()
    button, handle = found.page.locator("button"), found.page.locator("input")
    button.click()
    assert (handle.input_value(), button.inner_text()) == ("0", "Pause")
    found.page.clock.run_for(60_000)
    assert (handle.input_value(), button.inner_text()) == (str(N - 1), "Play")
    button.click()
    step(found, ["ArrowRight"])  # a hand on the slider stops the film
    assert button.inner_text() == "Play"
    found.page.clock.run_for(60_000)
    assert handle.input_value() == "1"


def test_two_copies_of_one_figure_move_on_their_own(look, figure):
    found = look(in_theme(figure + figure, "light"))
    step(found, ["Home"])
    values = [handle.input_value() for handle in found.page.locator("input").all()]
    assert values == ["0", str(N - 1)]


def test_a_figure_that_arrives_later_as_text_comes_alive(look, figure):
    """JupyterLab writes an output's HTML first, puts its scripts in anew, and shows it last."""
    found = look(in_theme("", "light"))
    found.page.evaluate(
        """html => {
          const host = document.createElement('div');
          host.innerHTML = html;
          for (const old of [...host.querySelectorAll('script')]) {
            const fresh = document.createElement('script');
            fresh.textContent = old.textContent;
            old.replaceWith(fresh);
          }
          document.body.append(host);
        }""",
        figure,
    )
    assert checks.sliders(found) == []


def test_points_glide_unless_the_reader_wants_less_motion(look, figure):
    found = look(in_theme(figure, "light"))
    glide = "getComputedStyle(document.querySelector('.dot')).transitionDuration"
    assert found.page.evaluate(glide) == "0s"
    found.page.emulate_media(reduced_motion="no-preference")
    assert found.page.evaluate(glide) == "0.15s"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_without_scripts_the_snapshots_of_the_theme_show(look, figure, theme):
    found = look(in_theme(figure.replace("<script>", '<script type="none">'), theme), theme)
    assert not found.page.locator("figure .live").is_visible()
    assert checks.figure_themes(found) == checks.faint_figures(found) == []
    assert checks.pictures(found) == checks.sideways(found) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_paper_gets_the_light_snapshots(look, figure, theme):
    found = look(in_theme(figure, theme), theme)
    found.page.emulate_media(media="print")
    assert not found.page.locator("figure .live").is_visible()
    assert found.page.locator("img.book-light").is_visible()
    assert not found.page.locator("img.book-dark").is_visible()


@pytest.mark.parametrize("size", [tools.WIDE, tools.NARROW], ids=["wide", "narrow"])
def test_letters_stay_readable_and_targets_large(look, figure, size):
    found = look(in_theme(f'<div style="max-width:720px">{figure}</div>', "light"))
    found.resize(size)
    heights = found.page.evaluate(
        """() => [...document.querySelectorAll('svg text')].map(
          text => 12 * text.getScreenCTM().a || 12 * Math.abs(text.getScreenCTM().b))"""
    )
    assert min(heights) >= 9
    for target in ("button", "input"):
        assert found.page.locator(target).bounding_box()["height"] >= 44


BROKEN = {
    "does not follow the keys": ('input.addEventListener("input"', "input.addEventListener('x'"),
    "moves, but says nothing": ('input.setAttribute("aria-valuetext"', 'input.setAttribute("x"'),
    "says nothing at all": ("frame.says", '""'),
    "has no name": ('aria-label="Training step"', ""),
    "cannot be played": ('button.addEventListener("click"', 'button.addEventListener("x"'),
    "cannot be stopped": ("if (timer) return pause();", "if (timer) return;"),
    "has no script": ("<script>", '<script type="none">'),
    "has a script that fails": ("JSON.parse(", "JSON.parse('{' + "),
    "does not come back": ("put(dot, frame.dots[2 * i]", "put(dot, performance.now()"),
    "has lost its points": ('class="dot', 'class="spot'),
    "has points without a size": (' r="5" fill', ' r="0" fill'),
    "is drawn in the colour of the page": (f"{plots.TRAINED};", "#fdfdfd;"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_slider_that_is_broken_is_reported(look, figure, name):
    broken = figure.replace(*BROKEN[name])
    assert broken != figure
    assert checks.sliders(look(in_theme(broken, "light"))) != []


def test_colours_that_only_fade_in_the_dark_theme_are_reported_there(look, figure):
    faint = figure.replace(f":{DARK[plots.TRAINED]};", ":#1c2230;")
    assert checks.sliders(look(in_theme(faint, "light"), "light")) == []
    assert checks.sliders(look(in_theme(faint, "dark"), "dark")) != []


def test_a_slider_that_shows_its_pictures_too_is_reported(look, figure):
    both = figure.replace("</style>", "figure>div{display:block!important}</style>")
    assert checks.figure_themes(look(in_theme(both, "light"))) != []
