"""Chapters that run side by side, hang, grow, die, and are reused."""

import json
import time

import psutil
import pytest

from helpers.book import store
from helpers.book.chapters import parameters
from helpers.book.execute import execute
from helpers.book.kernel import kernel_environment
from helpers.book.watch import Tree
from tests.book.conftest import chapter, write_chapter, write_yaml


def bound(book, **limits):
    """Give every chapter these limits."""
    default = {"default": {"seconds": 60, "memory_mb": 1000, **limits}}
    limits = dict.fromkeys(("quick", "laptop", "full"), default)
    write_yaml(book.profiles / "limits.yml", limits)


def run(book, news, *chapters, **options):
    return execute(book, "laptop", list(chapters), say=news.append, **options)


def sleepers(mark: str) -> list[psutil.Process]:
    """Processes whose command line holds ``mark``."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(mark in part for part in process.info["cmdline"] or []):
            found.append(process)
    return found


def test_chapters_side_by_side_share_the_cores(tiny, news, monkeypatch):
    monkeypatch.setattr("helpers.book.execute.joblib.cpu_count", lambda: 6)
    outcome = run(tiny, news, "01_one", "02_two", jobs=2)
    assert sorted(outcome.ran) == ["01_one", "02_two"]
    text = (tiny.executed("laptop", "02_two") / "notebook.ipynb").read_text()
    assert '"3\\n"' in text
    assert any("also left: 02_two" in line for line in news)


def test_a_chapter_past_its_time_is_stopped_with_its_children(tiny, news):
    mark = f"sleep-of-{time.monotonic_ns()}"
    child = f"import time; time.sleep(60)  # {mark}"
    hang = f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {child!r}])\n"
    write_chapter(tiny, "02_two", chapter("Two", "print('before')", hang + "time.sleep(60)"))
    bound(tiny, seconds=8)
    began = time.monotonic()
    outcome = run(tiny, news, "01_one", "02_two", jobs=2)
    assert time.monotonic() - began < 40
    said = outcome.failed["02_two"]
    assert "past its limit of 8 s" in said and "cell-1" in said and "limits.yml" in said
    assert outcome.ran == ["01_one"]
    assert "before" in (tiny.failed / "02_two.ipynb").read_text()
    assert sleepers(mark) == []


def test_a_chapter_over_its_memory_is_stopped(tiny, news):
    grow = "import time\nblock = b'x' * 400_000_000\ntime.sleep(60)"
    write_chapter(tiny, "02_two", chapter("Two", grow))
    bound(tiny, memory_mb=350)
    said = run(tiny, news, "02_two").failed["02_two"]
    assert "over its limit of 350 MB" in said and "cell-0" in said
    assert (tiny.failed / "02_two.ipynb").is_file()


def test_a_kernel_that_is_killed_is_named_as_such(tiny, news):
    die = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    write_chapter(tiny, "02_two", chapter("Two", die))
    said = run(tiny, news, "02_two").failed["02_two"]
    assert "kernel died" in said and "memory" in said and "cell-0" in said


def test_a_kill_for_want_of_memory_is_told_from_other_deaths(tiny, news, monkeypatch):
    counts = iter([3, 4])
    monkeypatch.setattr("helpers.book.job.oom_kills", lambda: next(counts))
    die = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    write_chapter(tiny, "02_two", chapter("Two", die))
    assert "ran out of memory: the system ended" in run(tiny, news, "02_two").failed["02_two"]


def test_an_interrupt_ends_the_chapter_and_keeps_its_notebook(tiny, news):
    mark = f"sleep-of-{time.monotonic_ns()}"
    hang = f"import time\ntime.sleep(60)  # {mark}"
    write_chapter(tiny, "02_two", chapter("Two", "print('before')", hang))

    def interrupt(line):
        if "cell 5/5" in line:
            raise KeyboardInterrupt

    others = set(psutil.Process().children())  # of earlier tests in this process
    with pytest.raises(KeyboardInterrupt):
        execute(tiny, "laptop", ["02_two"], say=interrupt)
    assert "before" in (tiny.failed / "02_two.ipynb").read_text()
    assert [p for p in psutil.Process().children() if p.is_running() and p not in others] == []


def test_a_damaged_result_is_noticed_and_made_again(tiny, news):
    run(tiny, news, "01_one")
    stored = tiny.executed("laptop", "01_one") / store.NOTEBOOK
    stored.write_text(stored.read_text().replace("laptop 3", "laptop 4"))
    news.clear()
    assert run(tiny, news, "01_one").ran == ["01_one"]
    assert any("damaged (notebook.ipynb)" in line for line in news)
    assert "laptop 3" in stored.read_text()
    for name in (store.MANIFEST, store.TIMINGS):
        whole = (stored.parent / name).read_text()
        (stored.parent / name).write_text(whole[:20])
        assert stale(tiny), name
        (stored.parent / name).write_text(whole)
    row = json.loads((stored.parent / store.TIMINGS).read_text())
    for bad in ([], {**row, "seconds": "x"}, {**row, "peak_mb": float("nan")}, {"cached": True}):
        (stored.parent / store.TIMINGS).write_text(json.dumps(bad))
        assert stale(tiny) and store.timings(tiny, ("laptop",)) == []
    (stored.parent / store.TIMINGS).write_text(json.dumps(row))
    assert not stale(tiny)
    (stored.parent / store.MANIFEST).write_text(json.dumps({"key": "x", "files": [1]}))
    assert stale(tiny)


def stale(book, chapter_name="01_one") -> bool:
    """Whether the stored result of a chapter has to be made again."""
    wanted = store.key(book, chapter_name, parameters(book, "laptop", chapter_name))
    return not store.load(book, "laptop", chapter_name, wanted)[0]


def test_a_result_is_stale_when_something_it_depends_on_changes(tiny, news):
    run(tiny, news, "01_one")
    assert not stale(tiny)
    for name in ("helpers/idea.py", "helpers/deep/er.py", "book/claims.yml", "requirements.lock"):
        path = tiny.root / name
        before = path.read_bytes() if path.exists() else None
        path.parent.mkdir(exist_ok=True)
        path.write_text("# changed\n")
        assert stale(tiny), name
        path.write_bytes(before) if before is not None else path.unlink()
        assert not stale(tiny), name
    write_yaml(tiny.profiles / "laptop.yml", {"01_one": {"size": 4}})
    assert stale(tiny)
    write_yaml(tiny.profiles / "laptop.yml", {})
    write_chapter(tiny, "01_one", chapter("Other"))
    assert stale(tiny)


def test_a_result_is_not_stale_when_the_machinery_or_another_chapter_changes(tiny, news):
    run(tiny, news, "01_one")
    (tiny.root / "helpers" / "book").mkdir()
    (tiny.root / "helpers" / "book" / "new.py").write_text("")
    write_chapter(tiny, "02_two", chapter("Other"))
    write_yaml(tiny.profiles / "laptop.yml", {"02_two": {"size": 4}})
    assert not stale(tiny)


def test_the_chapter_uses_the_helpers_of_its_own_book(tiny, news):
    source = "from helpers.idea import answer\nprint('answer', answer)"
    write_chapter(tiny, "02_two", chapter("Two", source))
    run(tiny, news, "02_two")
    assert "answer 42" in (tiny.executed("laptop", "02_two") / store.NOTEBOOK).read_text()


RECORD = (
    "import json, os, pathlib\n"
    "path = pathlib.Path(os.environ['BOOK_RECORDS']) / (os.environ['BOOK_CHAPTER'] + '.json')\n"
    "path.write_text(json.dumps({'profile': os.environ['BOOK_PROFILE']}))"
)


def test_a_record_is_shown_to_the_ledger_and_mended_from_the_store(tiny, news):
    write_chapter(tiny, "02_two", chapter("Two", RECORD))
    run(tiny, news, "02_two")
    shown = tiny.records("laptop") / "02_two.json"
    assert json.loads(shown.read_text()) == {"profile": "laptop"}
    shown.write_text("{}")
    assert run(tiny, news, "02_two").reused == ["02_two"]
    assert json.loads(shown.read_text()) == {"profile": "laptop"}


def test_a_failed_run_leaves_the_record_of_the_last_good_one(tiny, news):
    write_chapter(tiny, "02_two", chapter("Two", RECORD))
    run(tiny, news, "02_two")
    write_chapter(tiny, "02_two", chapter("Two", RECORD.replace("laptop", "x"), "1 / 0"))
    assert "02_two" in run(tiny, news, "02_two").failed
    record = json.loads((tiny.records("laptop") / "02_two.json").read_text())
    assert record == {"profile": "laptop"}


def test_timings_count_the_children(tiny, news):
    burn = "import time\nt = time.process_time()\nwhile time.process_time() < t + 5: pass"
    source = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}], check=True)"
    write_chapter(tiny, "02_two", chapter("Two", source))
    run(tiny, news, "02_two")
    row = store.timings(tiny, ("laptop",))[0]
    # The child alone burns 5 s; a chapter that starts and does nothing uses 2 to 3, the noise
    # of the machine included, so a child that is not counted cannot pass.
    assert row["cpu_seconds"] > 5
    assert row["cached"] is False


def test_peak_memory_is_that_of_the_whole_tree(tiny, news):
    grow = "import time\nblock = b'x' * 300_000_000\ntime.sleep(1)"
    source = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {grow!r}], check=True)"
    write_chapter(tiny, "02_two", chapter("Two", source))
    run(tiny, news, "02_two")
    assert 400 < store.timings(tiny, ("laptop",))[0]["peak_mb"] < 700


def test_the_reader_s_own_start_up_files_have_no_say(tiny, news, monkeypatch, tmp_path):
    startup = tmp_path / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00.py").write_text("print('mine')\nprofile = 'mine'\n")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    write_chapter(tiny, "02_two", chapter("Two", "print('clean', 'mine' in dir())"))
    run(tiny, news, "02_two")
    assert "mine\\n" not in (tiny.executed("laptop", "02_two") / store.NOTEBOOK).read_text()


def test_threads_do_not_spin_for_long_unless_the_reader_says_so(tmp_path, monkeypatch):
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    assert 0 < int(kernel_environment(tmp_path, "01_one", "laptop", 2)["GOMP_SPINCOUNT"]) < 10**5
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    assert kernel_environment(tmp_path, "01_one", "laptop", 2)["GOMP_SPINCOUNT"] == "7"


def test_a_relative_cache_folder_is_meant_from_where_the_command_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HELPERS_CACHE", "mine")
    environment = kernel_environment(tmp_path, "01_one", "laptop", 1)
    assert environment["HELPERS_CACHE"] == str(tmp_path / "mine")
    monkeypatch.setenv("HELPERS_CACHE", " ")
    assert not kernel_environment(tmp_path, "01_one", "laptop", 1)["HELPERS_CACHE"].strip()


def test_a_tree_forgets_no_process_that_lost_its_parent():
    import subprocess
    import sys

    child = "import time; time.sleep(60)"
    code = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', '{child}'])"
    parent = subprocess.Popen(
        [sys.executable, "-c", code + "; time.sleep(1)"], start_new_session=True
    )
    tree = Tree(parent.pid)
    deadline = time.monotonic() + 10
    while parent.poll() is None and time.monotonic() < deadline:
        tree.sample()
        time.sleep(0.05)
    orphans = [p for p in tree._seen if p.is_running() and p.pid != parent.pid]
    assert len(orphans) == 1
    tree.kill()
    assert not any(p.is_running() for p in orphans)
