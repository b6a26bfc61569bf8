"""Snapshots of a run under way, so that a killed one goes on where it was.

A folder a run: ``now.safetensors`` is replaced as a whole from time to time; weights that are kept
are written once each, beside it.  Every file carries the run's key and a hash of its content.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from helpers.cache.codec import Encoded, decode, encode
from helpers.cache.notes import tell

SNAPSHOT_SECONDS = 20.0  # of work that a kill may cost
STALE_SECONDS = 60 * 86_400.0  # a run that nobody took up again in two months


class Damaged(Exception):
    """A file that is not what was written, or was written for something else."""


def pack(key: str, values: dict[str, Any]) -> bytes:
    """``values``, as :mod:`helpers.cache` takes them, as one safetensors file."""
    encoded = encode("a snapshot", values)
    arrays = {f"array {name}": torch.from_numpy(a) for name, a in encoded.arrays.items()}
    tensors = {f"tensor {name}": t for name, t in encoded.tensors.items()} | arrays
    metadata = {"key": key, "values": json.dumps(encoded.skeleton)}
    return save(tensors, {**metadata, "sha256": _sha(tensors, metadata)})


def unpack(key: str, content: bytes) -> dict[str, Any]:
    """The inverse of :func:`pack`.

    Raises:
        Damaged: the content lacks its hash, or has another key.
    """
    try:
        tensors = load(content)
        length = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + length])["__metadata__"]
        if metadata.pop("sha256") != _sha(tensors, metadata):
            raise Damaged("its hash is wrong")
        if metadata["key"] != key:
            raise Damaged("it belongs to another run")
    except (SafetensorError, ValueError, KeyError, TypeError):
        raise Damaged("it cannot be read") from None
    parts: dict[str, dict[str, Tensor]] = {"tensor": {}, "array": {}}
    for name, value in tensors.items():
        kind, _, number = name.partition(" ")
        parts[kind][number] = value
    arrays = {name: value.numpy() for name, value in parts["array"].items()}
    return decode(Encoded(json.loads(metadata["values"]), arrays, parts["tensor"]))


def _sha(tensors: dict[str, Tensor], metadata: dict[str, str]) -> str:
    text = json.dumps(metadata, sort_keys=True).encode()
    return hashlib.sha256(save(tensors) + text).hexdigest()


class Snapshots:
    """The snapshots of one run, in ``folder``, which lies in a folder for all runs' snapshots.

    Several processes may use one folder: files appear whole or not at all, and since they come
    from the same run, either's are right.

    Args:
        folder: its name is the run's key.
        seconds: time between snapshots; ``SNAPSHOT_SECONDS`` unless given.
    """

    def __init__(self, folder: Path, seconds: float | None = None) -> None:
        self.folder, self.key = folder, folder.name
        self.seconds = SNAPSHOT_SECONDS if seconds is None else seconds
        self._last = time.monotonic()

    def due(self) -> bool:
        """Whether the last snapshot is ``seconds`` ago."""
        return time.monotonic() - self._last >= self.seconds

    def write(self, values: dict[str, Any], kept: dict[int, dict[str, Tensor]]) -> None:
        """Replace the snapshot.  Where that cannot be written, tell of it and train on."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for step, weights in kept.items():
                if not self._kept(step).exists():
                    self._replace(self._kept(step), pack(f"{self.key}/{step}", weights))
            content = pack(self.key, {"kept": list(kept), "values": values})
            self._replace(self.folder / "now.safetensors", content)
        except OSError as error:
            tell(
                f"a snapshot of this training cannot be written in {self.folder} "
                f"({error.strerror}); killed now, it would begin anew.  Make room, or set "
                "HELPERS_CACHE to another folder."
            )
            self.seconds = float("inf")
        self._last = time.monotonic()

    def read(self) -> tuple[dict[str, Any], dict[int, dict[str, Tensor]]] | None:
        """The last snapshot; None where there is none, or, with a warning, a damaged one."""
        now = self.folder / "now.safetensors"
        if not now.exists():
            return None
        try:
            found = unpack(self.key, now.read_bytes())
            kept = {
                step: unpack(f"{self.key}/{step}", self._kept(step).read_bytes())
                for step in found["kept"]
            }
        except (Damaged, OSError) as error:
            reason = getattr(error, "strerror", None) or error
            tell(f"the snapshot {self.folder} is damaged ({reason}).  The training begins anew.")
            self.remove()
            return None
        return found["values"], kept

    def remove(self) -> None:
        """Remove this run's snapshots, and those of runs that were given up long ago."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            for other in self.folder.parent.iterdir():
                if other.is_dir() and time.time() - other.stat().st_mtime > STALE_SECONDS:
                    shutil.rmtree(other, ignore_errors=True)

    def _kept(self, step: int) -> Path:
        return self.folder / f"kept-{step}.safetensors"

    def _replace(self, path: Path, content: bytes) -> None:
        partial = path.with_name(f"{uuid.uuid4().hex}.partial")
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Wait until no other process is in here with the same ``path``, which serves as a lock.

    A killed process lets go of it.  Where the system has no such locks, nobody waits: the same
    run may then be computed twice, which is slow and not wrong.
    """
    lock = _locked(path)
    try:
        yield
    finally:
        if lock is not None:
            path.unlink(missing_ok=True)
            os.close(lock)


def _locked(path: Path) -> int | None:
    try:
        import fcntl

        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            lock = os.open(path, os.O_RDWR | os.O_CREAT)
            fcntl.flock(lock, fcntl.LOCK_EX)
            # whoever had it has removed the file meanwhile, unless it is still this one
            if _same(path, lock):
                return lock
            os.close(lock)
    except (ImportError, OSError):
        return None


def _same(path: Path, lock: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(lock))
    except FileNotFoundError:
        return False
