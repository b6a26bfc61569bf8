"""The table of contents: which pages the site must have."""

from pathlib import Path
from typing import Any

import yaml

from helpers.book.errors import BookError
from helpers.book.paths import Book

GENERATED = {"book/ledger", "book/timings"}  # written while staging; they have no source


def toc_pages(book: Book) -> list[str]:
    """Every page of ``_toc.yml``, without its suffix, in reading order.

    Raises:
        BookError: the file is unreadable, has no root, or names a page with no source.
    """
    path = book.root / "_toc.yml"
    try:
        toc = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BookError(f"_toc.yml cannot be read: {error}. Restore it from git.") from error
    if not isinstance(toc, dict) or "root" not in toc:
        raise BookError("_toc.yml has no root page. Its first lines are `format:` and `root:`.")
    odd = [page for page in _files(toc) if not isinstance(page, str) or not page]
    if odd:
        raise BookError(f"_toc.yml: a page is the path of a file as text, not {odd[0]!r}.")
    pages = list(dict.fromkeys(_files(toc)))
    missing = [p for p in pages if p not in GENERATED and source_of(book, p) is None]
    if missing:
        raise BookError(
            f"_toc.yml names pages that are not there: {', '.join(missing)}. Add the files "
            "(.md or .ipynb) or take the names out."
        )
    return pages


def source_of(book: Book, page: str) -> Path | None:
    """The page's source file below the root, or None."""
    for suffix in (".md", ".ipynb"):
        path = book.root / f"{page}{suffix}"
        if path.is_file():
            return path
    return None


def _files(node: Any) -> list[str]:
    if isinstance(node, list):
        return [f for item in node for f in _files(item)]
    if not isinstance(node, dict):
        return []
    own = [node[name] for name in ("root", "file") if name in node]
    return own + [f for value in node.values() for f in _files(value)]
