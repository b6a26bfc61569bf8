"""Nothing is computed twice: results kept under everything that decides them.

    @cached(uses=(helpers.training, "helpers.models"), packages=("torch", "numpy"))
    def trained(seed: int, steps: int = 2000) -> dict: ...

The key is made of the function's name, the source of its module and of the modules in `uses`, its
parameters with their defaults, and the versions of `packages`. The results lie as safetensors and
JSON under `HELPERS_CACHE`, else under the user's cache folder. Each file carries its hash: what is
damaged is named in a warning and computed anew.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from helpers.cache.codec import CacheError, decode, encode
from helpers.cache.keys import CacheKeyError, code_digests, make_key
from helpers.cache.notes import CacheWarning
from helpers.cache.store import CacheFolderError, cache_folder, fetch, keep, prepare

__all__ = [
    "CacheError",
    "CacheFolderError",
    "CacheKeyError",
    "CacheWarning",
    "cache_folder",
    "cached",
]


def cached(
    *, uses: Sequence[ModuleType | str] = (), packages: Sequence[str] = ()
) -> Callable[[Callable[..., dict]], Callable[..., dict]]:
    """Keep the dict that a function returns, and return it without computing the next time.

    The dict may hold, at any depth of dicts with text keys and of lists: numpy arrays and numbers,
    torch tensors, and None, bool, int, float, str. Types, dtypes and shapes come back exactly;
    tensors come back detached and on the CPU, from the first call on.

    `uses` names the modules (objects, or dotted names; a package counts with all that is in it)
    whose code decides the result besides the function's own module. A function defined in a
    notebook is keyed on its own source alone: what it needs must be a parameter. Where a module
    has changed on disk since it was imported, the result is computed, returned and not kept.

    The decorated function has `entry(*args, **kwargs)`: the folder of that call's result.

    Raises CacheKeyError for parameters that have no stable key, CacheError for results that cannot
    be kept exactly, and, before it computes, CacheFolderError where the cache's folder cannot be
    made. Where the folder cannot be written or the disk has no room, it computes, returns the
    result, and warns once. Under the book's runner the warnings are notes for
    the runner.
    """

    def decorate(function: Callable[..., dict]) -> Callable[..., dict]:
        name = f"{function.__module__}.{function.__qualname__}"
        imported = code_digests(function, uses)

        def entry(*args: Any, **kwargs: Any) -> Path:
            key, _ = make_key(function, imported, packages, args, kwargs)
            return cache_folder() / _folder_name(name) / key

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> dict:
            changed = _changed(imported, code_digests(function, uses))
            if changed:
                warnings.warn(
                    f"{name}: {', '.join(changed)} changed on disk after the import. The result is "
                    "not kept. Restart Python to use the cache again.",
                    CacheWarning,
                    stacklevel=2,
                )
                return decode(encode(name, function(*args, **kwargs)))
            key, inputs = make_key(function, imported, packages, args, kwargs)
            folder = cache_folder() / _folder_name(name) / key
            found = fetch(folder)
            if found is not None:
                return decode(found)
            prepare(folder)
            result = encode(name, function(*args, **kwargs))
            keep(folder, result, name, inputs)
            return decode(result)

        wrapper.entry = entry
        return wrapper

    return decorate


def _changed(imported: dict[str, str], now: dict[str, str]) -> list[str]:
    return [module for module, digest in now.items() if imported[module] != digest]


def _folder_name(name: str) -> str:
    """A function's name as a folder: `<locals>` and the like have no place in one."""
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name)
