"""Modular addition: the task of grokking.

The input is a pair of tokens (a, b), both in 0…p − 1; the answer, read at b, is (a + b) mod p.
A random part of the p² pairs trains, the rest tests.  Source: Schiffman 2026 (the
modular-addition experiment); the task is Power et al. 2022's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from helpers.fast import PairLearner
from helpers.models import ModelConfig
from helpers.tasks.streams import Shuffled
from helpers.training import TrainConfig


@dataclass(frozen=True)
class ModularAddition:
    """Add two numbers modulo ``p``.

    Args:
        p: the modulus, an odd prime, so that every Fourier mode generates the whole cycle.
        train_fraction: share of the p² pairs that trains.
        n_modes: confine the token embedding to so many of the ⌊p/2⌋ Fourier modes and the
            constant, drawn anew for each seed; 0 leaves it free.
        keep_rows: a confined embedding starts with rows of the free one's mean square.  Else each
            mode starts with the size that it has in the free one, and rows are shorter.

    Raises:
        ValueError: p is not an odd prime, a share outside (0, 1), or more modes than there are.
    """

    p: int
    train_fraction: float = 0.5
    n_modes: int = 0
    keep_rows: bool = False

    def __post_init__(self) -> None:
        small = [k for k in range(2, math.isqrt(max(self.p, 0)) + 1) if self.p % k == 0]
        if self.p < 3 or self.p % 2 == 0 or small:
            raise ValueError(f"p must be an odd prime, such as 53; got {self.p}.")
        if not 0 < self.n_train < self.p**2:
            raise ValueError(
                f"train_fraction = {self.train_fraction} leaves no pair to "
                f"{'train' if self.n_train < 1 else 'test'}; take a share such as 0.5."
            )
        if not 0 <= self.n_modes <= self.p // 2:
            raise ValueError(f"there are {self.p // 2} modes modulo {self.p}; got {self.n_modes}.")

    @property
    def n_train(self) -> int:
        """How many pairs train."""
        return round(self.train_fraction * self.p**2)

    @property
    def pairs(self) -> Int[np.ndarray, "pairs 2"]:
        """All pairs (a, b), in the order a · p + b."""
        return np.stack(np.divmod(np.arange(self.p**2), self.p), axis=1)

    @property
    def answers(self) -> Int[np.ndarray, " pairs"]:
        """(a + b) mod p of every pair."""
        return self.pairs.sum(axis=1) % self.p

    def split(self, seed: int) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " test"]]:
        """Indices of the pairs that train and that test."""
        order = np.random.default_rng([seed, 2]).permutation(self.p**2)
        return np.sort(order[: self.n_train]), np.sort(order[self.n_train :])

    def modes(self, seed: int) -> Int[np.ndarray, " n_modes"]:
        """The Fourier modes k in 1…⌊p/2⌋ that the token embedding may use, in order."""
        every = np.arange(1, self.p // 2 + 1)
        if not self.n_modes:
            return every
        return np.sort(np.random.default_rng([seed, 3]).permutation(every)[: self.n_modes])

    def basis(self, seed: int) -> Float[np.ndarray, "p columns"]:
        """Orthonormal columns: the constant, then cosine and sine of each mode in :meth:`modes`."""
        angle = 2 * np.pi / self.p * np.outer(np.arange(self.p), self.modes(seed))
        waves = np.stack([np.cos(angle), np.sin(angle)], axis=2).reshape(self.p, -1)
        return np.hstack([np.ones((self.p, 1)), math.sqrt(2) * waves]) / math.sqrt(self.p)

    def spec(self) -> dict[str, Any]:
        """The task as plain numbers."""
        return {"kind": "addition", **vars(self)}

    def learner(self, model: ModelConfig, config: TrainConfig, seed: int) -> AdditionLearner:
        """A model at its start, with its pairs.

        Raises:
            ValueError: another vocabulary or context than the task's, or dropout.
        """
        if (model.d_vocab, model.n_ctx) != (self.p, 2):
            raise ValueError(
                f"pairs modulo {self.p} need d_vocab = {self.p} and n_ctx = 2; the model has "
                f"{model.d_vocab} and {model.n_ctx}."
            )
        if config.dropout or config.device != "cpu":
            raise ValueError(
                "the fast step has no dropout and works on the CPU: leave dropout at 0 and device "
                "at 'cpu'."
            )
        return AdditionLearner(self, model, config, seed)

    def batches(self, model: ModelConfig, config: TrainConfig, seed: int) -> PairStream:
        """The training pairs, shuffled anew each epoch; ``batch_size`` at most all of them."""
        return PairStream(self, config, seed)

    def evaluate(self, learner: AdditionLearner) -> dict[str, float]:
        """Accuracy on the pairs that train and on those that test."""
        right = learner.accuracy(*learner.every)
        train, test = learner.split
        return {
            "train_accuracy": float(right[train].double().mean()),
            "test_accuracy": float(right[test].double().mean()),
        }


class AdditionLearner(PairLearner):
    """The fast learner, with all pairs of its task and the seed's split."""

    def __init__(
        self, task: ModularAddition, model: ModelConfig, config: TrainConfig, seed: int
    ) -> None:
        basis = torch.from_numpy(task.basis(seed)).float() if task.n_modes else None
        grow = (
            math.sqrt(task.p / (2 * task.n_modes + 1)) if task.n_modes and task.keep_rows else 1.0
        )
        super().__init__(
            model,
            seed,
            betas=config.betas,
            weight_decay=config.weight_decay,
            eps=config.eps,
            clip=config.clip,
            basis=basis,
            code_scale=grow,
        )
        self.every = _tensors(task, np.arange(task.p**2))
        self.split = tuple(map(torch.from_numpy, task.split(seed)))


class PairStream:
    """Batches (a, b, c) of training pairs without end."""

    def __init__(self, task: ModularAddition, config: TrainConfig, seed: int) -> None:
        if config.batch_size > task.n_train:
            raise ValueError(
                f"batch_size = {config.batch_size}, but only {task.n_train} pairs train; "
                f"take at most {task.n_train}, which is the full batch."
            )
        self.pairs = _tensors(task, task.split(seed)[0])
        rng = np.random.default_rng([seed, 1])
        self.rows = Shuffled(task.n_train, config.batch_size, rng)

    def __next__(self) -> tuple[Tensor, Tensor, Tensor]:
        rows = torch.from_numpy(next(self.rows))
        a, b, c = (values[rows] for values in self.pairs)
        return a, b, c

    def state(self) -> dict[str, Any]:
        """The position."""
        return self.rows.state()

    def load(self, state: dict[str, Any]) -> None:
        """Go to a position."""
        self.rows.load(state)


def _tensors(task: ModularAddition, rows: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    """a, b and the answer of these pairs, each in memory of its own."""
    a, b = task.pairs[rows].T
    return tuple(torch.from_numpy(x.copy()) for x in (a, b, task.answers[rows]))


def from_spec(spec: dict[str, Any]) -> ModularAddition:
    """Rebuild a task from :meth:`ModularAddition.spec`."""
    return ModularAddition(**{name: value for name, value in spec.items() if name != "kind"})
