"""Watching a chapter: every process counts, also an orphan, and a look is cheap."""

import subprocess
import sys
import time

import psutil
import pytest

from helpers.book import watch
from helpers.book.watch import Tree

START = "import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {!r}])\n{}"
SLEEP = "import time; time.sleep(60)"
FAMILY = START.format(START.format(SLEEP, SLEEP), SLEEP)


def wait_for(truth):
    end = time.monotonic() + 20
    while not truth() and time.monotonic() < end:
        time.sleep(0.05)
    assert truth()


@pytest.fixture
def tree():
    """A process with a child and a grandchild."""
    process = subprocess.Popen([sys.executable, "-c", FAMILY])
    watched = Tree(process.pid)
    wait_for(lambda: watched.sample() >= 0 and len(watched._seen) == 3)
    yield watched
    watched.kill()
    process.wait()


def generations(tree):
    return sorted(tree._seen, key=lambda process: process.create_time())


def test_an_orphan_s_children_are_seen_and_ended(tree):
    """The grandchild loses its parent; what it starts then hangs on no process that lives above."""
    _, child, grandchild = generations(tree)
    child.kill()
    wait_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    tree.sample()
    assert grandchild.is_running()
    tree.kill()
    wait_for(lambda: not grandchild.is_running())


def test_one_look_reads_the_process_table_once(tree, monkeypatch):
    reads = []
    children = psutil.Process.children

    def counted(process, recursive=False):
        reads.append(process.pid)
        return children(process, recursive=recursive)

    monkeypatch.setattr(psutil.Process, "children", counted)
    tree.sample()
    assert reads == [generations(tree)[0].pid]


def test_the_proportional_size_is_read_when_something_has_grown_or_time_has_passed(
    tree, monkeypatch
):
    reads, clock, size = [], [1000.0], [50e6]

    def proportional(process, rss):
        reads.append(process.pid)
        return rss // 2

    class Memory:
        rss = property(lambda self: size[0])

    monkeypatch.setattr(watch, "_proportional", proportional)
    monkeypatch.setattr(watch.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(psutil.Process, "memory_info", lambda process: Memory())
    tree._looked, tree.peak_mb = (0.0, 0.0, 0.0), 0.0
    assert tree.sample() == pytest.approx(75)  # three processes of 50 MB, half of it shared
    assert tree.sample() == pytest.approx(75)
    assert len(reads) == 3  # the second look remembers
    size[0] = 60e6
    assert tree.sample() == pytest.approx(90)
    clock[0] += watch.PATIENCE
    tree.sample()
    assert len(reads) == 9
    assert tree.peak_mb == pytest.approx(90)
