"""The command line: what it prints, and how it ends."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
from typer.testing import CliRunner

from helpers.book import doctor, pipeline, serve
from helpers.book.cli import app
from helpers.book.errors import BookError
from helpers.book.paths import Book, find_root
from tests.book.conftest import chapter, write_chapter


def call(*arguments):
    """Run a command; its exit status and all that it said."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "nope"), "no chapter 'nope'. Known chapters: 01_one, 02_two"),
        (("run", "--profile", "huge"), "no profile 'huge'. Known profiles: quick, laptop, full"),
        (("book", "--profile", "huge"), "no profile 'huge'. Known profiles: quick, laptop, full"),
        (("serve", "--profile", "huge"), "no profile 'huge'"),
        (("rehome", "nowhere"), "not an address of the form"),
    ],
)
def test_a_wrong_request_ends_with_status_2_and_no_traceback(tiny, arguments, said):
    code, output = call(*arguments, "--root", tiny.root)
    assert code == 2
    assert said in " ".join(output.split())
    assert "Traceback" not in output


def test_outside_a_book_the_command_says_so(tmp_path):
    code, output = call("run", "--root", tmp_path)
    assert code == 2 and "No book here" in output


def test_a_root_that_is_named_is_that_folder_and_none_above_it(tiny):
    code, output = call("clean", "--root", tiny.profiles)
    assert code == 2 and f"No book here: {tiny.profiles}" in output


def test_rehome_prints_the_address_as_it_is_written(tiny):
    code, output = call("rehome", "https://github.com/a-fork/of-it.git/", "--root", tiny.root)
    assert code == 0 and "The book's address is https://github.com/a-fork/of-it.\n" in output
    assert "url: https://github.com/a-fork/of-it\n" in (tiny.root / "_config.yml").read_text()


def test_the_book_is_found_from_a_folder_inside_it(tiny):
    assert find_root(tiny.profiles) == tiny.root


def test_a_failure_ends_with_status_1_and_the_cell(tiny):
    write_chapter(tiny, "01_one", chapter("One", "1 / 0"))
    code, output = call("run", "01", "--root", tiny.root)
    assert code == 1
    assert "ZeroDivisionError" in output and "cell-0" in output and "Traceback" not in output


def test_claims_that_cannot_be_read_are_named_before_any_chapter_runs(tiny):
    (tiny.root / "book" / "claims.yml").write_text("fixed: [")
    for name in ("book", "ledger"):
        code, output = call(name, "--root", tiny.root)
        assert code == 1 and "claims.yml is not valid YAML" in output and "01_one" not in output


@pytest.mark.parametrize("content", ["{", "[]", "null"])
def test_a_damaged_record_is_named(tiny, root, content):
    shutil.copy(root / "book" / "claims.yml", tiny.root / "book")
    tiny.records("laptop").mkdir(parents=True)
    (tiny.records("laptop") / "01_one.json").write_text(content)
    code, output = call("ledger", "--root", tiny.root)
    assert code == 1 and "01_one.json is not a whole record" in output
    with pytest.raises(BookError, match=r"01_one\.json is not a whole record"):
        pipeline.verdict_problems(tiny, "laptop")


@pytest.mark.parametrize("name", ["run", "clean"])
@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_thing_in_the_place_of_the_build_folder_is_named(tiny, name, kind):
    if kind == "file":
        tiny.build.write_text("")
    else:
        tiny.build.symlink_to("nowhere")
    code, output = call(name, "--root", tiny.root)
    assert code == 1 and f"{tiny.build} is a" in output
    assert os.path.lexists(tiny.build)


@pytest.mark.parametrize(
    ("code", "advice"), [("ENOSPC", "Make room"), ("EROFS", "can be written"), ("EIO", "See what")]
)
def test_a_fault_of_the_disk_is_named_with_its_path(tiny, monkeypatch, code, advice):
    number = getattr(errno, code)

    def broken(*_, **__):
        raise OSError(number, os.strerror(number), "/a/path")

    monkeypatch.setattr(pipeline, "run", broken)
    status, output = call("run", "--root", tiny.root)
    assert status == 1
    assert output.startswith(f"error: /a/path: {os.strerror(number)}.") and advice in output


def test_a_terminal_that_lacks_letters_does_not_end_a_command(tiny, root):
    home = tiny.root.rename(tiny.root.with_name("tïny"))
    command = [sys.executable, "-m", "helpers", "clean", "--root", str(home)]
    env = {**os.environ, "PYTHONIOENCODING": "ascii:strict"}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and "t?ny" in done.stdout and not done.stderr


