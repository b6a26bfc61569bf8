r"""What a model is asked, and its loss by row: what every effect in this package is measured in.

With ℓ(i, t) the loss (nats) of row i at position t, summed over the outputs, and A the positions
where something is asked, the loss is

.. math:: L = \frac{1}{|A|} \sum_{(i,t) \in A} \ell(i, t).

Rows are kept apart throughout, so that any batch is a sum over rows, and an interval resamples
them.  Models are causal: what stands behind the last position that is asked is never computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from helpers.dyck.model import OUTPUTS
from helpers.tasks.dyck import label

ALL = {"next token": slice(None)}


@dataclass(frozen=True, eq=False)
class Objective:
    """Rows with what is asked of them.

    Args:
        tokens: (n, pos).
        asked: (n, pos) of bool; every row must ask something.
        losses: from logits (b, p, v) of rows (b,), p ≤ pos, to ℓ (b, p) in nats.

    Raises:
        ValueError: shapes that differ, or a row that asks nothing.
    """

    tokens: Int[Tensor, "n pos"]
    asked: Bool[Tensor, "n pos"]
    losses: Callable[[Tensor, Tensor], Tensor]

    def __post_init__(self) -> None:
        if self.tokens.shape != self.asked.shape or not len(self.tokens):
            raise ValueError(
                f"tokens {tuple(self.tokens.shape)} and asked {tuple(self.asked.shape)} must be of "
                "the same rows, at least one."
            )
        silent = torch.nonzero(~self.asked.any(dim=1)).flatten()
        if len(silent):
            raise ValueError(f"row {int(silent[0])} asks nothing: leave it out.")

    @property
    def counts(self) -> Int[np.ndarray, " n"]:
        """Positions that each row asks."""
        return self.asked.sum(dim=1).cpu().numpy()

    @property
    def seen(self) -> Bool[Tensor, "n pos"]:
        """Positions up to the last that a row asks: all that its loss depends on."""
        return self.asked.flip(1).cumsum(dim=1).flip(1) > 0

    def row_losses(
        self, logits: Float[Tensor, "b p v"], rows: Int[Tensor, " b"]
    ) -> Float[Tensor, " b"]:
        """Σ_t ℓ(i, t) over what row i asks, in double; logits end behind the last such position."""
        asked = self.asked[rows, : logits.shape[1]]
        return torch.where(asked, self.losses(logits.double(), rows), 0.0).sum(dim=1)

    def blocks(self, size: int) -> Iterator[tuple[Int[Tensor, " b"], int]]:
        """Rows (at most ``size``) of similar length, and where the last of them stops asking."""
        ends = self.seen.sum(dim=1)
        for rows in torch.argsort(ends, stable=True).split(size):
            yield rows, int(ends[rows].max())


def from_answers(
    tokens: Int[Tensor, "n pos"],
    answers: Int[Tensor, "n pos k"],
    asked: Bool[Tensor, "n pos"],
    outputs: Mapping[str, slice] = ALL,
) -> Objective:
    """Cross-entropy with right answers, summed over k outputs; each is a slice of the logits.

    Raises:
        ValueError: answers of other rows, or for another number of outputs.
    """
    if answers.shape != (*tokens.shape, len(outputs)):
        raise ValueError(
            f"answers must be {(*tokens.shape, len(outputs))}, one for each of the outputs "
            f"{', '.join(outputs)}; got {tuple(answers.shape)}."
        )

    def losses(logits: Tensor, rows: Tensor) -> Tensor:
        right = answers[rows, : logits.shape[1]]
        parts = [
            F.cross_entropy(logits[:, :, part].transpose(1, 2), right[:, :, k], reduction="none")
            for k, part in enumerate(outputs.values())
        ]
        return torch.stack(parts).sum(dim=0)

    return Objective(tokens, asked, losses)


def next_token(tokens: Int[Tensor, "n pos"]) -> Objective:
    """Each token but the first is asked for at the position before it."""
    asked = torch.ones_like(tokens, dtype=torch.bool)
    asked[:, -1] = False
    return from_answers(tokens, tokens.roll(-1, dims=1)[:, :, None], asked)


def last_position(tokens: Int[Tensor, "n pos"], answers: Int[Tensor, " n"]) -> Objective:
    """One answer a row, asked for at its last position, as in modular addition."""
    asked = torch.zeros_like(tokens, dtype=torch.bool)
    asked[:, -1] = True
    return from_answers(tokens, answers[:, None, None].expand(*tokens.shape, 1), asked)


def brackets(rows: Int[np.ndarray, "n pos"]) -> Objective:
    """Copy, depth and sticky flag of rows of :mod:`helpers.tasks.dyck`, at all real positions."""
    labels = label(rows)
    answers = np.stack([getattr(labels, name) for name in OUTPUTS], axis=2)
    tokens, right, mask = (torch.from_numpy(a) for a in (labels.copy, answers, labels.mask))
    return from_answers(tokens, right, mask, OUTPUTS)
