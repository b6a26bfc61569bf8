"""Links that lead nowhere are found, and no others."""

import pytest

from tests.site import links


@pytest.fixture
def site(tmp_path):
    links._read.cache_clear()
    (tmp_path / "sub").mkdir()
    (tmp_path / "_static").mkdir()
    (tmp_path / "style.css").write_text("")
    (tmp_path / "sub" / "other.html").write_text('<h2 id="part">Part</h2><a name="old">x</a>')
    return tmp_path


@pytest.mark.parametrize(
    "link",
    [
        "sub/other.html",
        "sub/other.html#part",
        "sub/other.html#old",
        "/style.css",
        "style.css?v=1",
        "#here",
        "#",
        "https://elsewhere.example/gone",
        "mailto:a@b.example",
        "data:image/png;base64,AA",
    ],
)
def test_good_links_pass(site, link):
    (site / "page.html").write_text(f'<p id="here"><a href="{link}">go</a></p>')
    assert links.broken(site) == []


@pytest.mark.parametrize(
    ("html", "reason"),
    [
        ('<a href="gone.html">go</a>', "gone.html: no such file"),
        ('<a href="sub">go</a>', "sub: no such file"),
        ('<a href="sub/other.html#gone">go</a>', "no such anchor"),
        ('<a href="#gone">go</a>', "no such anchor"),
        ('<img src="gone.png">', "no such file"),
        ('<script src="gone.js"></script>', "no such file"),
        ('<link rel="stylesheet" href="gone.css">', "no such file"),
    ],
)
def test_broken_links_are_named(site, html, reason):
    (site / "page.html").write_text(html)
    [problem] = links.broken(site)
    assert problem.startswith("page.html -> ") and reason in problem


def test_a_link_out_of_the_site_is_broken_even_where_the_file_exists(site):
    (site.parent / "outside.txt").write_text("")
    (site / "page.html").write_text('<a href="../outside.txt">go</a>')
    assert "leads out of the site" in links.broken(site)[0]


def test_a_themes_templates_are_no_pages(site):
    (site / "_static" / "macros.html").write_text('<a href="{{ nowhere }}">x</a>')
    (site / "index.html").write_text("")
    assert links.broken(site) == []
    assert links.pages(site) == ["sub/other.html"]
