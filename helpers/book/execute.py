"""Run chapters side by side, watch each, and keep what they made."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import joblib

from helpers.book import store
from helpers.book.chapters import limits, parameters, read_notebook, source_problems
from helpers.book.errors import BookError
from helpers.book.job import Job
from helpers.book.paths import Book

TICK = 0.2  # seconds between two looks at the running chapters
TALK = 15.0  # seconds between two lines about a chapter whose cell has not changed


@dataclass
class Outcome:
    """What became of the chapters: run now, taken from the store, failed (with the reason)."""

    ran: list[str] = field(default_factory=list)
    reused: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def raise_for_failures(self) -> None:
        """Raise a BookError that names every failure; do nothing where there is none."""
        if self.failed:
            kept = f" Kept: {', '.join(self.ran + self.reused)}." if self.ran + self.reused else ""
            raise BookError(
                "\n".join(self.failed.values())
                + f"\n{len(self.failed)} of {self.total} chapters failed.{kept} The next run "
                "starts with what is missing."
            )

    @property
    def total(self) -> int:
        return len(self.ran) + len(self.reused) + len(self.failed)


def execute(
    book: Book,
    profile: str,
    chapters: list[str],
    *,
    jobs: int = 1,
    fresh: bool = False,
    say: Callable[[str], None] = print,
) -> Outcome:
    """Execute the chapters whose stored result cannot be used, ``jobs`` at once.

    The machine's cores are divided between the chapters that run together. A failure stops only
    its own chapter.

    Args:
        fresh: run every chapter, whatever is stored.
        say: takes one line of news at a time.

    Raises:
        BookError: a chapter's source or settings are unusable; nothing has run then.
    """
    outcome, queue = Outcome(), []
    for chapter in chapters:
        values = parameters(book, profile, chapter)
        bounds = limits(book, profile, chapter)
        problems = source_problems(read_notebook(book.notebooks / f"{chapter}.ipynb"), values)
        if problems:
            raise BookError(f"notebooks/{chapter}.ipynb cannot be run: {'; '.join(problems)}.")
        wanted = store.key(book, chapter, values)
        usable, why = (False, "asked for") if fresh else store.load(book, profile, chapter, wanted)
        if usable:
            store.mark_reused(book, profile, chapter, True)
            outcome.reused.append(chapter)
            say(f"{chapter}: nothing changed, result reused")
        else:
            say(f"{chapter}: will run, because {why}" if not fresh else f"{chapter}: will run")
            queue.append((chapter, values, bounds, wanted))
    jobs = max(1, min(jobs, len(queue)))
    cores = max(1, joblib.cpu_count() // jobs)
    running: list[tuple[Job, str]] = []
    try:
        while queue or running:
            while queue and len(running) < jobs:
                chapter, values, bounds, wanted = queue.pop(0)
                running.append((Job(book, profile, chapter, values, bounds, cores), wanted))
            time.sleep(TICK)
            for pair in list(running):
                job, wanted = pair
                line = job.look(TALK)
                if line:
                    others = [other.chapter for other, _ in running if other is not job]
                    waiting = [item[0] for item in queue]
                    then = others + waiting
                    say(line + (f"; also left: {', '.join(then)}" if then else ""))
                if job.ended:
                    running.remove(pair)
                    _settle(book, profile, job, wanted, outcome, say)
    finally:
        for job, _ in running:  # interrupted: end them, and keep their notebooks for reading
            with contextlib.suppress(OSError):
                job.stop("it was interrupted")
    return outcome


def _settle(
    book: Book, profile: str, job: Job, wanted: str, outcome: Outcome, say: Callable[[str], None]
) -> None:
    for note in job.notes():
        say(f"{job.chapter}: note: {note}")
    if job.failure:
        outcome.failed[job.chapter] = job.failure
        say(job.failure)
    else:
        store.save(book, profile, job.chapter, job.folder, wanted)
        (book.failed / f"{job.chapter}.ipynb").unlink(missing_ok=True)
        outcome.ran.append(job.chapter)
        say(
            f"{job.chapter}: done in {job.clock()}, processor {job.timings['cpu_seconds']:.0f} s, "
            f"peak {job.timings['peak_mb']:.0f} MB"
        )
    job.clear()
