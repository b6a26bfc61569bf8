"""One chapter that runs: its process, its bounds, and what is left when it ends."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from helpers.book.chapters import Limits
from helpers.book.files import fresh_folder, read_json, write_json
from helpers.book.kernel import kernel_environment, oom_kills, search_path
from helpers.book.paths import Book
from helpers.book.store import NOTEBOOK, RECORD, TIMINGS, read_timings
from helpers.book.watch import Tree


class Job:
    """A chapter in a subprocess of its own, in its own session.

    Call ``look`` several times a second. When ``ended`` is true, ``failure`` is None and
    ``folder`` holds the result, or ``failure`` says what happened and where the half-run
    notebook is.
    """

    def __init__(
        self,
        book: Book,
        profile: str,
        chapter: str,
        values: dict[str, Any],
        bounds: Limits,
        cores: int,
    ):
        self.book, self.profile, self.chapter, self.bounds = book, profile, chapter, bounds
        self.folder = book.running(profile, chapter)
        self.ended, self.failure, self.timings = False, None, {}
        self._keep_half()  # of a run whose machine went away
        fresh_folder(self.folder)
        self._said, self._told_at, self._oom = None, 0.0, oom_kills()
        self._last = (read_timings(book.executed(profile, chapter) / TIMINGS) or {}).get("seconds")
        self._cores = cores
        order = {
            "source": str(book.notebooks / f"{chapter}.ipynb"),
            "output": str(self.folder / NOTEBOOK),
            "progress": str(self.folder / "progress.json"),
            "result": str(self.folder / "result.json"),
            "cwd": str(book.notebooks),
            "parameters": values,
            # the kernel imports the helpers of this book, whatever else is installed
            "path": search_path(book.root),
            "parent": os.getpid(),
        }
        write_json(self.folder / "order.json", order)
        (self.folder / "records").mkdir()
        self._log = (self.folder / "log.txt").open("w")
        self._began = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "helpers.book.worker", str(self.folder / "order.json")],
            cwd=self.folder,
            env=kernel_environment(self.folder, chapter, profile, cores),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        self._tree = Tree(self._process.pid)

    def look(self, talk_every: float) -> str | None:
        """Check on the chapter once. Returns a line of news, or None when there is none."""
        memory = self._tree.sample()
        if self._process.poll() is not None:
            self._finish()
        elif memory > self.bounds.memory_mb:
            self.stop(
                f"it used {memory:.0f} MB, over its limit of {self.bounds.memory_mb:.0f} MB. "
                "Make the chapter smaller, or raise "
                "the limit in notebooks/profiles/limits.yml"
            )
        elif self.seconds > self.bounds.seconds:
            self.stop(
                f"it ran past its limit of {self.bounds.seconds:.0f} s. If it did not hang, raise "
                "the limit in notebooks/profiles/limits.yml"
            )
        return None if self.ended else self._news(talk_every)

    def stop(self, why: str) -> None:
        """End the chapter and all its processes, and keep its half-run notebook."""
        self._tree.kill()
        self._process.wait()
        self._fail(why)

    def notes(self) -> list[str]:
        """What the cache told of the chapter: nothing that its result should suffer for."""
        path = self.folder / "records" / f"{self.chapter}.notes"
        if not path.is_file():
            return []
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        return list(dict.fromkeys(lines))  # every worker process tells it once

    def clear(self) -> None:
        """Remove the working folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def seconds(self) -> float:
        """Wall-clock seconds since the chapter began."""
        return time.monotonic() - self._began

    def clock(self) -> str:
        """The elapsed time as minutes:seconds."""
        return f"{int(self.seconds) // 60}:{int(self.seconds) % 60:02d}"

    def _finish(self) -> None:
        result = read_json(self.folder / "result.json") or {}
        self._tree.kill()  # what the chapter left running
        ended = result.get("ended")
        if ended == "error":
            self._fail(f"it raised {result['error']}")
        elif ended == "broken":
            self._fail(f"it could not be run: {result['error']}")
        elif ended != "done":
            self._fail(self._death())
        else:
            record = self.folder / "records" / f"{self.chapter}.json"
            if record.is_file():
                record.rename(self.folder / RECORD)
            self._time(result)
            self.ended = True
            self._log.close()

    def _death(self) -> str:
        seen = f"its processes had used up to {self._tree.peak_mb:.0f} MB"
        if oom_kills() > self._oom:
            return f"it ran out of memory: the system ended its kernel ({seen})"
        return (
            f"its kernel died without an error message ({seen}). It was killed from outside or "
            "crashed; most often the machine ran out of memory"
        )

    def _fail(self, why: str) -> None:
        cell = read_json(self.folder / "progress.json")
        where = (
            f"in cell {cell['index']} of {cell['of']} (id {cell['id']}: `{cell['line']}`)"
            if cell
            else f"before its first cell. The log says: {self._tail()}"
        )
        self._log.close()
        kept = self._keep_half()
        read = f" The half-run notebook is {kept}." if kept else ""
        self.failure = f"{self.chapter} failed after {self.clock()} {where}: {why}.{read}"
        self.ended = True

    def _keep_half(self) -> Path | None:
        half = self.folder / NOTEBOOK
        if not half.is_file():
            return None
        kept = self.book.failed / f"{self.chapter}.ipynb"
        kept.parent.mkdir(parents=True, exist_ok=True)
        os.replace(half, kept)
        with contextlib.suppress(ValueError):
            kept = kept.relative_to(self.book.root)
        return kept

    def _tail(self) -> str:
        self._log.flush()
        return (self.folder / "log.txt").read_text(errors="replace")[-400:].strip() or "nothing"

    def _time(self, result: dict[str, Any]) -> None:
        self.timings = {
            "chapter": self.chapter,
            "profile": self.profile,
            "seconds": round(self.seconds, 2),
            # processes that came and went between two samples count only in what was waited for
            "cpu_seconds": round(max(self._tree.cpu_seconds, result["cpu_seconds"]), 2),
            "peak_mb": round(self._tree.peak_mb, 1),
            "cached": False,
            "cores": self._cores,
            "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        }
        write_json(self.folder / TIMINGS, self.timings)

    def _news(self, talk_every: float) -> str | None:
        cell = read_json(self.folder / "progress.json")
        now = cell["id"] if cell else None
        quiet = time.monotonic() - self._told_at
        # a new cell is news, but not a line for each of twenty quick ones
        if quiet < (2.0 if now != self._said else talk_every):
            return None
        self._said, self._told_at = now, time.monotonic()
        if not cell:
            return f"{self.chapter}  {self.clock()}  starting"
        rest = f"{cell['of'] - cell['index']} cells left"
        if self._last:
            rest += f", about {max(0, self._last - self.seconds):.0f} s by the last run"
        return f"{self.chapter}  {self.clock()}  cell {cell['index']}/{cell['of']}  {rest}"
