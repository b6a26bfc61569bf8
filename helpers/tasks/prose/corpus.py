"""Documents with a split and hashes; and what is said when they are not the expected ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from helpers.tasks.prose.sources import Source, without_repeats

HELD_OUT_PERCENT = 15


class CorpusError(RuntimeError):
    """The installed packages give another text than the expected one."""


@dataclass(frozen=True)
class Document:
    """The prose of one source file."""

    name: str
    text: str

    @property
    def held_out(self) -> bool:
        """Whether it is kept from training: 15 of 100 documents, by the hash of the name."""
        return int(hashlib.sha256(self.name.encode()).hexdigest(), 16) % 100 < HELD_OUT_PERCENT


@dataclass(frozen=True)
class Part:
    """What one package gave: its version, the hash of its prose, and how many characters."""

    version: str
    sha256: str
    characters: int


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents in order, and the ``parts`` that they come from by name.

    A paragraph stands in one document only, so none that is held out was trained on.
    """

    documents: tuple[Document, ...]
    parts: Mapping[str, Part]

    @cached_property
    def sha256(self) -> str:
        """The hash of all names and texts."""
        return _sha([(document.name, document.text) for document in self.documents])

    @property
    def characters(self) -> int:
        """Length of all texts."""
        return sum(len(document.text) for document in self.documents)

    @property
    def train(self) -> tuple[Document, ...]:
        """The documents to train on."""
        return tuple(document for document in self.documents if not document.held_out)

    @property
    def held_out(self) -> tuple[Document, ...]:
        """The documents that no model or tokenizer has seen."""
        return tuple(document for document in self.documents if document.held_out)

    def said(self) -> str:
        """One line for a page or a record: versions, size, hash."""
        versions = ", ".join(f"{name} {part.version}" for name, part in self.parts.items())
        return f"{self.characters:,} characters from {versions}; SHA-256 {self.sha256}"


def assemble(read: Sequence[tuple[Source, list[tuple[str, list[str]]]]]) -> Corpus:
    """A corpus of parts that :func:`helpers.tasks.prose.sources.read_part` read, in this order.

    Raises:
        CorpusError: no document.
    """
    parts, everything = {}, []
    for source, documents in read:
        texts = [(name, "\n".join(said)) for name, said in documents]
        length = sum(len(text) for _, text in texts)
        parts[source.part] = Part(source.version, _sha(texts), length)
        everything += documents
    kept = without_repeats(everything)
    if not kept:
        raise CorpusError("the installed packages carry no docstrings: is the source stripped?")
    return Corpus(tuple(Document(name, "\n".join(said)) for name, said in kept), parts)


def pinned() -> dict[str, Any]:
    """The committed hashes: of each part by version, of the book's corpus, of its tokenizer."""
    return json.loads((Path(__file__).parent / "pinned.json").read_text(encoding="utf-8"))


def check_pinned(corpus: Corpus, expected: Mapping[str, Any]) -> None:
    """Nothing where every part is one that ``expected`` (as from :func:`pinned`) knows.

    Raises:
        CorpusError: naming each part that differs, the versions wanted and found, and what to do.
    """
    wrong = []
    for name, part in corpus.parts.items():
        known = expected["parts"].get(name, {})
        if known.get(part.version) == part.sha256:
            continue
        if part.version in known:
            wrong.append(
                f"{name} {part.version} is the version we want, but its docstrings have SHA-256 "
                f"{part.sha256[:12]}…, not {known[part.version][:12]}…"
            )
        else:
            wanted = " or ".join(known) or "no version of it"
            whose = "Python" if name == "topics" else name
            wrong.append(f"{whose} {part.version} is installed; we know {wanted}")
    if wrong:
        raise CorpusError(
            "the installed packages do not give the book's corpus:\n  "
            + "\n  ".join(wrong)
            + "\nInstall the tested versions (make book does; or pip install -c requirements.lock "
            "numpy scipy scikit-learn torch). Or go on with the text that you have: pass "
            "expected=None. The results then belong to that text, whose hash they carry, and not "
            "to the book's."
        )


def _sha(texts: Sequence[tuple[str, str]]) -> str:
    return hashlib.sha256(json.dumps(texts, ensure_ascii=True).encode()).hexdigest()
