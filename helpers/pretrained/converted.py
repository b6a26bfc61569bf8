"""The packaged models as ordinary folders, made once and kept in the cache."""

from __future__ import annotations

import functools
import hashlib
import sys
from importlib import metadata
from pathlib import Path

from helpers.cache import CacheFolderError
from helpers.cache.notes import tell
from helpers.pretrained import folders, gguf_file, packaged
from helpers.pretrained.errors import PretrainedError

KIND = "pretrained.converted"


def converted(name: str, spare: Path) -> Path:
    """The folder of a packaged model in float32, from the cache or made now.

    The packaged file's hash is checked each time, before anything parses it. Where the cache's
    folder cannot be written, or has no room, the model goes to `spare`, with a CacheWarning.
    Raises ModelAbsentError, ModelFileError, and PretrainedError where no disk has room.
    """
    packaged.verify(name)
    write = functools.partial(_write, name)
    try:
        return folders.kept(KIND, f"{name}-{key(name)}", write)
    except CacheFolderError:
        raise
    except OSError as error:
        tell(
            f"the model {name} cannot be kept ({error.strerror or error}). It is made for this run "
            "alone. Set HELPERS_CACHE to a folder of yours with 2 GB of room.",
            stacklevel=3,
        )
    try:
        folder = spare / name
        folder.mkdir()
        write(folder)
    except OSError as error:
        raise PretrainedError(
            f"there is no room to unpack the model {name}: {error}. Make 2 GB of room, or set "
            "HELPERS_CACHE to a folder on another disk."
        ) from error
    return folder


def key(name: str) -> str:
    """What decides the folder's content: the file, the packages that convert it, and our code."""
    parts = [packaged.PACKAGED[name].sha256]
    for package in ("transformers", "gguf", "tokenizers", "torch", "numpy"):
        parts.append(f"{package} {metadata.version(package)}")
    for module in (gguf_file, sys.modules[__name__]):
        parts.append(hashlib.sha256(Path(str(module.__file__)).read_bytes()).hexdigest())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:40]


def _write(name: str, folder: Path) -> None:
    need = 6 * packaged.PACKAGED[name].size  # the joined file, and float32 for its 4 or 5 bits
    folders.check_room(folder, need)
    joined = folder / "joined.gguf"
    packaged.verify(name, joined)
    try:
        gguf_file.convert(joined, folder)
    finally:
        joined.unlink(missing_ok=True)
