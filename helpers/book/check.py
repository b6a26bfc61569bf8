"""Look at the finished site before anyone else does. Each check returns what is wrong, in words."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat

from helpers.book.chapters import read_notebook
from helpers.book.page import css_addresses, described, outside, read_page
from helpers.book.paths import Book
from helpers.book.private import mentions, private_places
from helpers.book.toc import toc_pages

TEXT_SUFFIXES = {".html", ".css", ".js", ".json", ".ipynb", ".md", ".txt", ".xml", ".inv", ".svg"}


def figures(notebook: nbformat.NotebookNode) -> int:
    """How many images the outputs of an executed chapter put on its page."""
    count = 0
    for cell in notebook.cells:
        if {"remove-cell", "remove-output"} & set(cell.metadata.get("tags", [])):
            continue
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "text/html" in data:  # the page prefers it to the plain image beside it
                count += len(re.findall(r"<img\b", "".join(data["text/html"])))
            else:
                count += any(kind.startswith("image/") for kind in data)
    return count


def site_problems(book: Book, html: Path) -> list[str]:
    """What is wrong with the site in ``html``: pages, figures, downloads, private or third-party
    addresses. An empty list when nothing is."""
    found = []
    for name in toc_pages(book):
        path = html / f"{name}.html"
        if not path.is_file():
            found.append(f"the page {name}.html is missing")
            continue
        page = read_page(path)
        title = _title(book.stage, name)
        if _plain(title) not in _plain(page.title) or not title:
            found.append(f"{name}.html does not hold its title {title!r}, but {page.title!r}")
        if name.startswith("notebooks/"):
            found += _chapter_problems(book, html, name, page)
    for path in sorted(html.rglob("*")):
        if path.is_file() and path.suffix in TEXT_SUFFIXES:
            found += _file_problems(book, html, path)
    return found


def _chapter_problems(book: Book, html: Path, name: str, page) -> list[str]:
    notebook = read_notebook(book.stage / f"{name}.ipynb")
    found = []
    wanted, shown = figures(notebook), len(page.images)
    if shown < wanted:
        found.append(f"{name}.html shows {shown} images, but its chapter made {wanted}")
    expected = sum(o.output_type == "error" for c in notebook.cells for o in c.get("outputs", []))
    if page.tracebacks > expected:
        found.append(f"{name}.html shows {page.tracebacks - expected} unexpected tracebacks")
    if not (html / "_sources" / f"{name}.ipynb").is_file():
        found.append(f"the download of {name}.ipynb is missing")
    return found


def _file_problems(book: Book, html: Path, path: Path) -> list[str]:
    name = path.relative_to(html).as_posix()
    text = path.read_text(encoding="utf-8", errors="replace")
    found = []
    for place, _ in private_places(book):
        spot = mentions(text, place)
        if spot:
            found.append(f"{name} names a folder of this machine: {spot}")
    loads: list[str] = []
    if path.suffix == ".css":
        loads = css_addresses(text)
    elif path.suffix == ".html" and not name.startswith("_static/"):  # there lie theme templates
        page = read_page(path)
        loads = page.loads
        found += [
            f"{name}: an image has no alternative text ({src[:60]})"
            for src, alt in page.images
            if not described(src, alt)
        ]
        found += [
            f"{name} refers to {address}, which is not in the site"
            for address in dict.fromkeys([*page.loads, *page.links])
            if _dangling(html, path, address)
        ]
    found += [f"{name} loads {a} from a third party" for a in dict.fromkeys(loads) if outside(a)]
    return found


def _dangling(html: Path, page: Path, address: str) -> bool:
    parts = urlsplit(address)
    if parts.scheme or parts.netloc or not parts.path:
        return False
    base = html if parts.path.startswith("/") else page.parent
    target = (base / unquote(parts.path).lstrip("/")).resolve()
    return not target.is_file() and not (target / "index.html").is_file()


def _title(stage: Path, name: str) -> str:
    """The first heading of a staged page's source."""
    notebook = stage / f"{name}.ipynb"
    if notebook.is_file():
        cells = read_notebook(notebook).cells
        text = "\n".join(c.source for c in cells if c.cell_type == "markdown")
    else:
        text = (stage / f"{name}.md").read_text(encoding="utf-8")
    heading = re.search(r"^# +(.+?)\s*$", text, re.MULTILINE)
    return heading[1] if heading else ""


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", " ", text).strip().lower()
