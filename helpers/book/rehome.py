"""Give the book another address: for a course that forks it."""

import os
import re
from pathlib import Path

import yaml

from helpers.book.errors import BookError, UsageError

SKIPPED = {".git", ".venv", "_build", "dist", "node_modules", "__pycache__"}
SKIPPED |= {".pytest_cache", ".ruff_cache", ".hypothesis", ".ipynb_checkpoints"}
ADDRESS = re.compile(
    r"https://github\.com/([A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)/([A-Za-z0-9._-]+)"
)
NAME = r"[A-Za-z0-9-]+/[\w.-]*[\w-]"
# links that only ever lead to this book: hosted notebooks, and the setup cells' install line
OWN_LINKS = re.compile(
    rf"(?:colab\.research\.google\.com/github/|mybinder\.org/v2/gh/|git\+https://github\.com/)({NAME})"
)


def rehome(root: Path, url: str) -> list[Path]:
    """Put ``url`` in the place of the book's present address, in every text file below ``root``.

    The present address is the one in ``_config.yml``. Colab, Binder and Pages links, the setup
    cells of the notebooks, ``pyproject.toml`` and ``CITATION.cff`` follow it. Either all files
    change or none; ``_config.yml`` comes last, so that a second call mends a first one that the
    machine cut short.

    Returns:
        The files that changed; empty where the book is at ``url`` already.

    Raises:
        UsageError: ``url`` is not ``https://github.com/OWNER/NAME``.
        BookError: links lead to a third address, or a file cannot be written.
    """
    new = _split(url)
    old = _split(_present(root))
    texts = _texts(root)
    _refuse_strangers(root, texts, {_slug(old), _slug(new)})
    changes = {}
    for path, text in texts.items():
        moved = _moved(text, old, new)
        if moved != text:
            changes[path] = moved
    config = root / "_config.yml"
    order = sorted(changes, key=lambda path: (path == config, path))
    _write_all({path: changes[path] for path in order}, texts)
    return order


def address(url: str) -> str:
    """``url`` as it is written into the book: without a slash or ``.git`` at its end.

    Raises:
        UsageError: ``url`` is not ``https://github.com/OWNER/NAME``.
    """
    return f"https://github.com/{_slug(_split(url))}"


def _split(url: str) -> tuple[str, str]:
    found = ADDRESS.fullmatch(url.strip().rstrip("/").removesuffix(".git"))
    if not found or found[2] in {".", ".."}:
        raise UsageError(
            f"{url!r} is not an address of the form https://github.com/OWNER/NAME, in the letters "
            "that GitHub takes. The book's Colab links open only repositories on GitHub."
        )
    return found[1], found[2]


def _slug(address: tuple[str, str]) -> str:
    return f"{address[0]}/{address[1]}"


def _present(root: Path) -> str:
    try:
        config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
        return str(config["repository"]["url"])
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError) as error:
        raise BookError(
            f"_config.yml does not state the repository's url ({error!r}). Restore it from git."
        ) from error


def _texts(root: Path) -> dict[Path, str]:
    found = {}
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [s for s in subfolders if s not in SKIPPED and not s.endswith(".egg-info")]
        for name in names:
            path = Path(folder, name)
            if path.is_symlink():
                continue  # what it leads to is found on its own, if it belongs to the book
            try:
                found[path] = path.read_bytes().decode("utf-8")
            except (OSError, UnicodeDecodeError):
                continue  # a picture or a link to nowhere holds no address
    return found


def _moved(text: str, old: tuple[str, str], new: tuple[str, str]) -> str:
    """``text`` with the address ``old`` replaced wherever it stands as an address."""
    end = r"(?![\w-]|\.(?!git\b)[\w])"
    sites = ["github.com/", "colab.research.google.com/github/", "mybinder.org/v2/gh/"]
    sites += ["raw.githubusercontent.com/", "img.shields.io/github/[a-z/-]*/"]
    for site in sites:
        pattern = rf"({site if '[' in site else re.escape(site)}){re.escape(_slug(old))}{end}"
        text = re.sub(pattern, rf"\g<1>{_slug(new)}", text)
    pages = rf"{re.escape(old[0])}\.github\.io/{re.escape(old[1])}{end}"
    return re.sub(pages, f"{new[0]}.github.io/{new[1]}", text)


def _refuse_strangers(root: Path, texts: dict[Path, str], known: set[str]) -> None:
    strangers = []
    for path, text in texts.items():
        if root / "notebooks" not in path.parents and path.suffix not in {".md", ".ipynb"}:
            continue
        for found in OWN_LINKS.finditer(text):
            slug = found[1].removesuffix(".git")
            if slug not in known:
                line = text.count("\n", 0, found.start()) + 1
                strangers.append(f"{path.relative_to(root)}, line {line}: {slug}")
    if strangers:
        raise BookError(
            "Nothing was changed, because these links lead to a third address:\n  "
            + "\n  ".join(strangers)
            + f"\nMake them lead to {' or '.join(sorted(known))} by hand, then call this again."
        )


def _write_all(changes: dict[Path, str], before: dict[Path, str]) -> None:
    partial = {path: path.with_name(f".{path.name}.rehome") for path in changes}
    done: list[Path] = []
    try:
        for path, text in changes.items():
            partial[path].write_bytes(text.encode("utf-8"))
            partial[path].chmod(path.stat().st_mode)
        for path in changes:
            os.replace(partial[path], path)
            done.append(path)
    except OSError as error:
        for path in done:
            path.write_bytes(before[path].encode("utf-8"))
        raise BookError(f"Nothing was changed: {error}. Make the file writable.") from error
    finally:
        for path in partial.values():
            path.unlink(missing_ok=True)
