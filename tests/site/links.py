"""The pages of a built site, and every link inside it: pages, files, #anchors. No browser."""

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Written by Sphinx itself: an empty index, and a redirect to the first page.
NOT_READ = {"genindex.html", "index.html"}


def pages(site: Path) -> list[str]:
    """Names of the pages that people read, such as `book/index.html`."""
    names = (page.relative_to(site).as_posix() for page in site.rglob("*.html"))
    return sorted(n for n in names if n not in NOT_READ and not n.startswith("_"))


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.anchors: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        for name in ("id", "name") if tag == "a" else ("id",):
            if values.get(name):
                self.anchors.add(values[name])
        for name in ("href", "src"):
            if values.get(name):
                self.links.append(values[name])


@cache
def _read(path: Path) -> _Reader:
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader


def broken(site: Path) -> list[str]:
    """Every link that leads nowhere, as `page -> link: reason`.

    Links to other hosts are skipped, and so are templates that a theme leaves in `_static`.
    """
    found = []
    for page in sorted(site.rglob("*.html")):
        name = page.relative_to(site).as_posix()
        if name.startswith("_"):
            continue
        for link in dict.fromkeys(_read(page).links):
            reason = _problem(site, page, link)
            if reason:
                found.append(f"{name} -> {link}: {reason}")
    return found


def _problem(site: Path, page: Path, link: str) -> str | None:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc or link == "#":
        return None
    target = page
    if parts.path:
        base = site if parts.path.startswith("/") else page.parent
        target = (base / unquote(parts.path).lstrip("/")).resolve()
        if target.is_dir():
            target /= "index.html"
        if not target.is_file():
            return "no such file"
        if not target.is_relative_to(site.resolve()):
            return "leads out of the site"
    anchor = unquote(parts.fragment)
    if anchor and target.suffix == ".html" and anchor not in _read(target).anchors:
        return "no such anchor"
    return None
