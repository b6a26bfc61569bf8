"""Which source files the prose comes from, and where they lie on this machine.

A fixed list of packages and subpackages.  All but one are packages that ``requirements.lock`` pins,
so their text is the same under every Python.  The exception, the language reference in
``pydoc_data.topics``, differs between releases of Python; it is there for who asks for it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import platform
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from helpers.tasks.prose.extract import docstring_prose, topic_prose

PARTS = ("numpy", "scipy", "scikit-learn", "torch")
"""The parts of the book's corpus, in their order."""
LISTED: dict[str, tuple[str, tuple[str, ...]]] = {
    "numpy": ("numpy", (".",)),
    "scipy": ("scipy", ("integrate", "interpolate", "linalg", "optimize", "signal")),
    "scikit-learn": ("sklearn", (".",)),
    "torch": ("torch", ("autograd", "distributions", "nn", "optim")),
    "topics": ("pydoc_data", ("topics.py",)),
}
"""By part: the package, and which of its folders or files."""
SKIPPED = frozenset(
    {"tests", "test", "testing", "distutils", "externals", "version.py", "__config__.py"}
)
"""Folders and files of tests, of others' code, that a package's build writes, or that it leaves out
under newer Pythons (numpy's distutils)."""


@dataclass(frozen=True)
class Source:
    """A part's files, relative to ``root``, with its ``version`` and the hash of all of it."""

    part: str
    version: str
    root: Path
    files: tuple[str, ...]
    sha256: str


def find_source(part: str) -> Source:
    """The files of ``part`` and their hash; nothing is imported.

    Raises:
        ValueError: an unknown part.
        ModuleNotFoundError: its package is not installed.
    """
    if part not in LISTED:
        raise ValueError(f"there is no part {part!r} of the corpus; there are {', '.join(LISTED)}.")
    package, places = LISTED[part]
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"the corpus takes docstrings from {part}, which is not installed: pip install {part}."
        )
    root = Path(next(iter(spec.submodule_search_locations)))
    paths = [path for place in places for path in _python_files(root / place)]
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.relative_to(root).as_posix()}\n".encode())
        digest.update(path.read_bytes())
    version = platform.python_version() if part == "topics" else metadata.version(part)
    files = tuple(path.relative_to(root).as_posix() for path in paths)
    return Source(part, version.partition("+")[0], root, files, digest.hexdigest())


def read_part(source: Source) -> list[tuple[str, list[str]]]:
    """Documents in order: a name such as ``numpy/linalg/_linalg.py``, and prose paragraphs.

    A paragraph counts where it stands first: docstrings repeat themselves.
    """
    found: list[tuple[str, list[str]]] = []
    for file in source.files:
        text = (source.root / file).read_text(encoding="utf-8")
        if source.part == "topics":
            found += [(f"topics/{name}", said) for name, said in topic_prose(text)]
        else:
            found.append((f"{source.root.name}/{file}", docstring_prose(text)))
    return without_repeats(found)


def without_repeats(documents: list[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    """Each paragraph only where it stands first; documents without any are left out."""
    seen: set[str] = set()
    kept = []
    for name, paragraphs in documents:
        new = [p for p in dict.fromkeys(paragraphs) if p not in seen]
        seen.update(new)
        if new:
            kept.append((name, new))
    return kept


def _python_files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    inside = ((path.relative_to(place).parts, path) for path in place.rglob("*.py"))
    return [path for parts, path in sorted(inside) if not SKIPPED & set(parts)]
