"""Gather what Sphinx reads: the prose, the executed chapters, generated pages, web assets."""

import re
import shutil
from collections.abc import Iterable
from importlib import metadata

import nbformat

from helpers.book import store, timings_page
from helpers.book.chapters import read_notebook
from helpers.book.errors import BookError
from helpers.book.files import fresh_folder
from helpers.book.paths import Book
from helpers.book.private import private_places, scrubbed
from helpers.book.toc import toc_pages

MATHJAX = re.compile(r"static/mathjax/(tex-mml-chtml\.js|output/chtml/fonts/woff-v2/.+)$")


def stage(book: Book, profile: str) -> None:
    """Build ``book.stage`` from nothing.

    Raises:
        BookError: a chapter of the table of contents has no result, or an asset is missing.
    """
    root = fresh_folder(book.stage)
    shutil.copytree(
        book.root / "book", root / "book", ignore=shutil.ignore_patterns("assets", ".*")
    )
    for page in toc_pages(book):
        if page.startswith("notebooks/"):
            _stage_chapter(book, profile, page.removeprefix("notebooks/"))
    _stage_generated(book, profile)
    _stage_assets(book)


def cleaned(
    notebook: nbformat.NotebookNode, places: Iterable[tuple[str, str]]
) -> nbformat.NotebookNode:
    """An executed notebook, fit to be published, changed in place.

    papermill's and nbclient's metadata go (they hold absolute paths and times), the injected
    parameters cell does not show on the page, and ``places`` (path, replacement) are replaced in
    every output. The author's cell ids stay.
    """
    notebook.metadata.pop("papermill", None)
    for cell in notebook.cells:
        for name in ("papermill", "execution"):
            cell.metadata.pop(name, None)
        tags = cell.metadata.get("tags", [])
        if "injected-parameters" in tags and "remove-cell" not in tags:
            cell.metadata["tags"] = [*tags, "remove-cell"]
            cell["id"] = "injected-parameters"  # papermill draws another one at every run
        for output in cell.get("outputs", []):
            _scrub(output, tuple(places))
    return notebook


def _stage_chapter(book: Book, profile: str, chapter: str) -> None:
    source = book.executed(profile, chapter) / store.NOTEBOOK
    if not source.is_file():
        raise BookError(
            f"The chapter {chapter} has no result in the profile {profile}. Run it with: "
            f"python -m helpers run {chapter} --profile {profile}"
        )
    target = book.stage / "notebooks" / f"{chapter}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(cleaned(read_notebook(source), private_places(book)), target)


def _stage_generated(book: Book, profile: str) -> None:
    pages = toc_pages(book)
    if "book/ledger" in pages:
        from helpers.book import ledger_page

        text = ledger_page.render(book.root, book.records(profile))
        (book.stage / "book" / "ledger.md").write_text(text, encoding="utf-8")
    if "book/timings" in pages:
        text = timings_page.render(store.timings(book, (profile,)))
        (book.stage / "book" / "timings.md").write_text(text, encoding="utf-8")


def _stage_assets(book: Book) -> None:
    # not named `_static`: Sphinx would load every script in such a folder on every page
    vendor = book.stage / "vendor"
    vendor.mkdir()
    assets = book.root / "book" / "assets"
    if assets.is_dir():
        shutil.copytree(assets, vendor, dirs_exist_ok=True)
    files = metadata.files("sphinx-mathjax-offline") or []
    wanted = [(f, m[1]) for f in files if (m := MATHJAX.search(f.as_posix()))]
    if len(wanted) < 2:
        raise BookError(
            "The installed sphinx-mathjax-offline does not hold MathJax's script and fonts. "
            "Install it again: pip install --force-reinstall -c requirements.lock "
            "sphinx-mathjax-offline"
        )
    for file, name in wanted:
        target = vendor / "mathjax" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file.locate(), target)


def _scrub(node: nbformat.NotebookNode, places: tuple[tuple[str, str], ...]) -> None:
    def clean(value):
        if isinstance(value, str):
            return scrubbed(value, places)
        if isinstance(value, list):
            return [clean(v) for v in value]
        return value

    if "text" in node:
        node["text"] = clean(node["text"])
    if "traceback" in node:
        node["traceback"] = clean(node["traceback"])
    for kind, value in node.get("data", {}).items():
        if not kind.startswith("image/"):
            node["data"][kind] = clean(value)
