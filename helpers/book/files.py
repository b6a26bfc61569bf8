"""Writing so that a reader never sees half a file."""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` in one step: the old content stands until the new one is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_json(path: Path, data: Any) -> None:
    """Write ``data`` as JSON in one step."""
    write_text(path, json.dumps(data, indent=1, sort_keys=True) + "\n")


def read_json(path: Path) -> Any | None:
    """The content of a JSON file, or None where it is absent, torn or not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def tree_digest(folder: Path, pattern: str = "*") -> str:
    """Hex digest over the names and bytes of all files below ``folder`` that fit ``pattern``."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob(pattern) if p.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{sha256(path)}\n".encode())
    return digest.hexdigest()


def fresh_folder(folder: Path) -> Path:
    """Make ``folder`` empty and return it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def swap_folder(new: Path, target: Path) -> None:
    """Put the folder ``new`` in the place of ``target`` by renaming.

    The old one stands aside as ``<target>.old`` until the new one is in place; ``repair_swap``
    brings it back if the swap was cut between the two steps.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    old = _aside(target)
    repair_swap(target)
    if target.exists():
        os.rename(target, old)
    os.rename(new, target)
    shutil.rmtree(old, ignore_errors=True)


def repair_swap(target: Path) -> bool:
    """Undo or finish a swap that was cut short. True where something had to be done."""
    old = _aside(target)
    if not old.exists():
        return False
    if target.exists():
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.rename(old, target)
    return True


def _aside(target: Path) -> Path:
    return target.with_name(target.name + ".old")
