"""Results as arrays, tensors and JSON, and back, exactly."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# In the JSON, {MARK: [kind, name]} stands for an array, a numpy number or a tensor.
MARK = "__kept__"
_NUMPY = {"bool", "float16", "float32", "float64"}
_NUMPY |= {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_TORCH = _NUMPY - {"uint16", "uint32", "uint64"} | {"bfloat16"}
_COMPLEX = {"complex64": "float32", "complex128": "float64"}


class CacheError(TypeError):
    """A result that cannot be kept exactly. The message names the function and the place."""


@dataclass(frozen=True)
class Encoded:
    """A result apart: `skeleton` is JSON-able, the rest are real arrays and tensors by name."""

    skeleton: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    tensors: dict[str, Any] = field(default_factory=dict)

    def files(self) -> dict[str, bytes]:
        """The bytes to store, by file name; safetensors where there are arrays or tensors."""
        result = {"values.json": json.dumps(self.skeleton).encode("ascii")}
        if self.arrays:
            from safetensors.numpy import save

            result["arrays.safetensors"] = save(self.arrays)
        if self.tensors:
            from safetensors.torch import save

            result["tensors.safetensors"] = save(self.tensors)
        return result

    @staticmethod
    def from_files(files: dict[str, bytes]) -> Encoded:
        """The inverse of `files`."""
        arrays, tensors = {}, {}
        if "arrays.safetensors" in files:
            from safetensors.numpy import load

            arrays = load(files["arrays.safetensors"])
        if "tensors.safetensors" in files:
            from safetensors.torch import load

            tensors = load(files["tensors.safetensors"])
        return Encoded(json.loads(files["values.json"]), arrays, tensors)


def encode(name: str, result: Any) -> Encoded:
    """Take a function's result apart, as copies. Raises CacheError, naming function and place."""
    if type(result) is not dict:
        raise CacheError(f"{name} returns {_kind(result)}; a cached function returns a dict.")
    encoded = Encoded({})
    encoded.skeleton.update(_encode(result, f"{name}: result", encoded))
    return encoded


def decode(encoded: Encoded) -> dict:
    """Put a result together again; nothing in it is shared with `encoded`."""
    return _decode(encoded.skeleton, encoded)


def _encode(value: Any, at: str, into: Encoded) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [_encode(item, f"{at}[{i}]", into) for i, item in enumerate(value)]
    if kind is dict:
        for key in value:
            if type(key) is not str or key == MARK:
                raise CacheError(f"{at} has the key {key!r}. Use text, and not {MARK!r}.")
        return {key: _encode(item, f"{at}[{key!r}]", into) for key, item in value.items()}
    if kind is np.ndarray or isinstance(value, np.generic):
        return _encode_array(value, at, into)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _encode_tensor(value, at, into, torch)
    raise CacheError(
        f"{at} is {_kind(value)}, which cannot be kept exactly. Return arrays, tensors, numbers, "
        "text, lists or dicts."
    )


def _encode_array(value: Any, at: str, into: Encoded) -> dict:
    dtype = value.dtype
    if not dtype.isnative or dtype.name not in _NUMPY | set(_COMPLEX):
        raise CacheError(f"{at} has dtype {dtype}, which cannot be kept. Convert it first.")
    array = np.array(value, order="C", copy=True)
    kind = "array" if type(value) is np.ndarray else "scalar"
    if dtype.name in _COMPLEX:  # safetensors has no complex numbers in numpy: a last axis of two
        array = array.reshape(-1).view(_COMPLEX[dtype.name]).reshape((*array.shape, 2))
        kind = f"complex {kind}"
    name = str(len(into.arrays))
    into.arrays[name] = array
    return {MARK: [kind, name]}


def _encode_tensor(value: Any, at: str, into: Encoded, torch: Any) -> dict:
    dtype = str(value.dtype).removeprefix("torch.")
    if value.layout is not torch.strided or dtype not in _TORCH | set(_COMPLEX):
        raise CacheError(
            f"{at} is a tensor of dtype {dtype} and layout {value.layout}, which cannot be kept. "
            "Convert it first."
        )
    # `torch.clone` below makes the storage its own: safetensors refuses shared ones.
    tensor = value.detach().cpu().resolve_conj().resolve_neg()
    kind = "tensor"
    if tensor.is_complex():
        tensor, kind = torch.view_as_real(tensor), "complex tensor"
    name = str(len(into.tensors))
    into.tensors[name] = torch.clone(tensor, memory_format=torch.contiguous_format)
    return {MARK: [kind, name]}


def _decode(value: Any, encoded: Encoded) -> Any:
    if isinstance(value, list):
        return [_decode(item, encoded) for item in value]
    if not isinstance(value, dict):
        return value
    if MARK not in value:
        return {key: _decode(item, encoded) for key, item in value.items()}
    kind, name = value[MARK]
    if kind.endswith("tensor"):
        import torch

        tensor = encoded.tensors[name]
        whole = torch.view_as_complex(tensor) if kind.startswith("complex") else tensor
        return torch.clone(whole)
    array = np.array(encoded.arrays[name], copy=True)
    if kind.startswith("complex"):
        dtype = {real: whole for whole, real in _COMPLEX.items()}[array.dtype.name]
        array = array.reshape(-1).view(dtype).reshape(array.shape[:-1])
    return array[()] if kind.endswith("scalar") else array


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"
