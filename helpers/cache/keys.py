"""What decides a result: code, parameters, package versions."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

FORMAT = 1  # of the stored files; a new number leaves all older results behind


class CacheKeyError(TypeError):
    """A call that has no stable key. The message names the parameter and what to pass instead."""


def code_digests(function: Callable, uses: Sequence[ModuleType | str]) -> dict[str, str]:
    """The hash of each module's source on disk, by the module's name; the function's own first.

    Raises CacheKeyError for a module without source files.
    """
    own = function.__module__
    module = sys.modules.get(own)
    if own == "__main__" or module is None or not getattr(module, "__file__", None):
        try:
            source = inspect.getsource(inspect.unwrap(function))
        except (OSError, TypeError):
            raise CacheKeyError(
                f"{own}.{function.__qualname__}: its source cannot be read, so its results cannot "
                "be kept. Define it in a module or a notebook cell."
            ) from None
        digests = {own: _sha(source.encode())}
    else:
        digests = {own: _module_digest(own)}
    for used in uses:
        name = used if isinstance(used, str) else used.__name__
        digests[name] = _module_digest(name)
    return digests


def make_key(
    function: Callable,
    code: Mapping[str, str],
    packages: Sequence[str],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> tuple[str, dict[str, Any]]:
    """The key of one call (hexadecimal), and the JSON-able inputs that it was made of.

    Raises CacheKeyError for an unsupported parameter or a package that is not installed, TypeError
    for a call that does not fit the function's signature.
    """
    name = f"{function.__module__}.{function.__qualname__}"
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    inputs = {
        "format": FORMAT,
        "function": name,
        "code": dict(code),
        "packages": {package: _version(name, package) for package in packages},
        "parameters": {
            parameter: canonical(value, f"{name}: parameter {parameter}")
            for parameter, value in bound.arguments.items()
        },
    }
    text = json.dumps(inputs, sort_keys=True, allow_nan=False)
    return _sha(text.encode())[:40], inputs


def canonical(value: Any, at: str) -> Any:
    """`value` as JSON that differs wherever the value does: 1, 1.0, True and "1" are four values.

    Arrays and tensors count with dtype, shape and the hash of their content; frozen settings may
    come as a dataclass. Raises CacheKeyError, beginning with `at`, for anything else.
    """
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return {"float": value.hex()}
    if kind in (list, tuple):
        return {kind.__name__: [canonical(v, f"{at}[{i}]") for i, v in enumerate(value)]}
    if kind is dict:
        if not all(type(key) is str for key in value):
            raise CacheKeyError(f"{at}: a dict's keys must be text. Turn them into text.")
        return {"dict": [[k, canonical(value[k], f"{at}[{k!r}]")] for k in sorted(value)]}
    plain = kind is np.ndarray or isinstance(value, np.generic)
    if plain and value.dtype.kind in "biufcSU":
        content = np.ascontiguousarray(value).tobytes()
        return {kind.__name__: [value.dtype.str, list(value.shape), _sha(content)]}
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        flat = value.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        flat = flat.view(torch.uint8)
        return {"tensor": [str(value.dtype), list(value.shape), _sha(flat.numpy().tobytes())]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field.name for field in dataclasses.fields(value)]
        content = [[f, canonical(getattr(value, f), f"{at}.{f}")] for f in fields]
        return {"dataclass": [f"{kind.__module__}.{kind.__qualname__}", content]}
    raise CacheKeyError(
        f"{at} is a {kind.__name__}, which has no stable key. Pass numbers, text, lists, dicts, "
        "arrays, or a dataclass of these; a seed, not a generator; a name, not a function."
    )


def _module_digest(name: str) -> str:
    """The hash of a module's file, or of every .py file in a package."""
    module = sys.modules.get(name)
    try:
        spec = getattr(module, "__spec__", None) or importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    origin = getattr(module, "__file__", None) or getattr(spec, "origin", None)
    places = list(spec.submodule_search_locations or []) if spec else []
    if places:
        files = sorted(
            (str(path.relative_to(place)), path)
            for place in map(Path, places)
            for path in place.rglob("*.py")
        )
    else:
        files = [(name, Path(origin))] if origin and Path(origin).is_file() else []
    if not files:
        raise CacheKeyError(f"the module {name} has no source file here. Correct `uses=`.")
    whole = "\n".join(f"{_sha(path.read_bytes())} {label}" for label, path in files)
    return _sha(whole.encode())


def _version(name: str, package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise CacheKeyError(
            f"{name}: the package {package} is not installed. Correct `packages=`, or install it."
        ) from None


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
