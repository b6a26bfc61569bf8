"""Folders of this machine, which no published file may name."""

import contextlib
import re
import sys
from functools import lru_cache
from pathlib import Path

from helpers.book.paths import Book

# no path of this machine begins inside a word, an address or another path; but one may follow a
# colour code of a traceback, or the letter of an escaped line break
BEFORE = r"(^|[^\w.~/-]|file://|(?:\x1b|\\u001b|\\x1b)\[[\d;]*m|\\[nrt])"
AFTER = r"(/|(?![\w-]|\.\w))"
SHARED = {Path("/usr"), Path("/usr/local")}  # where Python lies on many machines


def private_places(book: Book) -> list[tuple[str, str]]:
    """The folders, each with its replacement ("" for the book itself), longest first."""
    from helpers.cache import cache_folder

    found = {book.root: ""}
    with contextlib.suppress(OSError):  # a cache folder that is a file is no cache folder
        found.setdefault(cache_folder(), "<cache>")
    found.setdefault(Path(sys.prefix), "<environment>")
    with contextlib.suppress(RuntimeError):  # nobody's home is known
        found.setdefault(Path.home(), "~")
    for path, short in list(found.items()):
        with contextlib.suppress(OSError):
            found.setdefault(path.resolve(), short)
    places = [(str(p), s) for p, s in found.items() if p != Path(p.anchor) and p not in SHARED]
    return sorted(places, key=lambda place: -len(place[0]))


def mentions(text: str, place: str) -> str | None:
    """The first mention of the folder ``place`` with what follows it, or None."""
    spot = _pattern(place).search(text)
    return text[spot.start(2) : spot.end() + 60].split()[0] if spot else None


def scrubbed(text: str, places: tuple[tuple[str, str], ...]) -> str:
    """``text`` with every mention of a place replaced."""
    for place, short in places:
        bare = short or "."

        def shorten(spot, short=short, bare=bare):
            return spot[1] + ((f"{short}/" if short else "") if spot[3] else bare)

        text = _pattern(place).sub(shorten, text)
    return text


@lru_cache
def _pattern(place: str) -> re.Pattern:
    return re.compile(f"{BEFORE}({re.escape(place)}){AFTER}", re.MULTILINE)
