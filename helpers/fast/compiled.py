"""How this package's loops are compiled: once a machine, by Numba, from all of its files.

A loop may sum in the order that suits the vector units, so results differ from PyTorch's by
rounding, and are the same each time.
"""

from __future__ import annotations

from pathlib import Path

import numba

# All freedoms of "fast" arithmetic but those that suppose that there is no NaN or infinity: these,
# and not an error of division by zero, are what the trainer notices and names.
LOOSE = {"reassoc", "contract", "arcp", "nsz", "afn"}
HOW = {"fastmath": LOOSE, "nogil": True, "boundscheck": False, "error_model": "numpy"}


def part(function):
    """A loop that only compiled functions call, and of which each gets a copy of its own.

    Else a process that compiles would call what it compiled apart, and one that finds the code on
    disk what was compiled within the caller: two codes, which round differently.
    """
    return numba.njit(forceinline=True, **HOW)(function)


def compiled(function):
    """A function for Python to call, with the machine code kept for the next process."""
    try:
        kept = numba.njit(cache=True, **HOW)(function)
    except RuntimeError:  # no folder that it may write to: each process compiles for itself
        return numba.njit(**HOW)(function)
    # Numba compiles anew when the function's own file has changed.  What it calls, and what is
    # built into its machine code, lies in the other files too: look at them all.
    kept._cache._cache_file._source_stamp = _stamp()
    return kept


def _stamp() -> tuple:
    files = sorted(Path(__file__).parent.glob("*.py"))
    return tuple((file.stat().st_mtime_ns, file.stat().st_size) for file in files)
