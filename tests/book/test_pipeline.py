"""From notebooks to a published site, and back from every kind of failure."""

import json
import shutil

import nbformat
import pytest

from helpers.book import pipeline, site
from helpers.book.errors import BookError, UsageError
from tests.book.conftest import chapter, write_chapter, write_yaml


@pytest.fixture
def no_sphinx(monkeypatch):
    """In the place of Jupyter Book, a builder of plain pages: fast, and easily made to fail."""

    def build(book):
        html = book.site / "_build" / "html"
        for source in book.stage.rglob("*"):
            name = source.relative_to(book.stage)
            if source.suffix == ".ipynb":
                (html / "_sources" / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, html / "_sources" / name)
                cells = nbformat.read(source, as_version=4).cells
                text = cells[0].source.removeprefix("# ")
                outputs = [o for c in cells for o in c.get("outputs", [])]
                body = "".join(o.get("data", {}).get("text/html", "") for o in outputs)
            elif source.suffix == ".md":
                text, body = source.read_text().splitlines()[0].removeprefix("# "), ""
            else:
                continue
            page = (html / name).with_suffix(".html")
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(f"<html><body><h1>{text}</h1>{body}</body></html>")
        (html / "index.html").write_text("<html></html>")
        return html

    monkeypatch.setattr(site, "build", build)


def test_a_book_is_built_and_a_second_call_reuses_all_of_it(tiny, news):
    html = pipeline.publish(tiny, say=news.append)
    assert html == tiny.root / "_build" / "html"
    page = (html / "notebooks" / "01_one.html").read_text()
    assert "laptop 3" in page and "one dot" in page and "injected" not in page
    before = {p: p.stat().st_mtime_ns for p in html.rglob("*")}
    news.clear()
    pipeline.publish(tiny, say=news.append)
    assert {p: p.stat().st_mtime_ns for p in html.rglob("*")} == before
    assert [line for line in news if "will run" in line] == []
    assert [row["cached"] for row in pipeline.timing_rows(tiny)] == [True, True]


def test_a_warning_of_the_site_builder_keeps_the_old_site(tiny, news):
    old = tiny.published("laptop")
    old.mkdir(parents=True)
    (old / "index.html").write_text("old")
    with (tiny.root / "book" / "index.md").open("a") as page:
        page.write("\nSee {ref}`nowhere`.\n")
    with pytest.raises(BookError, match=r"(?s)index\.md.*nowhere"):
        pipeline.publish(tiny, say=news.append)
    assert (old / "index.html").read_text() == "old"


def test_a_failing_chapter_leaves_the_others_and_the_site(tiny, news, no_sphinx):
    html = pipeline.publish(tiny, say=news.append)
    before = (html / "notebooks" / "02_two.html").read_text()
    write_chapter(tiny, "02_two", chapter("Two", "print('got here')", "# a comment\n1 / 0"))
    with pytest.raises(BookError) as caught:
        pipeline.publish(tiny, say=news.append)
    said = str(caught.value)
    assert "02_two failed" in said and "cell-1" in said and "`1 / 0`" in said
    assert "ZeroDivisionError: division by zero" in said and "Kept: 01_one" in said
    assert (html / "notebooks" / "02_two.html").read_text() == before
    half = nbformat.read(tiny.failed / "02_two.ipynb", as_version=4)
    assert "got here" in json.dumps(half)
    news.clear()
    write_chapter(tiny, "02_two", chapter("Two", "print('mended')"))
    pipeline.publish(tiny, say=news.append)
    assert any("01_one: nothing changed" in line for line in news)
    assert any("02_two: will run" in line for line in news)
    assert not (tiny.failed / "02_two.ipynb").exists()


def test_quick_is_never_published_nor_judged(tiny, news, no_sphinx, monkeypatch):
    monkeypatch.setattr(pipeline, "verdict_problems", lambda *_: ["x.y: not what was expected"])
    html = pipeline.publish(tiny, "quick", say=news.append)
    assert html != tiny.published("laptop")
    assert not tiny.published("laptop").exists()
    assert "quick 1" in (tiny.executed("quick", "01_one") / "notebook.ipynb").read_text()


def test_a_page_that_the_builder_loses_is_noticed(tiny, news, no_sphinx, monkeypatch):
    whole = site.build

    def build(book):
        html = whole(book)
        (html / "book" / "timings.html").unlink()
        return html

    monkeypatch.setattr(site, "build", build)
    with pytest.raises(BookError, match=r"the page book/timings\.html is missing"):
        pipeline.publish(tiny, say=news.append)
    assert not tiny.published("laptop").exists()


