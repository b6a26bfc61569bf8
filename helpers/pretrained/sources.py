"""The four places a model comes from, each with its own way of making sure that it is the one."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from helpers.pretrained import hub, packaged, toy
from helpers.pretrained.errors import UnknownModelError
from helpers.pretrained.folder import count_parameters, folder_licence, read_model, read_tokenizer
from helpers.pretrained.licences import Licence
from helpers.pretrained.machine import decide
from helpers.pretrained.model import Pretrained, settle, wants_bos

if TYPE_CHECKING:
    import torch


@runtime_checkable
class Source(Protocol):
    """A place that a model can be loaded from."""

    def load(self, name: str, *, dtype: torch.dtype | None, device: str | None) -> Pretrained: ...


def find(name: str, revision: str | None) -> Source:
    """Where `name` points: a package, a toy, a folder, or the hub (see `helpers.pretrained.load`).

    Raises UnknownModelError for what can be none of them.
    """
    if name.startswith("toy:"):
        source: Source = Toy(name.removeprefix("toy:"))
    elif name in packaged.PACKAGED:
        source = Package()
    elif name and Path(name).expanduser().is_dir():
        source = Folder(Path(name).expanduser())
    elif hub.looks_like_id(name):
        return Hub(revision)
    else:
        raise UnknownModelError(
            f"there is no model {name!r}: it is no folder here, and no id of the hub "
            f"(owner/name). Packaged: {', '.join(packaged.PACKAGED)}; "
            f"toys: {', '.join(f'toy:{known}' for known in toy.ARCHITECTURES)}."
        )
    if revision is not None:
        raise ValueError(
            f"{name!r} does not come from the hub: it has no revision {revision!r}. Leave it out."
        )
    return source


@dataclass(frozen=True)
class Package:
    """One of the packaged models: checked, made into a folder once, and read from there."""

    def load(self, name: str, *, dtype: torch.dtype | None, device: str | None) -> Pretrained:
        from helpers.pretrained.converted import converted

        spec = packaged.PACKAGED[name]
        with tempfile.TemporaryDirectory(prefix="model-") as spare:
            folder = converted(name, Path(spare))
            return _read(
                folder,
                dtype,
                device,
                name=name,
                licence=packaged.licence(name),
                source=f"{spec.describes}; Python package {spec.package}",
                revision=spec.version,
                adds_bos=spec.adds_bos,
            )


@dataclass(frozen=True)
class Toy:
    """A tiny random checkpoint of an architecture."""

    architecture: str

    def load(self, name: str, *, dtype: torch.dtype | None, device: str | None) -> Pretrained:
        folder = toy.folder(self.architecture)
        return _read(
            folder,
            dtype,
            device,
            name=name,
            licence=Licence("none needed: random weights"),
            source="made on the spot, untrained",
            revision=folder.name[:12],
        )


@dataclass(frozen=True)
class Folder:
    """An ordinary folder with config.json, safetensors and a tokenizer."""

    path: Path

    def load(self, name: str, *, dtype: torch.dtype | None, device: str | None) -> Pretrained:
        return _read(
            self.path,
            dtype,
            device,
            name=name,
            licence=folder_licence(self.path),
            source="a folder on this machine",
            revision="local",
        )


@dataclass(frozen=True)
class Hub:
    """A repository of the Hugging Face hub, at one commit."""

    revision: str | None

    def load(self, name: str, *, dtype: torch.dtype | None, device: str | None) -> Pretrained:
        path, commit = hub.fetch(name, self.revision)
        address = f"https://huggingface.co/{name}"
        return _read(
            path,
            dtype,
            device,
            name=name,
            licence=folder_licence(path, link=address),
            source=f"Hugging Face hub, {name}",
            revision=commit,
        )


def _read(
    folder: Path,
    dtype: torch.dtype | None,
    device: str | None,
    *,
    adds_bos: bool | None = None,
    **said: Any,
) -> Pretrained:
    """Read a folder whose files have been checked."""
    placement = decide(count_parameters(folder), dtype, device)
    tokenizer = read_tokenizer(folder)
    return Pretrained(
        model=settle(read_model(folder, placement)),
        tokenizer=tokenizer,
        adds_bos=wants_bos(tokenizer) if adds_bos is None else adds_bos,
        placement=str(placement),
        **said,
    )
