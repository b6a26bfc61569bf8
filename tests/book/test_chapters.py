"""Names, profiles, limits and sources: what is wrong is said in words."""

import datetime
import shutil

import pytest

from helpers.book.chapters import (
    first_line,
    limits,
    parameters,
    read_notebook,
    resolve,
    source_problems,
)
from helpers.book.errors import BookError, UsageError
from helpers.book.toc import toc_pages
from tests.book.conftest import chapter, write_yaml


def test_a_chapter_is_found_by_its_name_or_an_unambiguous_beginning(tiny):
    assert resolve(tiny, []) == ["01_one", "02_two"]
    assert resolve(tiny, ["02", "01_one.ipynb", "02_two"]) == ["02_two", "01_one"]


def test_a_whole_number_is_not_the_beginning_of_a_lettered_one(tiny):
    shutil.copy(tiny.notebooks / "01_one.ipynb", tiny.notebooks / "01b_half.ipynb")
    assert resolve(tiny, ["01", "01b"]) == ["01_one", "01b_half"]
    with pytest.raises(UsageError, match="01_one, 01b_half, 02_two"):
        resolve(tiny, ["0"])


@pytest.mark.parametrize("name", ["nope", "0", "", "01_one_more"])
def test_an_unknown_chapter_is_refused_with_the_known_ones(tiny, name):
    with pytest.raises(UsageError, match="01_one, 02_two"):
        resolve(tiny, [name])


def test_a_profile_injects_itself_and_its_overrides(tiny):
    assert parameters(tiny, "laptop", "01_one") == {"profile": "laptop"}
    assert parameters(tiny, "quick", "01_one") == {"profile": "quick", "size": 1}


def test_a_profile_that_names_an_absent_chapter_is_refused(tiny):
    write_yaml(tiny.profiles / "full.yml", {"01_won": {"size": 1}})
    with pytest.raises(BookError, match=r"full\.yml names the chapter '01_won'"):
        parameters(tiny, "full", "01_one")


def test_limits_of_a_chapter_override_the_default(tiny):
    stated = {"laptop": {"default": {"seconds": 9, "memory_mb": 8}, "01_one": {"seconds": 7}}}
    write_yaml(tiny.profiles / "limits.yml", stated)
    assert (limits(tiny, "laptop", "01_one").seconds, limits(tiny, "laptop", "02_two").seconds) == (
        7,
        9,
    )
    assert limits(tiny, "laptop", "01_one").memory_mb == 8
    with pytest.raises(BookError, match="no usable `seconds`"):
        limits(tiny, "full", "01_one")


@pytest.mark.parametrize(
    "bad",
    [
        {"seconds": 0, "memory_mb": 1},
        {"seconds": "x", "memory_mb": 1},
        {"seconds": float("nan"), "memory_mb": 1},
        {"seconds": [1], "memory_mb": 1},
        [1, 2],
        "60 s",
    ],
)
def test_limits_must_be_positive_numbers(tiny, bad):
    write_yaml(tiny.profiles / "limits.yml", {"laptop": {"default": bad}})
    with pytest.raises(BookError, match=r"limits\.yml"):
        limits(tiny, "laptop", "01_one")


@pytest.mark.parametrize("bad", ["a text", [1], 3])
def test_a_profile_s_limits_must_be_a_mapping(tiny, bad):
    write_yaml(tiny.profiles / "limits.yml", {"laptop": bad})
    with pytest.raises(BookError, match=r"limits\.yml"):
        limits(tiny, "laptop", "01_one")


@pytest.mark.parametrize(
    "bad",
    [
        {"size": datetime.date(2026, 1, 1)},
        {"size": {1: 2}},
        {"size": float("nan")},
        {"profile": "full"},
        {1: 2},
        "text",
    ],
)
def test_overrides_that_cannot_be_handed_to_a_chapter_are_refused(tiny, bad):
    write_yaml(tiny.profiles / "quick.yml", {"01_one": bad})
    with pytest.raises(BookError, match=r"quick\.yml: .*01_one"):
        parameters(tiny, "quick", "01_one")


def test_settings_that_are_no_text_are_named(tiny):
    (tiny.profiles / "quick.yml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BookError, match=r"quick\.yml cannot be read"):
        parameters(tiny, "quick", "01_one")


@pytest.mark.parametrize("line", ["%matplotlib inline", "!ls", "size = = 3"])
def test_a_parameters_cell_that_is_no_plain_python_is_a_problem(line):
    notebook = chapter("One")
    notebook.cells[1].source += f"\n{line}"
    [found] = source_problems(notebook, {"profile": "quick"})
    assert "not plain Python" in found and "line 3" in found


@pytest.mark.parametrize("page", [None, 3, ["book/index"], ""])
def test_a_page_of_the_contents_that_is_no_text_is_named(tiny, page):
    write_yaml(tiny.root / "_toc.yml", {"format": "jb-book", "root": page})
    with pytest.raises(BookError, match=r"_toc\.yml: a page is the path of a file"):
        toc_pages(tiny)


def test_a_good_source_has_no_problem():
    assert source_problems(chapter("One", "1"), {"profile": "quick", "size": 1}) == []


def test_an_override_that_the_chapter_does_not_know_is_a_problem():
    found = source_problems(chapter("One"), {"profile": "quick", "siez": 1})
    assert found == ["its parameters cell does not assign siez"]


def test_stored_outputs_double_ids_and_a_second_parameters_cell_are_problems():
    with_outputs = chapter("One", "1")
    with_outputs.cells[-1].execution_count = 1
    twice = chapter("One", "1")
    twice.cells[-1].id = twice.cells[0].id
    two = chapter("One", "1", tags={0: ["parameters"]})
    for notebook, word in ((with_outputs, "outputs"), (twice, "ids"), (two, "2 cells tagged")):
        found = source_problems(notebook, {})
        assert len(found) == 1 and word in found[0]


def test_a_file_that_is_no_notebook_is_named(tiny):
    (tiny.notebooks / "01_one.ipynb").write_text("not json")
    with pytest.raises(BookError, match=r"01_one\.ipynb cannot be read as a notebook"):
        read_notebook(tiny.notebooks / "01_one.ipynb")


def test_the_first_line_of_a_cell_is_the_first_that_says_something():
    assert first_line("\n# a note\n%matplotlib inline\n  fit(x)\n") == "fit(x)"
    assert first_line("# only a note") == "# only a note"
    assert first_line("") == "(empty cell)"
