"""Files of the cache: written whole or not at all, and never trusted without their hash."""

from __future__ import annotations

import datetime
import errno
import hashlib
import json
import os
import shutil
import uuid
from pathlib import Path
from typing import Any

import platformdirs

from helpers.cache.codec import Encoded
from helpers.cache.files import PARTIAL, Damaged, publish, sweep, sync, write
from helpers.cache.notes import tell

_FULL = {errno.ENOSPC, errno.EDQUOT}
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}
_warned: set[Path] = set()


class CacheFolderError(OSError):
    """The cache's folder cannot be made. The message names it and what to do."""


def cache_folder() -> Path:
    """`HELPERS_CACHE`, else the user's cache folder; CacheFolderError where that is a file."""
    named = os.environ.get("HELPERS_CACHE", "").strip()
    default = platformdirs.user_cache_dir("invariant-transformer", appauthor=False)
    folder = Path(os.path.expanduser(named or default)).absolute()
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise CacheFolderError(f"the cache folder {folder} is a file. Set HELPERS_CACHE anew.")
    return folder


def prepare(folder: Path) -> None:
    """Make the folders around the result's `folder`, before anything is computed for it.

    Raises CacheFolderError where they cannot be made. A folder that only may not be written, or
    that is full, is no hindrance: `keep` tells of it.
    """
    root = folder.parents[1]
    for wanted in (root / PARTIAL, folder.parent):
        try:
            wanted.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if error.errno in _READ_ONLY | _FULL:
                return
            raise CacheFolderError(
                f"the cache folder {wanted} cannot be made ({error.strerror}). Set HELPERS_CACHE "
                "to a folder that can be made, or clear what stands in its way."
            ) from error


def fetch(folder: Path) -> Encoded | None:
    """The result kept in `folder`; None where there is none, or, with a warning, a damaged one."""
    try:
        return _read(folder)
    except OSError:
        return None  # `prepare` and `keep` say what stands in the way
    except Damaged as damage:
        tell(f"the kept result {folder} is damaged ({damage}). It is computed anew.", stacklevel=3)
        return None


def keep(folder: Path, result: Encoded, name: str, inputs: dict[str, Any]) -> None:
    """Store `result` in `folder`, whole or not at all; safe beside other writers of the same.

    Tells once where there is no room, or where the cache cannot be written, and keeps nothing: a
    result that took an hour is not lost for want of a place.
    """
    files = result.files()
    files["manifest.json"] = _manifest(files, name, inputs)
    needed = sum(map(len, files.values()))
    root = folder.parents[1]
    partial = root / PARTIAL / uuid.uuid4().hex
    try:
        partial.mkdir(parents=True)
        sweep(root / PARTIAL)
        if shutil.disk_usage(root).free < needed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        for file, content in files.items():
            write(partial / file, content)
        sync(partial)
        folder.parent.mkdir(exist_ok=True)
        publish(partial, folder, _read)
        sync(folder.parent)
    except OSError as error:
        if error.errno not in _FULL | _READ_ONLY:
            raise
        if root in _warned:
            return
        _warned.add(root)
        if error.errno in _FULL:
            tell(
                f"no room to keep the result of {name}: it needs {_size(needed)} in {root}, where "
                f"{_free(root)} are free. Results are computed and not kept. Make room, or set "
                "HELPERS_CACHE to a folder on another disk.",
                stacklevel=3,
            )
        else:
            tell(
                f"the cache folder {root} cannot be written ({error.strerror}). Results are "
                "computed and not kept. Set HELPERS_CACHE to a folder of yours.",
                stacklevel=3,
            )
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _manifest(files: dict[str, bytes], name: str, inputs: dict[str, Any]) -> bytes:
    body = {
        "function": name,
        "kept": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "files": {file: _sha(content) for file, content in files.items()},
        "inputs": inputs,
    }
    text = json.dumps(body, sort_keys=True)
    return json.dumps({"sha256": _sha(text.encode()), "body": body}, indent=1).encode("ascii")


def _read(folder: Path) -> Encoded:
    """Read and check one result. Raises FileNotFoundError where there is no such folder."""
    folder.stat()
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        text = json.dumps(manifest["body"], sort_keys=True)
        if manifest["sha256"] != _sha(text.encode()):
            raise Damaged("manifest.json does not have its hash")
        hashes = manifest["body"]["files"]
        if not isinstance(hashes, dict) or "values.json" not in hashes:
            raise Damaged("manifest.json names no values.json")
        files = {file: (folder / file).read_bytes() for file in hashes}
    except OSError as error:
        raise Damaged(f"{Path(error.filename or folder).name}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise Damaged("manifest.json cannot be read") from None
    for file, content in files.items():
        if _sha(content) != hashes[file]:
            raise Damaged(f"{file} does not have its hash")
    return Encoded.from_files(files)


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _free(root: Path) -> str:
    try:
        return _size(shutil.disk_usage(root).free)
    except OSError:  # not even the folder could be made
        return "no bytes"


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count} bytes"
