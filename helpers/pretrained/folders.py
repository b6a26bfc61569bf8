"""Whole model folders in the cache: kept at once or not at all, and read only with their hashes.

`helpers.cache` keeps results that fit in memory several times over; a model's files are streamed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

from helpers.cache import cache_folder, files
from helpers.cache.notes import tell

MANIFEST = "manifest.json"


def kept(kind: str, key: str, write: Callable[[Path], None]) -> Path:
    """The folder `kind`/`key` of the cache, written by `write(folder)` where it is not there.

    The writer fills a folder of its own, which is renamed into place when it is whole; beside
    another writer of the same the first one to finish wins. A damaged folder is named in a
    CacheWarning and made anew. OSError where there is no place to write.
    """
    folder = cache_folder() / kind / key
    if folder.exists():
        try:
            check(folder)
            return folder
        except files.Damaged as damage:
            tell(f"the kept model {folder} is damaged ({damage}). It is made anew.", stacklevel=3)
    root = folder.parents[1]
    partial = root / files.PARTIAL / uuid.uuid4().hex
    partial.mkdir(parents=True)
    files.sweep(partial.parent)
    try:
        write(partial)
        _seal(partial)
        folder.parent.mkdir(exist_ok=True)
        files.publish(partial, folder, check)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def check(folder: Path) -> None:
    """Every file has the hash it was written with; files.Damaged, naming the file, if not."""
    try:
        body = json.loads((folder / MANIFEST).read_bytes())
        hashes = body["files"]
        text = json.dumps(hashes, sort_keys=True)
        if body["sha256"] != hashlib.sha256(text.encode()).hexdigest():
            raise files.Damaged(f"{MANIFEST} does not have its hash")
        for file, digest in hashes.items():
            if file_hash(folder / file) != digest:
                raise files.Damaged(f"{file} does not have its hash")
        extra = {path.name for path in folder.iterdir()} - set(hashes) - {MANIFEST}
        if extra:  # transformers would read a stray config or tokenizer
            raise files.Damaged(f"{', '.join(sorted(extra))} does not belong there")
    except OSError as error:
        name = Path(error.filename or folder).name
        raise files.Damaged(f"{name}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise files.Damaged(f"{MANIFEST} cannot be read") from None


def file_hash(path: Path) -> str:
    """SHA-256 of a file's content, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _seal(folder: Path) -> None:
    """Write the manifest, and wait until the disk has everything."""
    hashes = {path.name: file_hash(path) for path in sorted(folder.iterdir())}
    text = json.dumps(hashes, sort_keys=True)
    body = {"files": hashes, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    for path in folder.iterdir():
        handle = os.open(path, os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    files.write(folder / MANIFEST, json.dumps(body, indent=1).encode())
    files.sync(folder)


def check_room(folder: Path, needed: int) -> None:
    """Raises OSError (no space) where the disk of `folder` has less than `needed` bytes free."""
    if shutil.disk_usage(folder).free < needed:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
