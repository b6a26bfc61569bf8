"""Where everything lies, from one root."""

from dataclasses import dataclass
from pathlib import Path

from helpers.book.errors import UsageError


@dataclass(frozen=True)
class Book:
    """The folders of one book.

    ``root`` holds ``_config.yml``, ``_toc.yml``, ``book/`` and ``notebooks/``. ``build`` takes
    everything that is made; the default is ``root/_build``.
    """

    root: Path
    build: Path

    @classmethod
    def at(cls, root: Path | str, build: Path | str | None = None) -> "Book":
        """The book at ``root``, with absolute paths."""
        root = Path(root).resolve()
        return cls(root, Path(build).resolve() if build else root / "_build")

    @property
    def notebooks(self) -> Path:
        return self.root / "notebooks"

    @property
    def profiles(self) -> Path:
        return self.notebooks / "profiles"

    @property
    def stage(self) -> Path:
        """The tree that Sphinx reads."""
        return self.build / "stage"

    @property
    def site(self) -> Path:
        """Where Sphinx writes, before the check and the swap."""
        return self.build / "site"

    @property
    def failed(self) -> Path:
        """Half-run notebooks, kept for reading."""
        return self.build / "failed"

    def executed(self, profile: str, chapter: str) -> Path:
        """The stored result of a chapter: notebook, record, timings, manifest."""
        return self.build / "executed" / profile / chapter

    def running(self, profile: str, chapter: str) -> Path:
        """The working folder of a chapter that runs now."""
        return self.build / "running" / profile / chapter

    def records(self, profile: str) -> Path:
        """Copies of the chapters' ledger records, for the ledger."""
        return self.build / "records" / profile

    def published(self, profile: str) -> Path:
        """The finished site. A smoke run is never published, so ``quick`` has its own folder."""
        return self.build / ("html" if profile != "quick" else "html-quick")


def find_root(start: Path | None = None) -> Path:
    """The nearest folder at or above ``start`` that holds ``_toc.yml`` and ``_config.yml``.

    Raises:
        UsageError: no such folder.
    """
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / "_toc.yml").is_file() and (folder / "_config.yml").is_file():
            return folder
    raise UsageError(
        f"No book here: neither {start} nor a folder above it holds _toc.yml and _config.yml. "
        "Change into a clone of the book, or name one with --root."
    )