def test_timings_are_printed_as_a_table_and_as_json(tiny):
    assert "No chapter has a result yet" in call("timings", "--root", tiny.root)[1]
    assert call("run", "01_one", "--root", tiny.root)[0] == 0
    rows = json.loads(call("timings", "--json", "--root", tiny.root)[1])
    names = ["chapter", "profile", "seconds", "cpu_seconds", "peak_mb", "cached"]
    assert [list(row) for row in rows] == [names]
    assert rows[0]["peak_mb"] > 10 and rows[0]["cached"] is False
    assert "01_one" in call("timings", "--root", tiny.root)[1]


def test_ledger_json_has_every_key(root):
    code, output = call("ledger", "--json", "--root", root)
    assert code == 0
    keys = "id chapter source statement quantity paper measured interval n condition null verdict"
    rows = json.loads(output)
    assert rows and all(
        list(row) == [*keys.split(), "expected", "profile", "commit", "date"] for row in rows
    )


def test_clean_removes_what_was_made(tiny):
    (tiny.published("laptop")).mkdir(parents=True)
    assert call("clean", "--root", tiny.root)[0] == 0
    assert not tiny.build.exists()
    assert call("clean", "--root", tiny.root)[0] == 0


def test_serve_without_a_site_says_how_to_make_one(tiny):
    code, output = call("serve", "--root", tiny.root)
    assert code == 1 and "make book" in output


def test_serve_shows_the_site_on_this_machine_only(tiny):
    import threading

    tiny.published("laptop").mkdir(parents=True)
    (tiny.published("laptop") / "index.html").write_text("here")
    with serve.server(tiny) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        assert site.server_address[0] == "127.0.0.1"
        address = f"http://127.0.0.1:{site.server_port}/index.html"
        assert urllib.request.urlopen(address, timeout=5).read() == b"here"
        with pytest.raises(BookError, match="cannot be used"):
            serve.server(tiny, port=site.server_port)
        site.shutdown()


def test_site_check_without_a_site_says_how_to_make_one(tiny):
    code, output = call("site-check", "--root", tiny.root)
    assert code == 1 and "make book" in output


def test_a_terminated_command_ends_its_chapter(tiny, root):
    write_chapter(tiny, "01_one", chapter("One", "print('before')", "import time; time.sleep(60)"))
    command = [sys.executable, "-m", "helpers", "run", "01_one", "--root", str(tiny.root)]
    process = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if "cell 5/5" in line:
            break
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 143
    assert time.monotonic() - began < 15
    process.stdout.close()
    assert "before" in (tiny.failed / "01_one.ipynb").read_text()


def test_doctor_names_what_is_missing_and_what_to_do(tmp_path):
    lock = tmp_path / "requirements.lock"
    lock.write_text("# a note\nabsent==1.0\nold==2.0\nsame==3.0\n")
    versions = {"absent": None, "old": "1.9", "same": "3.0+cpu"}
    finding = doctor.packages(lock, versions.get)
    assert finding.state == "broken" and "absent" in finding.seen and finding.advice
    lock.write_text("old==2.0\nsame==3.0\n")
    finding = doctor.packages(lock, versions.get)
    assert finding.state == "note" and "old 1.9 (tested: 2.0)" in finding.seen
    lock.write_text("same==3.0\n")
    assert doctor.packages(lock, versions.get).state == "ok"
    assert doctor.python_version((3, 10)).state == "broken"
    finding = doctor.models(["gemma3"])
    assert finding.state == "broken" and "gemma3" in finding.seen and "install" in finding.advice
    assert doctor.models([]).state == "ok"
    assert doctor.cores(1).advice and doctor.memory(1.0).advice and doctor.disk(1.0).advice
    assert doctor.disk(0.1).state == "broken"
    assert doctor.browser(lambda _: None).advice
    assert doctor.network("no-such-host.invalid").state == "note"


def test_doctor_s_status_follows_its_findings(monkeypatch, root):
    fine = doctor.Finding("this", "note", "seen", "do that")
    monkeypatch.setattr(doctor, "examine", lambda _: [fine])
    code, output = call("doctor", "--root", root)
    assert code == 0 and "do that" in output
    monkeypatch.setattr(doctor, "examine", lambda _: [fine, doctor.Finding("x", "broken", "y")])
    assert call("doctor", "--root", root)[0] == 1


def test_every_finding_of_a_real_look_says_what_it_saw(root):
    findings = doctor.examine(Book.at(root))
    assert len(findings) == 9
    assert all(f.seen and (f.advice or f.state == "ok") for f in findings)
