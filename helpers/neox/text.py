"""The corpus and its tokens, read from the installed packages once and then from the cache."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from helpers import cache
from helpers.tasks import prose
from helpers.tasks.prose import Corpus, CorpusError

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@cache.cached(uses=(prose,))
def _read(part: str, sha256: str) -> dict[str, Any]:
    """A part whose files have this hash."""
    found = prose.find_source(part)
    if found.sha256 != sha256:
        raise CorpusError(f"the files of {part} changed while we read them; start again.")
    return {"documents": [[name, said] for name, said in prose.read_part(found)]}


def read_corpus(
    parts: Sequence[str] = prose.PARTS, *, expected: Mapping[str, Any] | str | None = "pinned"
) -> Corpus:
    """The corpus of these parts of the installed packages.

    ``expected``: the committed hashes (``"pinned"``), others of the same form, or None, which takes
    whatever text is installed; the hash in ``Corpus.said()`` must then stand by the results.

    Raises:
        CorpusError: the packages give another text; says which, and what to do.
        ValueError: an unknown part, or one named twice.
    """
    if not parts or len(set(parts)) != len(parts):
        raise ValueError(f"name at least one part, and each once; got {list(parts)}.")
    corpus = _corpus(tuple(parts))
    if expected is not None:
        prose.check_pinned(corpus, prose.pinned() if expected == "pinned" else expected)
    return corpus


@functools.cache
def _corpus(parts: tuple[str, ...]) -> Corpus:
    sources = [prose.find_source(part) for part in parts]
    kept = [_read(source.part, source.sha256)["documents"] for source in sources]
    return prose.assemble(
        [(source, [tuple(d) for d in found]) for source, found in zip(sources, kept, strict=True)]
    )


@dataclass(frozen=True, eq=False)
class Text:
    """A corpus under its own tokenizer.

    ``train`` are the ids of all training documents in a row, each ended by token 0; ``tokenizer``
    is the content of ``tokenizer.json``.
    """

    corpus: Corpus
    tokenizer: str
    train: Int[np.ndarray, " tokens"]

    def parsed(self) -> Tokenizer:
        """The tokenizer itself."""
        from tokenizers import Tokenizer

        return Tokenizer.from_str(self.tokenizer)


def read_text(
    parts: Sequence[str] = prose.PARTS,
    *,
    d_vocab: int = 2048,
    expected: Mapping[str, Any] | str | None = "pinned",
) -> Text:
    """The corpus, a BPE tokenizer of ``d_vocab`` tokens trained on its training part, its tokens.

    Raises:
        CorpusError, ValueError: as :func:`read_corpus`.
    """
    corpus = read_corpus(parts, expected=expected)
    kept = _tokens(tuple(parts), corpus.sha256, d_vocab)
    return Text(corpus, kept["tokenizer"], kept["train"])


@functools.cache
def _tokens(parts: tuple[str, ...], sha256: str, d_vocab: int) -> dict[str, Any]:
    return _kept_tokens(list(parts), sha256, d_vocab)


@cache.cached(uses=(prose,), packages=("tokenizers",))
def _kept_tokens(parts: list[str], sha256: str, d_vocab: int) -> dict[str, Any]:
    corpus = _corpus(tuple(parts))
    texts = [document.text for document in corpus.train]
    tokenizer = prose.train_tokenizer(texts, d_vocab)
    train, _ = prose.encode(tokenizer, texts)
    return {"tokenizer": tokenizer.to_str(), "train": train}
