"""What the cache tells its user. Nothing of it makes a result wrong."""

from __future__ import annotations

import os
import warnings
from pathlib import Path


class CacheWarning(UserWarning):
    """Something about the cache that a reader should know; the result is right all the same."""


def tell(message: str, stacklevel: int = 2) -> None:
    """Warn; under the book's runner, leave a note for it instead.

    A warning would stand on the chapter's page, and the runner would take it for a fault of the
    chapter. The note is a line of `<chapter>.notes` in the folder that `BOOK_RECORDS` names.
    """
    folder, chapter = os.environ.get("BOOK_RECORDS"), os.environ.get("BOOK_CHAPTER")
    if folder and chapter:
        try:
            with Path(folder, f"{chapter}.notes").open("a", encoding="utf-8") as notes:
                notes.write(" ".join(message.split()) + "\n")
            return
        except OSError:
            pass  # the note has no place; then a warning is better than silence
    warnings.warn(message, CacheWarning, stacklevel=stacklevel + 1)
