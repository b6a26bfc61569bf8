"""Watch a process and all that it starts: memory, processor time, and the power to end it."""

import contextlib
import os
import signal
import time

import psutil

PATIENCE = 3.0  # seconds between two looks at the proportional size where nothing grows


class Tree:
    """The process ``pid`` and its descendants.

    A kernel leads a process group of its own, and its workers may outlive it. So every process
    that was ever seen is remembered, and ``kill`` ends the groups of those still alive as well.
    """

    def __init__(self, pid: int):
        self._seen: dict[psutil.Process, float] = {}
        self.peak_mb = 0.0
        self._looked = (0.0, -PATIENCE, 0.0)  # resident size, time and proportional size then
        with contextlib.suppress(psutil.NoSuchProcess):
            self._seen[psutil.Process(pid)] = 0.0

    def sample(self) -> float:
        """Look once. Returns the memory in use now, in megabytes, and remembers the peak.

        Memory is the proportional set size: a page that n processes share counts 1/n for each.
        Where the system does not tell, it is the resident size.
        """
        self._discover()
        alive = []
        for process in self._seen:
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                self._seen[process] = times.user + times.system
                alive.append((process, process.memory_info().rss))
        total, now = sum(rss for _, rss in alive) / 1e6, time.monotonic()
        if total <= self.peak_mb:
            return total
        # The proportional size is dear to read: when the resident one has grown, else now and then.
        size, at, proportional = self._looked
        if total > 1.01 * size or now - at >= PATIENCE:
            proportional = sum(_proportional(process, rss) for process, rss in alive) / 1e6
            self.peak_mb = max(self.peak_mb, proportional)
            self._looked = (total, now, proportional)
        return proportional

    @property
    def cpu_seconds(self) -> float:
        """Processor seconds of all processes seen, as of their last sample."""
        return sum(self._seen.values())

    def kill(self) -> None:
        """End every process of the tree at once, also those that lost their parent."""
        for _ in range(2):  # the second look finds what was started while the first one ran
            self._discover()
            for process in list(self._seen):
                with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
                    if process.is_running() and os.getpgid(process.pid) != os.getpgrp():
                        os.killpg(os.getpgid(process.pid), signal.SIGKILL)
                    process.kill()
        psutil.wait_procs(list(self._seen), timeout=5)

    def _discover(self) -> None:
        pids = {process.pid for process in self._seen}
        for process in list(self._seen):
            with contextlib.suppress(psutil.Error):
                # Looking for children reads the whole process table: once for each tree, not for
                # each of its members, which come with the one on top.
                if process.ppid() not in pids:
                    for child in process.children(recursive=True):
                        self._seen.setdefault(child, 0.0)


def _proportional(process: psutil.Process, rss: int) -> int:
    try:
        return process.memory_full_info().pss
    except (psutil.Error, AttributeError):
        return rss
