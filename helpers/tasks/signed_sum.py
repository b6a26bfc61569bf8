"""Sums of several terms modulo p: a + b − c takes two steps where a + b takes one.

The input is n tokens, each in 0…p − 1; the answer, read at the last, is Σ sᵢ xᵢ mod p with signs
s.  A sign of 0 makes a token that does not matter: with signs (1, 1, 0) the model, the inputs and
their number are those of a + b − c, and the task is a + b.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor, nn

from helpers.models import ModelConfig, SmallTransformer
from helpers.tasks.addition import ModularAddition
from helpers.tasks.streams import Shuffled
from helpers.training import AutogradLearner, TrainConfig

MAX_ROWS = 100_000


@dataclass(frozen=True)
class SignedSum:
    """Σ ``signs``ᵢ xᵢ modulo ``p``, over all pⁿ inputs of n = len(``signs``) tokens.

    Args:
        p: the modulus, an odd prime.
        signs: 1, −1 or 0 for each token, not all 0.
        train_fraction: share of the pⁿ inputs that trains.

    Raises:
        ValueError: p is not an odd prime, other signs, more than 100 000 inputs, or a share that
            leaves nothing to train or to test.
    """

    p: int
    signs: tuple[int, ...]
    train_fraction: float = 0.5

    def __post_init__(self) -> None:
        ModularAddition(self.p)  # says what is wrong with p
        if not any(self.signs) or not set(self.signs) <= {1, -1, 0}:
            raise ValueError(f"signs are 1, -1 or 0, and not all 0; got {list(self.signs)}.")
        if self.p ** len(self.signs) > MAX_ROWS:
            raise ValueError(
                f"{self.p}^{len(self.signs)} inputs are more than {MAX_ROWS}: take a smaller p."
            )
        if not 0 < self.n_train < self.p ** len(self.signs):
            raise ValueError(
                f"train_fraction = {self.train_fraction} leaves no input to train or none to test."
            )

    @property
    def n_train(self) -> int:
        """How many inputs train."""
        return round(self.train_fraction * self.p ** len(self.signs))

    @property
    def inputs(self) -> Int[np.ndarray, "rows n"]:
        """All inputs; the last token runs fastest."""
        shape = (self.p,) * len(self.signs)
        return np.stack(np.unravel_index(np.arange(self.p ** len(shape)), shape), axis=1)

    @property
    def answers(self) -> Int[np.ndarray, " rows"]:
        """The answer to every input."""
        return self.inputs @ np.array(self.signs) % self.p

    def split(self, seed: int) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " test"]]:
        """Indices of the inputs that train and that test."""
        order = np.random.default_rng([seed, 2]).permutation(self.p ** len(self.signs))
        return np.sort(order[: self.n_train]), np.sort(order[self.n_train :])

    def spec(self) -> dict[str, Any]:
        """The task as plain numbers."""
        return {"kind": "signed sum", **vars(self), "signs": list(self.signs)}

    def learner(self, model: ModelConfig, config: TrainConfig, seed: int) -> SumLearner:
        """A model at its start.

        Raises:
            ValueError: another vocabulary or context than the task's.
        """
        if (model.d_vocab, model.n_ctx) != (self.p, len(self.signs)):
            raise ValueError(
                f"sums of {len(self.signs)} terms modulo {self.p} need d_vocab = {self.p} and "
                f"n_ctx = {len(self.signs)}; the model has {model.d_vocab} and {model.n_ctx}."
            )
        return SumLearner(self, model, config, seed)

    def batches(self, model: ModelConfig, config: TrainConfig, seed: int) -> SumStream:
        """The training inputs, shuffled anew each epoch."""
        return SumStream(self, config, seed)

    def evaluate(self, learner: SumLearner) -> dict[str, float]:
        """Accuracy on the inputs that train and on those that test."""
        right = learner.right()
        train, test = learner.split
        return {
            "train_accuracy": float(right[train].mean()),
            "test_accuracy": float(right[test].mean()),
        }


def _loss(net: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    tokens, answers = (part.to(net.head.weight.device) for part in batch)
    return F.cross_entropy(net(tokens)[:, -1], answers)


class SumLearner(AutogradLearner):
    """A small transformer, with all inputs of its task and the seed's split."""

    def __init__(self, task: SignedSum, model: ModelConfig, config: TrainConfig, seed: int) -> None:
        super().__init__(SmallTransformer(model, seed, config.dropout), _loss, config)
        self.inputs, self.answers = task.inputs, task.answers
        self.split = task.split(seed)

    @torch.no_grad()
    def right(self) -> np.ndarray:
        """Which answers are right, (rows,) of bool."""
        self.net.eval()
        tokens = torch.from_numpy(self.inputs).to(self.net.head.weight.device)
        parts = [self.net(part)[:, -1].argmax(dim=1).cpu() for part in tokens.split(4096)]
        self.net.train()
        return torch.cat(parts).numpy() == self.answers


class SumStream:
    """Batches (tokens, answers) of training inputs without end."""

    def __init__(self, task: SignedSum, config: TrainConfig, seed: int) -> None:
        rows = task.split(seed)[0]
        self.inputs, self.answers = (
            torch.from_numpy(values[rows]) for values in (task.inputs, task.answers)
        )
        rng = np.random.default_rng([seed, 1])
        self.rows = Shuffled(task.n_train, config.batch_size, rng)

    def __next__(self) -> tuple[Tensor, Tensor]:
        rows = torch.from_numpy(next(self.rows))
        return self.inputs[rows], self.answers[rows]

    def state(self) -> dict[str, Any]:
        """The position."""
        return self.rows.state()

    def load(self, state: dict[str, Any]) -> None:
        """Go to a position."""
        self.rows.load(state)


def from_spec(spec: dict[str, Any]) -> SignedSum:
    """Rebuild a task from :meth:`SignedSum.spec`."""
    values = {name: value for name, value in spec.items() if name != "kind"}
    return SignedSum(**{**values, "signs": tuple(spec["signs"])})
