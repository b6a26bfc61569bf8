"""The finished site in a real browser: every page, both themes, wide and narrow, network cut."""

import os
from pathlib import Path

import pytest

from tests.site import browser as tools
from tests.site import checks, links

pytestmark = pytest.mark.site

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(os.environ.get("SITE_CHECK_FOLDER", ROOT / "_build" / "html"))
PAGES = links.pages(SITE) if SITE.is_dir() else []


def need_site() -> None:
    if not PAGES:
        reason = "There is no site to look at in _build/html. Build it: make book"
        (pytest.fail if tools.required() else pytest.skip)(reason)


@pytest.fixture(scope="module")
def address():
    need_site()
    with tools.serve(SITE) as found:
        yield found


@pytest.fixture(
    scope="module",
    params=[(name, theme) for name in PAGES or [""] for theme in ("light", "dark")],
    ids=lambda pair: f"{pair[0]}-{pair[1]}",
)
def look(request, browser, address):
    name, theme = request.param
    with tools.look_at(browser, f"{address}/{name}", theme) as found:
        yield found


@pytest.mark.parametrize("check", checks.ALL, ids=lambda check: check.__name__)
def test_page(look, check):
    problems = check(look)
    assert not problems, "\n".join(problems)


def test_the_page_has_the_theme_that_was_asked_for(look):
    assert look.page.evaluate("document.documentElement.dataset.theme") == look.theme


def test_every_link_inside_the_site_leads_somewhere():
    need_site()
    problems = links.broken(SITE)
    assert not problems, "\n".join(problems)


def test_the_site_has_maths_and_figures_to_check():
    need_site()
    text = "".join((SITE / name).read_text(encoding="utf-8") for name in PAGES)
    assert 'class="math' in text and 'class="book-figure"' in text