def test_an_unexpected_verdict_is_not_published_unless_asked(tiny, news, no_sphinx, monkeypatch):
    monkeypatch.setattr(pipeline, "verdict_problems", lambda *_: ["x.y: not what was expected"])
    with pytest.raises(BookError, match=r"x\.y: not what was expected"):
        pipeline.publish(tiny, say=news.append)
    assert not tiny.published("laptop").exists()
    assert pipeline.publish(tiny, any_verdict=True, say=news.append).is_dir()


def test_no_published_file_names_a_folder_of_this_machine(tiny, news, no_sphinx):
    where = "import pathlib, sys\nprint(pathlib.Path.cwd(), pathlib.Path.cwd() / 'x', sys.prefix)"
    write_chapter(tiny, "02_two", chapter("Two", where))
    raw = "notebook.ipynb"
    html = pipeline.publish(tiny, say=news.append)
    assert str(tiny.root) in (tiny.executed("laptop", "02_two") / raw).read_text()
    for path in html.rglob("*.*"):
        assert str(tiny.root) not in path.read_text(errors="replace"), path


def test_a_warning_in_a_chapter_is_a_failure_unless_its_cell_says_so(tiny, news):
    noisy = "import sys\nprint('careful', file=sys.stderr)"
    write_chapter(tiny, "02_two", chapter("Two", noisy))
    with pytest.raises(BookError, match=r"02_two: cell cell-0 .*stderr: careful"):
        pipeline.run(tiny, ["02"], say=news.append)
    write_chapter(tiny, "02_two", chapter("Two", noisy, tags={0: ["expect-stderr"]}))
    pipeline.run(tiny, ["02"], say=news.append)


def test_a_result_that_was_not_clean_is_made_again(tiny, news, tmp_path):
    marker = tmp_path / "all is well"
    noisy = f"import os, sys\nif not os.path.exists({str(marker)!r}): print('no', file=sys.stderr)"
    write_chapter(tiny, "02_two", chapter("Two", noisy))
    with pytest.raises(BookError, match="stderr: no"):
        pipeline.run(tiny, ["02"], say=news.append)
    marker.write_text("")
    news.clear()
    pipeline.run(tiny, ["02"], say=news.append)
    assert "02_two: will run, because its last run was not clean" in news


CACHED = """
from helpers.cache import cached
@cached()
def f(a): return {"a": a}
f(1)
path = f.entry(1) / "manifest.json"
path.write_text(path.read_text()[:20])
print(f(1))
"""


def test_damage_in_the_cache_is_told_and_fails_no_chapter(tiny, news, root, monkeypatch):
    monkeypatch.setattr("helpers.book.job.search_path", lambda _: str(root))
    write_chapter(tiny, "02_two", chapter("Two", CACHED))
    pipeline.run(tiny, ["02"], say=news.append)
    [note] = [line for line in news if line.startswith("02_two: note: ")]
    assert "is damaged" in note
    assert "stderr" not in (tiny.executed("laptop", "02_two") / "notebook.ipynb").read_text()


def test_an_expected_error_is_tagged_cell_by_cell(tiny, news):
    tags = {0: ["raises-exception"]}
    write_chapter(tiny, "02_two", chapter("Two", "1 / 0", "print('on')", tags=tags))
    pipeline.run(tiny, ["02_two"], say=news.append)
    text = (tiny.executed("laptop", "02_two") / "notebook.ipynb").read_text()
    assert "papermill-error" not in text and "ZeroDivisionError" in text
    write_chapter(tiny, "02_two", chapter("Two", "1 / 1", tags=tags))
    with pytest.raises(BookError, match="tagged `raises-exception` but does not show"):
        pipeline.run(tiny, ["02_two"], say=news.append)


def test_a_chapter_outside_the_table_of_contents_is_named(tiny, news):
    write_chapter(tiny, "03_three", chapter("Three"))
    with pytest.raises(BookError, match=r"_toc\.yml does not list 03_three"):
        pipeline.publish(tiny, say=news.append)


def test_a_page_without_a_source_is_named(tiny, news):
    toc = {"format": "jb-book", "root": "book/index", "chapters": [{"file": "book/nowhere"}]}
    write_yaml(tiny.root / "_toc.yml", toc)
    with pytest.raises(BookError, match="pages that are not there: book/nowhere"):
        pipeline.publish(tiny, say=news.append)


def test_two_commands_do_not_work_on_one_book(tiny, news):
    with pipeline.locked(tiny), pytest.raises(BookError, match=r"Another command \(process \d+\)"):
        pipeline.run(tiny, [], say=news.append)


def test_an_unknown_profile_is_refused_before_anything_runs(tiny, news):
    with pytest.raises(UsageError, match=r"'huge'.*quick, laptop, full"):
        pipeline.publish(tiny, "huge", say=news.append)
    assert not tiny.build.exists()
