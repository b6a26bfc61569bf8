"""The book moves to another address, everywhere or nowhere."""

import os
import shutil

import pytest
import yaml

from helpers.book.errors import BookError, UsageError
from helpers.book.rehome import SKIPPED, rehome

# put together, so that the copy of this very file holds no address of this kind
SLUG = "a-university/" + "course-2027"
NEW = "https://github.com/" + SLUG


@pytest.fixture
def copy(root, tmp_path):
    """A copy of this repository, with every kind of link in it."""
    target = tmp_path / "copy"
    shutil.copytree(root, target, ignore=shutil.ignore_patterns(*SKIPPED, "*.egg-info"))
    slug = present(target).removeprefix("https://github.com/")
    owner, name = slug.split("/")
    (target / "book" / "links.md").write_text(
        f"https://colab.research.google.com/github/{slug}/blob/main/notebooks/01_x.ipynb\n"
        f"https://mybinder.org/v2/gh/{slug}/main\n"
        f"https://{owner}.github.io/{name}/index.html\n"
        f"pip install git+https://github.com/{slug}.git\n"
        f"git@github.com/{slug}, https://github.com/{slug}.\n"
        f"https://github.com/{slug}-lab stays\n"
    )
    return target


def present(root) -> str:
    return yaml.safe_load((root / "_config.yml").read_text())["repository"]["url"]


def all_text(root) -> str:
    found = []
    for path in sorted(root.rglob("*")):
        if path.is_file():
            found.append(path.read_text(errors="ignore").replace("-lab stays", " stays"))
    return "".join(found)


def test_the_old_address_is_nowhere_left(copy):
    old = present(copy)
    owner, name = old.removeprefix("https://github.com/").split("/")
    (copy / "book" / "links.md").write_text(
        (copy / "book" / "links.md").read_text().replace(f"{owner}/{name}-lab stays", "")
    )
    changed = rehome(copy, NEW + ".git")
    assert changed[-1] == copy / "_config.yml"
    assert present(copy) == NEW
    left = all_text(copy)
    assert f"{owner}/{name}" not in left
    assert f"{owner}.github.io" not in left
    assert f"{NEW}/issues" in (copy / "pyproject.toml").read_text()
    links = (copy / "book" / "links.md").read_text()
    assert f"colab.research.google.com/github/{SLUG}/blob/main" in links
    assert f"mybinder.org/v2/gh/{SLUG}/main" in links
    assert f"{SLUG.replace('/', '.github.io/')}/index.html" in links
    assert f"git+https://github.com/{SLUG}.git" in links


def test_a_longer_name_is_another_address(copy):
    old = present(copy)
    rehome(copy, NEW)
    assert f"{old}-lab stays" in (copy / "book" / "links.md").read_text()


def test_a_second_call_changes_nothing(copy):
    assert rehome(copy, NEW)
    before = all_text(copy)
    assert rehome(copy, NEW + "/") == []
    assert all_text(copy) == before


def test_there_and_back_is_the_same(copy):
    old, before = present(copy), all_text(copy)
    rehome(copy, NEW)
    assert all_text(copy) != before
    rehome(copy, old)
    assert all_text(copy) == before


@pytest.mark.parametrize(
    "url",
    [
        "",
        "course",
        "http://github.com/a/b",
        "https://github.com/a",
        "https://github.com/a/b/c",
        "https://gitlab.com/a/b",
        "https://github.com/a b/c",
        "https://github.com/a/b?x",
        "https://github.com/a/.",
        "https://github.com/a/..",
        "https://github.com/a/..git",
        "https://github.com/a/b\u00e9",
        "https://github.com/\u0430/b",
        "https://github.com/a/\u0662",
    ],
)
def test_an_address_of_another_form_is_refused(copy, url):
    before = all_text(copy)
    with pytest.raises(UsageError, match=r"https://github\.com/OWNER/NAME"):
        rehome(copy, url)
    assert all_text(copy) == before


def test_a_link_stays_a_link_and_what_it_leads_to_outside_stays(copy, tmp_path):
    outside = tmp_path / "outside.md"
    outside.write_text(present(copy))
    (copy / "book" / "out.md").symlink_to(outside)
    (copy / "book" / "in.md").symlink_to("links.md")
    before = outside.read_text()
    changed = rehome(copy, NEW)
    assert (copy / "book" / "out.md").is_symlink() and (copy / "book" / "in.md").is_symlink()
    assert outside.read_text() == before
    assert copy / "book" / "links.md" in changed and copy / "book" / "in.md" not in changed
    assert SLUG in (copy / "book" / "in.md").read_text()


def test_links_to_a_third_address_are_refused(copy):
    page = copy / "book" / "links.md"
    page.write_text(page.read_text() + "https://mybinder.org/v2/gh/other/fork/main\n")
    before = all_text(copy)
    with pytest.raises(BookError, match=r"book/links\.md, line 7: other/fork"):
        rehome(copy, NEW)
    assert all_text(copy) == before


def test_a_file_that_cannot_be_written_changes_nothing(copy, monkeypatch):
    before = all_text(copy)
    replace, calls = os.replace, []

    def full(*names):
        calls.append(names)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        replace(*names)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(BookError, match=r"Nothing was changed.*No space"):
        rehome(copy, NEW)
    assert all_text(copy) == before


def test_a_call_that_was_cut_short_is_finished_by_the_next(copy, monkeypatch):
    replace, calls = os.replace, []

    def cut(*names):
        calls.append(names)
        if len(calls) == 2:
            raise SystemExit
        replace(*names)

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(os, "replace", cut)
        rehome(copy, NEW)
    old = present(copy)
    assert rehome(copy, NEW)
    assert old not in all_text(copy).replace(f"{old} stays", "")
