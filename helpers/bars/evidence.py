"""What was looked at, and when: data, models and measurements, by their hashes.

A registration must come before the evidence.  An :class:`Evidence` is handed around with the data
and notes the first look.  It guards against mistakes and forgetting, not against someone who loads
a file beside it: for that, commit the registration's hash before the run.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


@dataclass(frozen=True)
class Opened:
    """One look: ``what`` in words, the SHA-256 of its content, and when (UTC, ISO 8601)."""

    what: str
    sha256: str
    date: str


class Evidence:
    """Everything that a run opened, in order.

    >>> evidence = Evidence()
    >>> rows = evidence.open("test rows", np.zeros((2, 3)))
    >>> [look.what for look in evidence.opened]
    ['test rows']
    """

    def __init__(self) -> None:
        self._opened: dict[str, Opened] = {}

    @property
    def opened(self) -> tuple[Opened, ...]:
        """Every look so far."""
        return tuple(self._opened.values())

    def open(self, what: str, content: T) -> T:
        """Note that this is looked at from now on, and return it.

        Args:
            what: a name of its own for this content.
            content: arrays, tensors, numbers, texts, or dicts and lists of them.

        Raises:
            ValueError: other content was opened under this name.
            TypeError: content of another type, which has no hash.
        """
        sha256 = digest(content)
        if self._opened.setdefault(what, Opened(what, sha256, now())).sha256 != sha256:
            raise ValueError(
                f"{what!r} was opened before with other content. Open this one under a name of its "
                "own, so that the record shows both."
            )
        return content


def now() -> str:
    """The time, in UTC and to the microsecond."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")


def digest(content: Any) -> str:
    """SHA-256 of arrays, tensors and plain values: types, shapes, names and every byte."""
    state = hashlib.sha256()
    _update(state, content)
    return state.hexdigest()


def _update(state: Any, content: Any) -> None:
    if isinstance(content, Mapping):
        state.update(f"dict {len(content)};".encode())
        for key in sorted(content, key=str):
            _update(state, str(key))
            _update(state, content[key])
    elif isinstance(content, list | tuple):
        state.update(f"list {len(content)};".encode())
        for part in content:
            _update(state, part)
    elif content is None or isinstance(content, bool | int | float | str):
        text = json.dumps(content)
        state.update(f"{type(content).__name__} {len(text)} {text};".encode())
    elif hasattr(content, "__array__"):
        detached = content.detach().cpu() if hasattr(content, "detach") else content
        array = np.ascontiguousarray(detached)
        if array.dtype.hasobject:
            raise TypeError("an array of Python objects has no stable hash; give plain numbers.")
        state.update(f"array {array.dtype.str} {array.shape};".encode())
        state.update(array.tobytes())
    else:
        raise TypeError(
            f"a {type(content).__name__} has no stable hash; give arrays, tensors, numbers, texts, "
            "or dicts and lists of them (a model: its state_dict())."
        )
