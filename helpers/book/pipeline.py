"""The whole way from notebooks to the published site."""

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from helpers.book import check, site, staging, store
from helpers.book.chapters import PROFILES, chapter_names, check_profile, read_notebook, resolve
from helpers.book.clean import notebook_problems
from helpers.book.errors import BookError
from helpers.book.execute import Outcome, execute
from helpers.book.files import (
    read_json,
    repair_swap,
    sha256,
    swap_folder,
    tree_digest,
    write_json,
)
from helpers.book.paths import Book
from helpers.book.toc import toc_pages

Say = Callable[[str], None]


def run(
    book: Book,
    names: list[str],
    profile: str = "laptop",
    *,
    jobs: int = 1,
    fresh: bool = False,
    say: Say = print,
) -> Outcome:
    """Execute chapters and keep their results; build nothing.

    Raises:
        BookError: a chapter failed, or shows an error or a warning that its author did not tag.
    """
    check_profile(profile)
    chapters = resolve(book, names)
    if not chapters:
        raise BookError(f"There is no chapter to run: {book.notebooks} holds no notebook.")
    with locked(book):
        outcome = execute(book, profile, chapters, jobs=jobs, fresh=fresh, say=say)
    outcome.raise_for_failures()
    problems = []
    for chapter in chapters:
        path = book.executed(profile, chapter) / store.NOTEBOOK
        problems += notebook_problems(read_notebook(path), chapter)
    _raise("The chapters ran, but not cleanly", problems)
    return outcome


def publish(
    book: Book,
    profile: str = "laptop",
    *,
    jobs: int = 1,
    fresh: bool = False,
    any_verdict: bool = False,
    say: Say = print,
) -> Path:
    """Run what is missing, build, check, and swap the site in. Returns the site's folder.

    The published site stays as it was until the new one has passed every check. The profile
    ``quick`` makes a preview in a folder of its own.

    Args:
        any_verdict: publish also where a verdict differs from the expected one.

    Raises:
        BookError: a chapter, the build or a check failed.
    """
    pages = toc_pages(book)
    chapters = [p.removeprefix("notebooks/") for p in pages if p.startswith("notebooks/")]
    unlisted = sorted(set(chapter_names(book)) - set(chapters))
    if unlisted:
        raise BookError(f"_toc.yml does not list {', '.join(unlisted)}. Add a line for each.")
    target = book.published(profile)
    if repair_swap(target):
        say("A swap that was cut short has been put right.")
    if (book.root / "book" / "claims.yml").is_file():
        with ledger_errors() as ledger:  # before hours of chapters, not after
            ledger.load_claims(book.root)
    if chapters:
        run(book, chapters, profile, jobs=jobs, fresh=fresh, say=say)
    with locked(book), ledger_errors():
        say("Gathering the pages")
        staging.stage(book, profile)
        key = _site_key(book)
        stands = _stands(target, key)
        if stands:
            say("The site is up to date.")
        else:
            say("Building the site")
            html = site.build(book)
            say("Checking the site")
            _raise(
                f"The site was built but not published; it is in {html}",
                check.site_problems(book, html),
            )
        if profile != "quick" and not any_verdict:
            _raise(
                "The site was not published, because the ledger differs from what is expected",
                verdict_problems(book, profile, say),
            )
        if not stands:
            swap_folder(html, target)
            write_json(_stamp(target), {"key": key, "tree": tree_digest(target)})
            shutil.rmtree(book.site)
    return target


def verdict_problems(book: Book, profile: str, say: Say = print) -> list[str]:
    """Where the measured verdicts differ from the expected ones; ``say`` takes what is only worth
    a note, such as a move to or from *undecided*."""
    if not (book.root / "book" / "claims.yml").is_file():
        return []
    with ledger_errors() as ledger:
        names = chapter_names(book)
        records = [r for r in ledger.read_records(book.records(profile)) if r["chapter"] in names]
        review = ledger.review(records, ledger.load_claims(book.root), profile)
    for note in review.notes:
        say(f"note: {note}")
    return review.mismatches


def ledger_rows(book: Book) -> list[dict[str, Any]]:
    """Every claim with what was measured, one dict a row."""
    with ledger_errors() as ledger:
        return ledger.table(book.root)


def timing_rows(book: Book) -> list[dict[str, Any]]:
    """``chapter, profile, seconds, cpu_seconds, peak_mb, cached`` of every stored result."""
    names = ("chapter", "profile", "seconds", "cpu_seconds", "peak_mb", "cached")
    return [{n: row[n] for n in names} for row in store.timings(book, PROFILES)]


@contextlib.contextmanager
def ledger_errors() -> Iterator[ModuleType]:
    """Lends ``helpers.ledger``; what it cannot read becomes a BookError with the same message."""
    from helpers import ledger

    try:
        yield ledger
    except (ledger.ClaimsError, ledger.RecordError) as error:
        raise BookError(str(error)) from error


@contextlib.contextmanager
def locked(book: Book) -> Iterator[None]:
    """Keep a second command from working in the same folder at the same time."""
    if os.path.lexists(book.build) and not book.build.is_dir():
        raise BookError(
            f"{book.build} is a file or a link to nowhere, where the folder for all that is made "
            "should be. Move it away, then run the command again."
        )
    book.build.mkdir(parents=True, exist_ok=True)
    with (book.build / ".lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            raise BookError(
                f"Another command (process {lock.read().strip() or 'unknown'}) works on this book "
                "now. Wait for it to end, or end it."
            ) from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _site_key(book: Book) -> str:
    """What the HTML depends on: the staged tree, the settings, and the tools."""
    settings = [sha256(book.root / name) for name in ("_config.yml", "_toc.yml")]
    tools = [tree_digest(Path(__file__).parent, "*.py"), store.versions(("jupyter-book", "sphinx"))]
    return json.dumps([tree_digest(book.stage), settings, tools])


def _stands(target: Path, key: str) -> bool:
    stamp = read_json(_stamp(target)) or {}
    return target.is_dir() and stamp == {"key": key, "tree": tree_digest(target)}


def _stamp(target: Path) -> Path:
    return target.with_name(f"{target.name}.json")


def _raise(headline: str, problems: list[str]) -> None:
    if problems:
        shown = problems[:40] + ([f"… and {len(problems) - 40} more"] if problems[40:] else [])
        raise BookError(headline + ":\n  - " + "\n  - ".join(shown))
