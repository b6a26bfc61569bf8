"""A byte-level BPE tokenizer, trained here, and documents as token ids."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

if TYPE_CHECKING:
    from tokenizers import Tokenizer

END = "<|endoftext|>"
"""Stands between documents, as in Pythia's training; token 0."""
D_VOCAB = 2048


def train_tokenizer(texts: Iterable[str], d_vocab: int = D_VOCAB) -> Tokenizer:
    """GPT-NeoX's kind of tokenizer: byte-level BPE with ``d_vocab`` tokens, no space put before.

    Every text has tokens, since all 256 bytes do.  The merges depend on the texts alone.

    Raises:
        ValueError: ``d_vocab`` below the 257 that bytes and ``END`` take, or texts that are too
            short for so many merges.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    if d_vocab < 257:
        raise ValueError(f"256 bytes and {END} need d_vocab = 257 at least; got {d_vocab}.")
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=d_vocab,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    if made.get_vocab_size() != d_vocab:
        raise ValueError(
            f"the texts give {made.get_vocab_size()} tokens, not {d_vocab}: take more text, or a "
            "smaller vocabulary."
        )
    return made


def tokenizer_sha256(tokenizer: Tokenizer) -> str:
    """The hash of ``tokenizer.json``."""
    return hashlib.sha256(tokenizer.to_str().encode()).hexdigest()


def encode(
    tokenizer: Tokenizer, texts: Sequence[str]
) -> tuple[Int[np.ndarray, " tokens"], Int[np.ndarray, " texts_and_end"]]:
    """All texts in one row of ids, each followed by ``END``; and where each begins.

    Text k is ``ids[starts[k]:starts[k + 1]]``, with its END.
    """
    end = tokenizer.token_to_id(END)
    rows = [[*found.ids, end] for found in tokenizer.encode_batch(list(texts))]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    flat = [token for row in rows for token in row]
    return np.array(flat, dtype=np.int32), starts
