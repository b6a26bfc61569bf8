"""The command line: ``python -m helpers COMMAND``."""

import errno
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from helpers.book.errors import BookError, UsageError
from helpers.book.paths import Book, find_root

app = typer.Typer(
    help="Make, check and show the book.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
Root = Annotated[Path | None, typer.Option("--root", help="The book's folder; else found upwards.")]
Profile = Annotated[str, typer.Option("--profile", "-p", help="quick, laptop or full.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Chapters at once.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Run also what has not changed.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def command(function):
    """Register ``function``; a BookError becomes a message and an exit status, no traceback."""

    @functools.wraps(function)
    def guarded(*args, **kwargs):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that chapters are ended too
        try:
            return function(*args, **kwargs)
        except BookError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(error.exit_code) from error
        except BrokenPipeError:
            raise  # the reader of the output has left; nothing is wrong
        except OSError as error:
            typer.echo(f"error: {trouble(error)}", err=True)
            raise typer.Exit(1) from error
        except KeyboardInterrupt as error:
            typer.echo("Interrupted. Finished chapters are kept; the next run goes on.", err=True)
            raise typer.Exit(130) from error

    return app.command(function.__name__.strip("_").replace("_", "-"))(guarded)


def trouble(error: OSError) -> str:
    """A fault of the disk in words: the path, what is wrong, what to do."""
    advice = {
        errno.ENOSPC: "Make room on this disk",
        errno.EDQUOT: "Make room: your share of this disk is used up",
        errno.EROFS: "Use a copy of the book on a disk that can be written",
        errno.EACCES: "Make this path yours to write, or use a copy of the book in your own folder",
    }
    advice[errno.EPERM] = advice[errno.EACCES]
    what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    then = advice.get(error.errno, "See what is at this path, and put it right")
    return f"{what}. {then}, then run the command again. What was finished is kept."


def say(line: str) -> None:
    """Print one line at once, also into a pipe."""
    print(line, flush=True)


def here(root: Path | None) -> Book:
    """The book at ``root``, and nowhere else, or the one around the working folder."""
    found = find_root(root)
    if root is not None and found != root.resolve():
        raise UsageError(
            f"No book here: {root} holds no _toc.yml and _config.yml. The book above it is "
            f"{found}; name that with --root, or leave the option out."
        )
    return Book.at(found)


@command
def book(
    profile: Profile = "laptop",
    jobs: Jobs = 1,
    fresh: Fresh = False,
    any_verdict: Annotated[
        bool, typer.Option("--any-verdict", help="Publish also unexpected verdicts.")
    ] = False,
    root: Root = None,
) -> None:
    """Run the chapters, check, build, and swap the finished site in."""
    from helpers.book.pipeline import publish

    where = publish(here(root), profile, jobs=jobs, fresh=fresh, any_verdict=any_verdict, say=say)
    say(f"The site is {where / 'index.html'}")
    if profile == "quick":
        say("It is a preview of a smoke run: its numbers mean nothing. Nothing was published.")


@command
def run(
    names: Annotated[
        list[str] | None, typer.Argument(help="Chapters; all when none is named.")
    ] = None,
    profile: Profile = "laptop",
    jobs: Jobs = 1,
    fresh: Fresh = False,
    root: Root = None,
) -> None:
    """Run chapters and keep their results, without building the site."""
    from helpers.book.pipeline import run as run_chapters

    run_chapters(here(root), names or [], profile, jobs=jobs, fresh=fresh, say=say)


@command
def ledger(as_json: AsJson = False, root: Root = None) -> None:
    """Every claim, with what was measured and the verdict."""
    from helpers.book.pipeline import ledger_rows

    rows = ledger_rows(here(root))
    if as_json:
        print(json.dumps(rows, indent=1, default=str))
        return
    for row in rows:
        profile = f" [{row['profile']}]" if row["profile"] else ""
        expected = row["expected"] or "none"
        print(f"{row['id']:24} {row['verdict']} (expected: {expected}){profile}")


@command
def timings(as_json: AsJson = False, root: Root = None) -> None:
    """How long the chapters took, and how much memory."""
    from helpers.book.pipeline import timing_rows

    rows = timing_rows(here(root))
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        reused = ", reused" if row["cached"] else ""
        print(
            f"{row['chapter']:24} {row['profile']:7} {row['seconds']:8.1f} s elapsed "
            f"{row['cpu_seconds']:8.1f} s processor {row['peak_mb']:7.0f} MB{reused}"
        )
    if not rows:
        print("No chapter has a result yet. Make one with: python -m helpers run")


@command
def doctor(root: Root = None) -> None:
    """What works on this machine, and what to do about what does not."""
    from helpers.book.doctor import examine, report

    findings = examine(here(root))
    print(report(findings))
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(1)


@command
def serve(
    port: Annotated[int | None, typer.Option("--port", min=1, max=65535)] = None,
    profile: Profile = "laptop",
    root: Root = None,
) -> None:
    """Show the finished site on this machine."""
    from helpers.book.chapters import check_profile
    from helpers.book.serve import serve as serve_site

    serve_site(here(root), check_profile(profile), port, say)


@command
def clean(root: Root = None) -> None:
    """Remove everything that was made: results, site, half-run notebooks. Caches stay."""
    from helpers.book.pipeline import locked

    target = here(root)
    if target.build.is_symlink():
        raise BookError(f"{target.build} is a link. Remove it, and what it leads to, by hand.")
    if target.build.exists():
        with locked(target):
            shutil.rmtree(target.build)
    say(f"{target.build} is gone.")


@command
def rehome(url: str, root: Root = None) -> None:
    """Give the book the repository address URL, everywhere at once."""
    from helpers.book.rehome import address
    from helpers.book.rehome import rehome as move

    target = here(root)
    changed = move(target.root, url)
    for path in changed:
        say(f"changed {path.relative_to(target.root)}")
    new = address(url)
    say(f"The book's address is {new}." if changed else f"The book is at {new} already.")


@command
def site_check(root: Root = None) -> None:
    """Look at the finished site in a headless Chromium."""
    target = here(root)
    if not (target.published("laptop") / "index.html").is_file():
        raise BookError("There is no site to look at. Make it with: make book")
    if not (target.root / "tests" / "site").is_dir():
        raise UsageError(f"{target.root} has no tests/site. Use a clone of the repository.")
    asked = {"SITE_CHECK_BROWSER": "required", **os.environ}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "site", "tests/site"], cwd=target.root, env=asked
    )
    raise typer.Exit(done.returncode)
