"""Where a measurement comes from: the commit of the book, and the size of the machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any


def commit(root: Path | None) -> str:
    """The commit checked out at `root`, with `+dirty` where files differ from it.

    `unknown` outside a repository (an installed package), without git, or before a first commit. A
    folder that lies inside some other repository doesn't count as this book's.
    """
    if root is None:
        return "unknown"
    top = _git(root, "rev-parse", "--show-toplevel")
    head = _git(root, "rev-parse", "--verify", "--quiet", "HEAD")
    if not top or not head or Path(top).resolve() != root.resolve():
        return "unknown"
    status = _git(root, "status", "--porcelain")
    if status is None:
        return "unknown"
    return f"{head}+dirty" if status else head


def machine() -> dict[str, Any]:
    """Usable cores, memory in GB (None where the system does not say), and versions."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    except (AttributeError, ValueError, OSError):  # no sysconf on Windows
        memory = None
    usable = getattr(os, "sched_getaffinity", None)  # Linux only
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = "not installed"
    return {
        "cores": len(usable(0)) if usable else os.cpu_count(),
        "memory_gb": None if memory is None else round(memory, 1),
        "python": platform.python_version(),
        "torch": torch,
    }


def _git(root: Path, *arguments: str) -> str | None:
    """What git prints, or None where it fails, hangs or is missing."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
