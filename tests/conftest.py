"""For every test: shapes in signatures are checked, one thread, caches of this run only."""

import os
import tempfile
from pathlib import Path

# before anything imports torch or numpy
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"
_caches = tempfile.TemporaryDirectory(prefix="book-tests-")
os.environ["HELPERS_CACHE"] = _caches.name
os.environ["MPLBACKEND"] = "Agg"
for name in ("BOOK_RECORDS", "BOOK_CHAPTER", "BOOK_PROFILE", "BOOK_CORES"):
    os.environ.pop(name, None)

import jaxtyping
import pytest
from jaxtyping import install_import_hook

ROOT = Path(__file__).resolve().parents[1]
# the science; the machinery has no arrays, and its command line reads its own annotations
SCIENCE = sorted(
    f"helpers.{path.stem}"
    for path in (ROOT / "helpers").iterdir()
    if (path.suffix == ".py" or any(path.glob("*.py")))
    and path.stem not in {"__init__", "__main__", "book", "__pycache__"}
)
install_import_hook(SCIENCE, "beartype.beartype")


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture
def unchecked():
    """Shape checks off, so that a function's own error is reached, as it is for a reader."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
