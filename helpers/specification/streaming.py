"""KL of a specification against a model, over as many positions as one likes, a block at a time.

One sample is one position.  Rows are drawn afresh, so nothing is kept but sums by row: positions of
one row depend on each other, and intervals must resample rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from helpers.dyck.model import OUTPUTS, SMALL, position_features
from helpers.fast.ragged import Ragged, Tokens
from helpers.models import ModelConfig
from helpers.tasks import dyck
from helpers.tasks.dyck import Labels

DISTRIBUTIONS = {
    "training": dyck.train_rows,
    "compositional": dyck.compositional_rows,
    "long": dyck.long_rows,
}
"""Rows as in training, and the two kinds that were held out: functions of (rng, n)."""
BLOCK = 512
"""Rows at a time: the model's activations on them stay near the processor."""

Logits = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Of (rows, mask): logits at the real positions (positions, 51), row by row."""


@runtime_checkable
class Specification(Protocol):
    """What a model can be held against: :class:`Exact` or :class:`Constructive`."""

    def kl(self, rows: np.ndarray, labels: Labels, logits: np.ndarray) -> np.ndarray:
        """KL(specification ‖ model) at every real position, by output (positions, 3), in nats."""


def blocks(
    draw: Callable[[np.random.Generator, int], np.ndarray],
    positions: int,
    generator: np.random.Generator,
) -> Iterator[tuple[Int[np.ndarray, "n 64"], Labels]]:
    """Rows with their right answers until exactly so many real positions were given.

    Of the last row perhaps a first part counts only.

    Raises:
        ValueError: no position.
    """
    if positions < 1:
        raise ValueError(f"ask for at least one position; got {positions}.")
    while positions:
        rows = draw(generator, BLOCK)
        labels = dyck.label(rows)
        behind = np.cumsum(labels.mask).reshape(labels.mask.shape)
        mask = labels.mask & (behind <= positions)
        some = mask.any(axis=1)
        positions -= int(mask.sum())
        parts = {name: getattr(labels, name)[some] for name in OUTPUTS}
        yield rows[some], replace(labels, **parts, mask=mask[some])


def fast_logits(state: dict[str, Tensor], config: ModelConfig = SMALL) -> Logits:
    """The bracket model without padding, compiled, in single precision and one thread.

    Raises:
        ValueError: weights that are not single precision.
    """
    if state["head.weight"].dtype != torch.float32:
        raise ValueError("the compiled passes take float32 weights; use module_logits for others.")
    net = Ragged(state, config.n_heads, position_features(config.n_ctx))

    def logits(rows: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return net.forward(Tokens.of(rows, mask))

    return logits


def module_logits(module: nn.Module) -> Logits:
    """Any module from tokens (n, pos) to logits (n, pos, 51); short rows run without long ones."""

    @torch.no_grad()
    def logits(rows: np.ndarray, mask: np.ndarray) -> np.ndarray:
        lengths = mask.sum(axis=1)
        ends = np.cumsum(lengths)
        order, found = np.argsort(lengths, kind="stable"), None
        for some in np.array_split(order, -(-len(rows) // 64)):
            longest = lengths[some].max()
            out = module(torch.from_numpy(rows[some, :longest])).cpu().numpy()
            if found is None:
                found = np.empty((ends[-1], out.shape[2]), out.dtype)
            for i, values in zip(some, out, strict=True):
                found[ends[i] - lengths[i] : ends[i]] = values[: lengths[i]]
        return found

    return logits


@dataclass(frozen=True, eq=False)
class Divergence:
    """Mean KL(specification ‖ model) in nats, by output, over ``n`` positions.

    ``rows`` (r, 3) holds the sums by row, ``lengths`` (r,) its numbers of positions, for intervals
    over rows.  ``constant`` is the loss of the best constant answer by output: the entropy of the
    right answers' frequencies in these very rows.
    """

    kl: Mapping[str, float]
    n: int
    rows: np.ndarray
    lengths: np.ndarray
    constant: Mapping[str, float]

    @property
    def value(self) -> float:
        """Mean over positions and outputs: the paper's bar B."""
        return float(np.mean(list(self.kl.values())))

    @property
    def constant_value(self) -> float:
        """What the best constant answer gets."""
        return float(np.mean(list(self.constant.values())))

    @property
    def standard_error(self) -> float:
        """Of :attr:`value`, with rows as the independent units (ratio of sums, linearised)."""
        sums = self.rows.mean(axis=1)
        return float(np.linalg.norm(sums - self.value * self.lengths) / self.n)


def divergence(
    specification: Specification,
    logits: Logits,
    draw: Callable[[np.random.Generator, int], np.ndarray],
    positions: int,
    generator: np.random.Generator,
) -> Divergence:
    """Hold a model against a specification on fresh rows of one of ``DISTRIBUTIONS``.

    Raises:
        ValueError: no position, or what the specification refuses.
    """
    sums, lengths = [], []
    counts = {name: np.zeros(part.stop - part.start, np.int64) for name, part in OUTPUTS.items()}
    for rows, labels in blocks(draw, positions, generator):
        found = specification.kl(rows, labels, logits(rows, labels.mask))
        n = labels.mask.sum(axis=1)
        sums.append(np.add.reduceat(found, np.cumsum(n) - n, axis=0))
        lengths.append(n)
        for name, count in counts.items():
            count += np.bincount(getattr(labels, name)[labels.mask], minlength=len(count))
    by_row = np.concatenate(sums)
    means = by_row.sum(axis=0) / positions
    return Divergence(
        kl={name: float(mean) for name, mean in zip(OUTPUTS, means, strict=True)},
        n=positions,
        rows=by_row,
        lengths=np.concatenate(lengths),
        constant={name: _entropy(count) for name, count in counts.items()},
    )


def _entropy(counts: Float[np.ndarray, " k"] | Int[np.ndarray, " k"]) -> float:
    share = counts[counts > 0] / counts.sum()
    return -math.fsum(share * np.log(share))
