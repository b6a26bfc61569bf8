"""Folders that appear whole or not at all, and files that a loss of power leaves whole."""

from __future__ import annotations

import errno
import os
import shutil
import time
import uuid
from collections.abc import Callable
from pathlib import Path

PARTIAL = ".partial"
_TAKEN = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}


class Damaged(Exception):
    """A kept folder that is not what was written."""


def publish(partial: Path, folder: Path, check: Callable[[Path], object]) -> None:
    """Rename the finished folder into place. A whole one that is there already is as good.

    `check(folder)` raises Damaged where that one is not whole; then it makes way.
    """
    while True:
        try:
            os.rename(partial, folder)
            return
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
        try:
            check(folder)
            return
        except FileNotFoundError:
            continue  # someone else has just taken the damaged one away
        except Damaged:
            aside = partial.with_name(uuid.uuid4().hex)
            try:
                os.rename(folder, aside)
            except FileNotFoundError:
                continue
            remove(aside)


def sweep(partials: Path, older_than: float = 86_400) -> None:
    """Remove what killed writers left behind a day ago."""
    for path in partials.iterdir():
        try:
            if time.time() - path.stat().st_mtime > older_than:
                remove(path)
        except FileNotFoundError:
            continue  # its writer has finished just now


def remove(path: Path) -> None:
    """A file or a folder with all in it; no error where it is gone."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write(path: Path, content: bytes) -> None:
    """Write a file, and wait until the disk has it."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync(folder: Path) -> None:
    """Make a folder's entries last. Windows cannot open a folder; there is nothing to do then."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
