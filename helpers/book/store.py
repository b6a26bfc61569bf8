"""Finished executions, kept under a key of everything that could change them."""

import hashlib
import json
import math
import os
import platform
import re
import shutil
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from helpers.book.chapters import read_notebook
from helpers.book.clean import notebook_problems
from helpers.book.files import fresh_folder, read_json, sha256, swap_folder, write_json
from helpers.book.paths import Book

NOTEBOOK, RECORD, TIMINGS, MANIFEST = "notebook.ipynb", "record.json", "timings.json", "key.json"


def key(book: Book, chapter: str, parameters: dict[str, Any]) -> str:
    """Hex digest of what a chapter's outputs depend on.

    That is its source, every module of ``helpers`` but the machinery in ``helpers/book``, the
    claims, the parameters, the lock file, the versions installed of what ``pyproject.toml`` asks
    for, and the version of Python.
    """
    digest = hashlib.sha256()
    machinery = book.root / "helpers" / "book"
    sources = [book.notebooks / f"{chapter}.ipynb", book.root / "book" / "claims.yml"]
    sources += [book.root / "requirements.lock"]
    modules = sorted((book.root / "helpers").rglob("*.py"))
    sources += [m for m in modules if machinery not in m.parents]
    for path in sources:
        content = sha256(path) if path.is_file() else "absent"
        digest.update(f"{path.relative_to(book.root).as_posix()}\0{content}\n".encode())
    facts = {
        "parameters": parameters,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "installed": _installed(book.root / "pyproject.toml"),
    }
    digest.update(json.dumps(facts, sort_keys=True, default=str).encode())
    return digest.hexdigest()


def load(book: Book, profile: str, chapter: str, wanted: str) -> tuple[bool, str]:
    """Whether the stored result of a chapter can be used, and if not, why.

    A result whose chapter showed an error or a warning that its author did not tag is never used
    again: what it complained about, such as a disk, may be in order now. A usable result's ledger
    record is put in its place for the ledger to read.
    """
    folder = book.executed(profile, chapter)
    manifest = read_json(folder / MANIFEST)
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict) or NOTEBOOK not in files:
        return False, "its stored result is damaged" if folder.exists() else "it has no result yet"
    if manifest.get("key") != wanted:
        return False, "something it depends on has changed"
    for name, content in files.items():
        path = folder / name
        if not path.is_file() or sha256(path) != content:
            return False, f"its stored result is damaged ({name})"
    if read_timings(folder / TIMINGS) is None:
        return False, f"its stored result is damaged ({TIMINGS})"
    if notebook_problems(read_notebook(folder / NOTEBOOK), chapter):
        return False, "its last run was not clean"
    _show_record(book, profile, chapter)
    return True, ""


def save(book: Book, profile: str, chapter: str, made: Path, wanted: str) -> None:
    """Keep the result in the folder ``made``: ``notebook.ipynb``, ``timings.json`` and, where
    the chapter measured claims, ``record.json``. The folder's other files are dropped."""
    kept = fresh_folder(book.executed(profile, f".{chapter}.partial"))
    present = [name for name in (NOTEBOOK, RECORD, TIMINGS) if (made / name).is_file()]
    for name in present:
        shutil.copy2(made / name, kept / name)
    files = {name: sha256(kept / name) for name in present if name != TIMINGS}
    write_json(kept / MANIFEST, {"key": wanted, "files": files})
    swap_folder(kept, book.executed(profile, chapter))
    _show_record(book, profile, chapter)


def mark_reused(book: Book, profile: str, chapter: str, reused: bool) -> None:
    """Note beside the result whether the last command reused it."""
    path = book.executed(profile, chapter) / TIMINGS
    write_json(path, {**read_json(path), "cached": reused})


def timings(book: Book, profiles: tuple[str, ...]) -> list[dict[str, Any]]:
    """The timings of every stored result, in the order of profiles and chapters."""
    found = []
    for profile in profiles:
        for path in sorted(book.executed(profile, "x").parent.glob(f"[!.]*/{TIMINGS}")):
            row = read_timings(path)
            if row is not None:
                found.append(row)
    return found


def read_timings(path: Path) -> dict[str, Any] | None:
    """One file of timings, or None where it is absent or damaged."""
    row = read_json(path)
    kinds = {"chapter": str, "profile": str, "cached": bool}
    numbers = ("seconds", "cpu_seconds", "peak_mb", "cores", "memory_gb")
    kinds |= dict.fromkeys(numbers, int | float)
    whole = isinstance(row, dict) and all(isinstance(row.get(n), k) for n, k in kinds.items())
    return row if whole and all(math.isfinite(row[n]) for n in numbers) else None


def _show_record(book: Book, profile: str, chapter: str) -> None:
    """Make ``records/<profile>/<chapter>.json`` the same as the stored one, or absent as it is."""
    stored = book.executed(profile, chapter) / RECORD
    shown = book.records(profile) / f"{chapter}.json"
    if not stored.is_file():
        shown.unlink(missing_ok=True)
    elif not shown.is_file() or sha256(shown) != sha256(stored):
        shown.parent.mkdir(parents=True, exist_ok=True)
        partial = shown.with_name(f".{shown.name}.partial")
        shutil.copy2(stored, partial)
        os.replace(partial, shown)


def versions(names: Iterable[str]) -> dict[str, str]:
    """The installed version of each distribution, or ``"absent"``."""
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def _installed(pyproject: Path) -> dict[str, str]:
    if not pyproject.is_file():
        return {}
    project = tomllib.loads(pyproject.read_text(encoding="utf-8")).get("project", {})
    return versions(re.match(r"[\w.-]+", r)[0] for r in project.get("dependencies", []))
