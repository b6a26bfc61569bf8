"""Every chapter of the book: its source is in order, and its smoke run is clean."""

import json
import re

import pytest

from helpers.book import check, pipeline, store
from helpers.book.chapters import PROFILES, chapter_names, parameters, read_notebook
from helpers.book.chapters import source_problems as problems_of
from helpers.book.page import parse_page
from helpers.book.paths import Book
from tests.conftest import ROOT

BOOK = Book.at(ROOT)
CHAPTERS = chapter_names(BOOK)


@pytest.mark.parametrize("name", CHAPTERS)
@pytest.mark.parametrize("profile", PROFILES)
def test_the_source_is_in_order(name, profile):
    path = BOOK.notebooks / f"{name}.ipynb"
    assert problems_of(read_notebook(path), parameters(BOOK, profile, name)) == []
    # the ids must be in the file itself: nbformat would invent missing ones on reading
    assert all(cell.get("id") for cell in json.loads(path.read_text())["cells"])


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_parameters_cell_is_the_laptop_profile(name):
    cells = read_notebook(BOOK.notebooks / f"{name}.ipynb").cells
    cell = next(c for c in cells if "parameters" in c.metadata.get("tags", []))
    assert re.search(r"""^profile(: \\w+)? = ["']laptop["']""", cell.source, re.MULTILINE)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """A build folder of its own for the smoke runs."""
    return Book.at(ROOT, tmp_path_factory.mktemp("smoke"))


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_smoke_run_is_clean_and_its_figures_have_alternative_text(name, smoke):
    pipeline.run(smoke, [name], "quick", say=lambda line: None)
    notebook = read_notebook(smoke.executed("quick", name) / store.NOTEBOOK)
    assert check.figures(notebook) > 0
    assert missing_alternatives(notebook) == []


def missing_alternatives(notebook) -> list[str]:
    """The cells that show an image without alternative text."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            page = parse_page("".join(data.get("text/html", "")))
            bare = any(kind.startswith("image/") for kind in data) and "text/html" not in data
            if bare or any(not (alt or "").strip() for _, alt in page.images):
                found.append(cell.id)
    return found


def test_a_figure_without_alternative_text_is_noticed():
    from nbformat.v4 import new_code_cell, new_notebook, new_output

    for data, good in (
        ({"text/html": '<img src="x" alt="a curve">', "image/png": "AA"}, True),
        ({"text/html": '<img src="x">', "image/png": "AA"}, False),
        ({"text/html": '<img src="x" alt="">'}, False),
        ({"image/png": "AA"}, False),
    ):
        cell = new_code_cell("x", outputs=[new_output("display_data", data)])
        assert (missing_alternatives(new_notebook(cells=[cell])) == []) == good
