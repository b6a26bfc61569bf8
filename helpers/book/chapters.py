"""Chapters, profiles and limits: what can be run, with which parameters, within what bounds."""

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import yaml

from helpers.book.errors import BookError, UsageError
from helpers.book.paths import Book

PROFILES = ("quick", "laptop", "full")


@dataclass(frozen=True)
class Limits:
    """What a chapter may use: wall-clock seconds, and megabytes over its whole process tree."""

    seconds: float
    memory_mb: float


def chapter_names(book: Book) -> list[str]:
    """The stems of ``notebooks/*.ipynb``, in order."""
    return sorted(p.stem for p in book.notebooks.glob("*.ipynb"))


def resolve(book: Book, wanted: list[str]) -> list[str]:
    """Full chapter names for names or unambiguous beginnings of names; all for an empty list.

    A beginning up to the underscore is a whole number: ``04`` is ``04_rotation``, and not
    ``04b_family`` as well.

    Raises:
        UsageError: a name fits no chapter, or several.
    """
    known = chapter_names(book)
    if not wanted:
        return known
    chosen = []
    for name in wanted:
        stem = name.removesuffix(".ipynb")
        fits = (
            [k for k in known if k == stem]
            or [k for k in known if k.partition("_")[0] == stem]
            or [k for k in known if stem and k.startswith(stem)]
        )
        if len(fits) != 1:
            what = "There is no chapter" if not fits else "Several chapters begin with"
            raise UsageError(f"{what} {name!r}. Known chapters: {', '.join(known) or 'none'}.")
        chosen += fits
    return list(dict.fromkeys(chosen))


def check_profile(profile: str) -> str:
    """The profile itself.

    Raises:
        UsageError: it is not one of ``PROFILES``.
    """
    if profile not in PROFILES:
        raise UsageError(f"There is no profile {profile!r}. Known profiles: {', '.join(PROFILES)}.")
    return profile


def parameters(book: Book, profile: str, chapter: str) -> dict[str, Any]:
    """The parameters to inject: ``profile`` itself and what the profile's file overrides.

    Raises:
        UsageError: unknown profile.
        BookError: the profile's file is missing, malformed, names a chapter that is not there, sets
            ``profile`` itself, or holds a value that JSON does not have.
    """
    check_profile(profile)
    path = book.profiles / f"{profile}.yml"
    overrides = _read_mapping(path)
    known = chapter_names(book)
    for name, values in overrides.items():
        if name not in known:
            raise BookError(
                f"{path.name} names the chapter {name!r}, which is not there. Known chapters: "
                f"{', '.join(known) or 'none'}. Correct the name in {path}."
            )
        _check_overrides(path, name, values or {})
    return {"profile": profile, **(overrides.get(chapter) or {})}


def limits(book: Book, profile: str, chapter: str) -> Limits:
    """The bounds of a chapter from ``profiles/limits.yml``: its own, else the profile's default.

    Raises:
        BookError: no bounds are stated, or they are not positive numbers.
    """
    path = book.profiles / "limits.yml"
    stated = _read_mapping(path).get(profile) or {}
    try:
        values = {**(stated.get("default") or {}), **(stated.get(chapter) or {})}
        bounds = Limits(float(values["seconds"]), float(values["memory_mb"]))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BookError(
            f"limits.yml states no usable `seconds` and `memory_mb` for the profile {profile!r} "
            f"({error!r}). Add them under {profile}: default: in {path}."
        ) from error
    if not (bounds.seconds > 0 and bounds.memory_mb > 0):  # nor not-a-number
        raise BookError(f"limits.yml: the bounds of {chapter} in {profile} must be positive.")
    return bounds


def read_notebook(path: Path) -> nbformat.NotebookNode:
    """A notebook as nbformat version 4.

    Raises:
        BookError: the file is absent or not a notebook.
    """
    try:
        return nbformat.read(path, as_version=4)
    except Exception as error:  # nbformat raises many kinds; all mean the same to the reader
        raise BookError(
            f"{path.name} cannot be read as a notebook: {error}. Restore it from git, or open it "
            "in JupyterLab and save it again."
        ) from error


def source_problems(notebook: nbformat.NotebookNode, overrides: dict[str, Any]) -> list[str]:
    """What is wrong with a chapter's source, in words; an empty list when nothing is.

    A chapter has one ``parameters`` cell that assigns every overridden name, unique cell ids, and
    no stored outputs.
    """
    found = []
    tagged = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    if len(tagged) != 1:
        found.append(f"it has {len(tagged)} cells tagged `parameters`; it needs exactly one")
    else:
        try:
            unknown = sorted(set(overrides) - _assigned(tagged[0].source))
        except (SyntaxError, ValueError) as error:
            found.append(
                f"its parameters cell is not plain Python ({error}); it holds assignments only, "
                "and magics and commands go to another cell"
            )
            unknown = []
        if unknown:
            found.append(f"its parameters cell does not assign {', '.join(unknown)}")
    ids = [c.get("id") for c in notebook.cells]
    if None in ids or len(set(ids)) != len(ids):
        found.append("its cell ids are missing or not unique")
    if any(c.get("outputs") or c.get("execution_count") for c in notebook.cells):
        found.append("it stores outputs; clear them (nbstripout --keep-id)")
    return found


def first_line(source: str) -> str:
    """The first line of a cell that says something: not blank, not a comment or a magic."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    telling = [line for line in lines if not re.match(r"[#%!]", line)]
    return ((telling or lines or ["(empty cell)"])[0])[:100]


def _assigned(source: str) -> set[str]:
    names: set[str] = set()
    for node in ast.parse(source).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            names.update(n.id for n in ast.walk(target) if isinstance(n, ast.Name)) if target else 0
    return names


def _check_overrides(path: Path, chapter: str, values: Any) -> None:
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise BookError(f"{path.name}: {chapter} must map parameter names to values.")
    if "profile" in values:
        raise BookError(
            f"{path.name}: {chapter} must not set `profile`; the runner does. Take it out."
        )
    for name, value in values.items():
        try:
            same = json.loads(json.dumps(value, allow_nan=False)) == value
        except (TypeError, ValueError):
            same = False
        if not same:
            raise BookError(
                f"{path.name}: {name} of {chapter} is {value!r}, which is no number, text, list or "
                f"mapping of these. Quote it, or write it as a number, in {path}."
            )


def _read_mapping(path: Path) -> dict[str, Any]:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BookError(f"{path} cannot be read: {error}. Restore it from git.") from error
    if not isinstance(data, dict):
        raise BookError(
            f"{path} must be a mapping from chapter names, not a {type(data).__name__}."
        )
    return data
