"""What surrounds a chapter's kernel: its environment variables, and the system's memory."""

import contextlib
import os
from pathlib import Path

import helpers


def kernel_environment(folder: Path, chapter: str, profile: str, cores: int) -> dict[str, str]:
    """The environment of a chapter's process: this one's, with the book's own settings.

    Args:
        folder: the chapter's working folder; its ledger record goes to ``records`` in it.
        cores: how many the chapter may use.
    """
    threads = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    cache = os.environ.get("HELPERS_CACHE", "").strip()
    # as the user meant it: below the folder of the command, not below that of the notebooks
    place = {"HELPERS_CACHE": os.path.abspath(os.path.expanduser(cache))} if cache else {}
    return {
        # PyTorch's threads wait by spinning, a millisecond or so, for the next piece of work. Where
        # another process wants the core, a chapter then takes three times as long. A fifteenth of
        # that is as quick on a quiet machine. Who sets a number of their own keeps it.
        "GOMP_SPINCOUNT": "20000",
        **os.environ,
        **place,
        "BOOK_RECORDS": str(folder / "records"),
        "BOOK_CHAPTER": chapter,
        "BOOK_PROFILE": profile,
        "BOOK_CORES": str(cores),
        **dict.fromkeys(threads, str(cores)),
        "LOKY_MAX_CPU_COUNT": str(cores),
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": search_path(Path(helpers.__file__).parents[1]),
        "TQDM_DISABLE": "1",  # a bar is for a reader at the keyboard, not for a page
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        # the reader's own start-up files and kernels must not change a published result
        "IPYTHONDIR": str(folder / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTER_PREFER_ENV_PATH": "1",
    }


def search_path(first: Path) -> str:
    """The module search path with ``first`` in front."""
    rest = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join([str(first.resolve()), *filter(None, rest)])


def oom_kills() -> int:
    """How often this system has ended a process for want of memory; 0 where it does not say."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(Path("/proc/vmstat").read_text().split("oom_kill ")[1].split()[0])
    return 0
