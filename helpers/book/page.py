"""What one HTML page holds, as far as the checks ask."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

# attributes through which a page loads something by itself; a plain link loads nothing
LOADING = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "input": ("src",),
    "track": ("src",),
    "image": ("href", "xlink:href"),  # in an SVG, as the next two
    "use": ("href", "xlink:href"),
    "feimage": ("href", "xlink:href"),
}
LOADING_RELATIONS = {"stylesheet", "preload", "prefetch", "modulepreload", "icon", "manifest"}
LOADING_RELATIONS |= {"preconnect", "dns-prefetch", "shortcut", "apple-touch-icon"}
CSS_ADDRESS = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])([^'\")\s]+)", re.IGNORECASE)
IMAGE_SET = re.compile(r"image-set\(((?:[^()]|\([^()]*\))*)\)", re.IGNORECASE)
QUOTED = re.compile(r"(\(\s*)?(['\"])(.*?)\2")
# what a script of the page fetches by a name that it spells out
SCRIPT_ADDRESS = re.compile(
    r"(?:\b(?:fetch|import|importScripts|Worker|EventSource|WebSocket|sendBeacon)\s*\(\s*"
    r"|\bopen\s*\(\s*['\"][A-Z]+['\"]\s*,\s*|\b(?:import|from)\s*|\.src\s*=\s*)"
    r"['\"`]((?:https?:|wss?:)?//[^'\"`\s]+)"
)
FILE_NAME = re.compile(r"\.(?:png|svg|jpe?g|gif|webp)$", re.IGNORECASE)
OUTSIDE = re.compile(r"^\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
VOID = {"img", "link", "meta", "br", "hr", "input", "source", "track", "embed", "wbr", "col"}


@dataclass
class Page:
    """Facts of a page.

    ``images``: (src, alt or None) of every image in the article; ``loads``: addresses that the
    page fetches by itself; ``links``: addresses that a reader may follow; ``tracebacks``: how many
    are shown.
    """

    title: str = ""
    images: list[tuple[str, str | None]] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    tracebacks: int = 0


def read_page(path: Path) -> Page:
    """The facts of one HTML file."""
    return parse_page(path.read_text(encoding="utf-8"))


def parse_page(text: str) -> Page:
    """The facts of a piece of HTML."""
    reader = _Reader()
    reader.feed(text)
    reader.page.title = " ".join(reader.page.title.replace("#", "").split())
    return reader.page


def outside(address: str) -> bool:
    """True where the address leads off the site."""
    return bool(OUTSIDE.match(address))


def css_addresses(text: str) -> list[str]:
    """The addresses that a style sheet loads."""
    quoted = [found for inside in IMAGE_SET.findall(text) for found in QUOTED.findall(inside)]
    # after a bracket stands `url("…")`, which is found as such, or `type("…")`, no address
    sets = [address for bracket, _, address in quoted if not bracket]
    return CSS_ADDRESS.findall(text) + sets


def script_addresses(text: str) -> list[str]:
    """The addresses of other hosts that an inline script spells out and loads."""
    return SCRIPT_ADDRESS.findall(text)


def described(source: str, alt: str | None) -> bool:
    """True where ``alt`` says something: not blank, and not the file's name, which Sphinx writes
    where the author gave no text."""
    words = (alt or "").strip()
    names = {source, unquote(source)}
    names |= {name.rsplit("/", 1)[-1] for name in names}
    return bool(words) and words not in names and not FILE_NAME.search(words)


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.page = Page()
        self._inside: list[str] = []
        self._titled = False

    def handle_starttag(self, tag, attributes):
        values = {name: value or "" for name, value in attributes}
        if tag not in VOID:
            self._inside.append(tag)
        for name in LOADING.get(tag, ()):
            if name in values:
                self.page.loads += [part.split()[0] for part in _addresses(name, values[name])]
        if tag == "link" and LOADING_RELATIONS & set(values.get("rel", "").split()):
            self.page.loads.append(values.get("href", ""))
        if tag == "a" and values.get("href"):
            self.page.links.append(values["href"])
        if tag == "img":
            self.page.images.append((values.get("src", ""), dict(attributes).get("alt")))
        self.page.loads += css_addresses(values.get("style", ""))
        if {"output", "traceback"} <= set(values.get("class", "").split()):
            self.page.tracebacks += 1

    def handle_endtag(self, tag):
        if tag in self._inside:
            while self._inside.pop() != tag:
                continue
        if tag == "h1":
            self._titled = True

    def handle_data(self, data):
        if "h1" in self._inside and not self._titled:
            self.page.title += data
        if self._inside and self._inside[-1] == "style":
            self.page.loads += css_addresses(data)
        if self._inside and self._inside[-1] == "script":
            self.page.loads += script_addresses(data)


def _addresses(name: str, value: str) -> list[str]:
    if name == "srcset" and not value.startswith("data:"):
        return [part for part in value.split(",") if part.strip()]
    return [value] if value.strip() else []
