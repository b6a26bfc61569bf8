"""A tiny book in a temporary folder: two chapters that take a second each."""

import shutil
from pathlib import Path

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from helpers.book.paths import Book

PICTURE = (
    "import base64\nfrom IPython.display import HTML, display\n"
    "dot = 'R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7'\n"
    'display(HTML(f\'<img alt="one dot" src="data:image/gif;base64,{dot}">\'))'
)


def chapter(title: str, *cells: str, tags: dict[int, list[str]] | None = None):
    """A notebook with a title, a parameters cell, and the given code cells."""
    made = [new_markdown_cell(f"# {title}", id="title")]
    made.append(
        new_code_cell(
            'profile = "laptop"\nsize = 3', id="parameters", metadata={"tags": ["parameters"]}
        )
    )
    for index, source in enumerate(cells):
        metadata = {"tags": tags[index]} if tags and index in tags else {}
        made.append(new_code_cell(source, id=f"cell-{index}", metadata=metadata))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=made, metadata={"kernelspec": kernel})


def write_chapter(book: Book, name: str, notebook) -> Path:
    """Store a notebook as a chapter of the book."""
    path = book.notebooks / f"{name}.ipynb"
    nbformat.write(notebook, path)
    return path


def write_yaml(path: Path, data) -> None:
    """Write settings."""
    path.write_text(yaml.safe_dump(data), encoding="utf-8")


@pytest.fixture
def tiny(tmp_path: Path, root: Path) -> Book:
    """The book, with the real site settings and no result yet."""
    home = tmp_path / "tiny"
    (home / "book" / "assets").mkdir(parents=True)
    (home / "notebooks" / "profiles").mkdir(parents=True)
    (home / "helpers").mkdir()
    # a package, as every book has: a folder without this file would give way to an installed one
    (home / "helpers" / "__init__.py").write_text("")
    shutil.copy(root / "_config.yml", home / "_config.yml")
    files = ("notebooks/01_one", "notebooks/02_two", "book/timings")
    toc = {"format": "jb-book", "root": "book/index", "chapters": [{"file": f} for f in files]}
    write_yaml(home / "_toc.yml", toc)
    (home / "book" / "index.md").write_text("# A tiny book\n\nIt holds $x^2$.\n")
    (home / "book" / "references.bib").write_text("")
    (home / "book" / "assets" / "book.css").write_text("p { color: inherit; }\n")
    (home / "helpers" / "idea.py").write_text("answer = 42\n")
    for profile in ("laptop", "full"):
        write_yaml(home / "notebooks" / "profiles" / f"{profile}.yml", {})
    write_yaml(home / "notebooks" / "profiles" / "quick.yml", {"01_one": {"size": 1}})
    default = {"default": {"seconds": 60, "memory_mb": 1000}}
    limits = dict.fromkeys(("quick", "laptop", "full"), default)
    write_yaml(home / "notebooks" / "profiles" / "limits.yml", limits)
    book = Book.at(home)
    write_chapter(book, "01_one", chapter("One", "print(profile, size)", PICTURE))
    write_chapter(book, "02_two", chapter("Two", "import os\nprint(os.environ['BOOK_CORES'])"))
    return book


@pytest.fixture
def news() -> list[str]:
    """Collects what a command says: pass ``news.append`` as ``say``."""
    return []
