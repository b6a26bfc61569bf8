"""Rows of tokens from whole documents, and splits that keep documents whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from helpers.pretrained.model import Pretrained
from helpers.tasks.prose import Document


@dataclass(frozen=True, eq=False)
class Rows:
    """Token rows, and for each the number of the document that it was cut from."""

    tokens: Int[np.ndarray, "n pos"]
    document: Int[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.tokens)

    def take(self, rows: Int[np.ndarray, " some"]) -> Rows:
        """These rows alone."""
        return Rows(self.tokens[rows], self.document[rows])


def token_rows(
    documents: Sequence[Document], model: Pretrained, n_pos: int, *, n: int | None = None
) -> Rows:
    """All rows of ``n_pos`` tokens that the documents hold without overlap; at most ``n``.

    Document after document; what is left at a document's end and fills no row is dropped.

    Raises:
        ValueError: there are fewer than ``n`` rows, or none, or rows longer than the model reads.
    """
    longest = getattr(model.model.config, "max_position_embeddings", n_pos)
    if not 1 <= n_pos <= longest:
        raise ValueError(f"rows have 1 to {longest} tokens for {model.name}; got n_pos = {n_pos}.")
    tokens, which = [], []
    for number, row in enumerate(model.to_tokens([document.text for document in documents])):
        whole = len(row) // n_pos
        tokens.append(np.array(row[: whole * n_pos], dtype=np.int64).reshape(whole, n_pos))
        which += [number] * whole
    if not which or len(which) < (n or 0):
        raise ValueError(
            f"{len(documents)} documents give {len(which)} rows of {n_pos} tokens, fewer than "
            f"{n or 1}: take shorter rows, or more documents."
        )
    return Rows(np.concatenate(tokens)[:n], np.array(which)[:n])


def split_documents(
    rows: Rows, shares: Sequence[float | int], generator: np.random.Generator
) -> list[Int[np.ndarray, " some"]]:
    """Row numbers of parts with about these shares of the rows; no document is in two of them.

    Documents come in random order, large ones first where they fill a fiftieth of all rows, and
    each goes to the part that lacks most of its share.

    Raises:
        ValueError: shares that are not positive, or too few documents to give each part one.
    """
    want = np.asarray(shares, dtype=float)
    numbers, sizes = np.unique(rows.document, return_counts=True)
    if want.ndim != 1 or not len(want) or (want <= 0).any() or len(numbers) < len(want):
        raise ValueError(
            f"{len(numbers)} documents do not split into parts with the shares {list(shares)}: "
            "shares are above 0, and each part needs a document."
        )
    want = want / want.sum()
    order = generator.permutation(len(numbers))
    large = sizes[order] * 50 >= len(rows)
    order = np.concatenate(
        [order[large][np.argsort(-sizes[order][large], kind="stable")], order[~large]]
    )
    has, part = np.zeros(len(want)), np.empty(len(numbers), dtype=int)
    for place, document in enumerate(order):
        empty = np.flatnonzero(has == 0)
        must = len(order) - place <= len(empty)  # the last ones go where there is none yet
        chosen = empty[0] if must else int(np.argmax(want - has / len(rows)))
        part[document] = chosen
        has[chosen] += sizes[document]
    of_row = part[np.searchsorted(numbers, rows.document)]
    return [np.flatnonzero(of_row == number) for number in range(len(want))]
