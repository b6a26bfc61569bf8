"""How make prepares the environment, with stand-ins for Python and pip that only take notes."""

import os
import shutil
import subprocess

import pytest

INSIDE = """#!/bin/sh
case "$1 $2" in
  "-m pip") echo "$@" >> {log}; [ ! -e {fail} ] ;;
  *) exit 0 ;;
esac
"""
OUTSIDE = """#!/bin/sh
case "$1 $2" in
  "-m venv") echo venv >> {log}; mkdir -p .venv/bin; cp {inside} .venv/bin/python ;;
  *) exit 0 ;;
esac
"""


@pytest.fixture
def clone(tmp_path, root):
    """A folder with the real Makefile and the stand-ins."""
    folder = tmp_path / "a clone"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(root / name, folder / name)
    places = {"log": tmp_path / "log", "fail": tmp_path / "fail", "inside": tmp_path / "inside"}
    for name, text in (("inside", INSIDE), ("python", OUTSIDE)):
        (tmp_path / name).write_text(text.format(**places))
        (tmp_path / name).chmod(0o755)
    return folder


def make(folder, *arguments, **environment):
    """Run ``make environment``: the result, and what the stand-ins did."""
    log = folder.parent / "log"
    log.write_text("")
    kept = {k: v for k, v in os.environ.items() if k not in {"LOCK", "MAKEFLAGS", "MAKELEVEL"}}
    python = f"PYTHON={folder.parent / 'python'}"
    done = subprocess.run(
        ["make", "environment", python, *arguments],
        cwd=folder,
        env={**kept, **environment},
        capture_output=True,
        text=True,
    )
    return done, log.read_text()


def test_the_environment_is_made_once(clone):
    done, log = make(clone)
    assert done.returncode == 0, done.stderr
    assert log.startswith("venv\n")
    assert "-c requirements.lock -e .[book,test]" in log
    assert make(clone)[1] == ""


def test_a_half_made_environment_is_begun_anew(clone):
    (clone.parent / "fail").touch()
    done, _ = make(clone)
    assert done.returncode != 0 and "could not be installed" in done.stderr
    (clone / ".venv" / "half-unpacked").touch()
    (clone.parent / "fail").unlink()
    assert make(clone)[1].startswith("venv\n")
    assert not (clone / ".venv" / "half-unpacked").exists()


def test_a_new_lock_brings_the_environment_up_to_date(clone):
    make(clone)
    (clone / ".venv" / "kept").touch()
    (clone / "requirements.lock").write_text("torch==2.13.0\n")
    _, log = make(clone)
    assert "-m pip install" in log and "venv" not in log
    assert (clone / ".venv" / "kept").exists()
    assert make(clone)[1] == ""


def test_a_lost_python_or_a_moved_folder_makes_it_anew(clone):
    make(clone)
    (clone / ".venv" / "bin" / "python").unlink()
    assert make(clone)[1].startswith("venv\n")
    moved = clone.rename(clone.parent / "moved")
    assert make(moved)[1].startswith("venv\n")


def test_without_the_lock_the_newest_releases_are_installed(clone):
    _, log = make(clone, "LOCK=")
    assert "-m pip install" in log and " -c " not in log
    assert "-c requirements.lock" in make(clone)[1]


def test_no_usable_python_is_said_plainly(clone):
    done, _ = make(clone, "PYTHON=no-such-python")
    assert done.returncode != 0
    assert "No Python 3.11 or newer" in done.stderr and "PYTHON=/path/to" in done.stderr
    assert not (clone / ".venv").exists()
