"""A shown figure takes the right form in every place that displays notebooks."""

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import pytest

from helpers import plots
from tests.site import browser as tools
from tests.site import checks

pytestmark = pytest.mark.site

PLACES = {  # how each place marks its theme: attributes of <html>, attributes of <body>
    ("the site", "light"): ('data-theme="light"', ""),
    ("the site", "dark"): ('data-theme="dark"', ""),
    ("Colab", "light"): ("", ""),
    ("Colab", "dark"): ('theme="dark"', ""),
    ("JupyterLab", "light"): ("", 'data-jp-theme-light="true"'),
    ("JupyterLab", "dark"): ("", 'data-jp-theme-light="false"'),
    ("VS Code", "light"): ("", 'class="vscode-light"'),
    ("VS Code", "dark"): ("", 'class="vscode-dark"'),
    ("anywhere else", "light"): ("", ""),
}


@pytest.fixture(scope="module")
def figure():
    with matplotlib.rc_context():
        plots.use_style()
        fig, ax = plt.subplots(figsize=(8, 3))
        ax.plot([0, 1, 2], [1, 0, 1])
        ax.set(xlabel="step", ylabel="loss")
        return plots.show(
            fig, alt="The loss falls from 1 to 0 and rises again.", caption="Up.", name="loss"
        )._repr_html_()


@pytest.mark.parametrize(("place", "theme"), PLACES)
def test_one_form_shows_and_it_fits_the_theme(tmp_path, browser, figure, place, theme):
    html, body = PLACES[place, theme]
    ground = "#ffffff" if theme == "light" else "#121212"
    (tmp_path / "page.html").write_text(
        f'<!doctype html><html lang="en" {html}><head><meta charset="utf-8">'
        f'<link rel="icon" href="data:,"></head><body {body} style="background:{ground}">'
        f"{figure}{figure.replace('figure-loss', 'figure-second')}</body></html>",
        encoding="utf-8",
    )
    with (
        tools.serve(tmp_path) as address,
        tools.look_at(browser, f"{address}/page.html", theme) as look,
    ):
        assert look.page.locator("figure").count() == 2
        for check in (checks.figure_themes, checks.faint_figures, checks.pictures, checks.sideways):
            assert check(look) == []


def test_letters_stay_readable_on_a_phone(tmp_path, browser, figure):
    (tmp_path / "page.html").write_text(figure, encoding="utf-8")
    with tools.serve(tmp_path) as address, tools.look_at(browser, f"{address}/page.html") as look:
        look.resize(tools.NARROW)
        width = look.page.evaluate("document.querySelector('img.book-light').clientWidth")
    assert width * plots.theme.FONT_POINTS / (8 * 72) >= 8.9


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_paper_gets_the_light_form(look, figure, theme):
    found = look(
        f'<!doctype html><html lang="en" data-theme="{theme}"><body>{figure}</body>', theme
    )
    found.page.emulate_media(media="print")
    assert found.page.locator("img.book-light").is_visible()
    assert not found.page.locator("img.book-dark").is_visible()
