"""Modular addition whose token embedding starts in given Fourier modes, or stays in them.

Left alone, a seed settles on frequencies of its own.  Here they are given: the same ones for
several seeds, each in a random frame of its own, or sets that have none in common.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int

from helpers.fast.parameters import TOKENS
from helpers.models import ModelConfig
from helpers.tasks.addition import AdditionLearner, ModularAddition, PairStream
from helpers.training import TrainConfig


@dataclass(frozen=True)
class ChosenModes:
    r"""Add two numbers modulo ``p``, with the token embedding in the modes ``chosen``.

    The embedding starts as :math:`W_E = F F^\top W \sqrt{p / (2m + 1)}`: W is the free one's
    Gaussian start, which the seed draws, and F (p, 2m + 1) holds the constant and the waves of the
    m modes.  So each wave lies in a random direction, and rows have the free start's mean square.

    Args:
        p: the modulus, an odd prime.
        chosen: modes k in 1…⌊p/2⌋, in order, each once.
        confined: the embedding never leaves the span of F; else it is free after its start.
        train_fraction: share of the p² pairs that trains.

    Raises:
        ValueError: no mode, one outside 1…⌊p/2⌋, modes out of order or twice; or as
            :class:`helpers.tasks.addition.ModularAddition`.
    """

    p: int
    chosen: tuple[int, ...]
    confined: bool = False
    train_fraction: float = 0.5

    def __post_init__(self) -> None:
        half = self.free.p // 2
        there = sorted(set(self.chosen) & set(range(1, half + 1)))
        if not self.chosen or list(self.chosen) != there:
            raise ValueError(
                f"chosen modes are ascending numbers in 1…{half}, each once; got "
                f"{list(self.chosen)}."
            )

    @property
    def free(self) -> ModularAddition:
        """The task without the choice: the same pairs, answers and splits."""
        return ModularAddition(self.p, self.train_fraction)

    def spec(self) -> dict[str, Any]:
        """The task as plain numbers."""
        return {"kind": "chosen modes", **vars(self), "chosen": list(self.chosen)}

    def learner(self, model: ModelConfig, config: TrainConfig, seed: int) -> AdditionLearner:
        """A model at its start, with its pairs.

        Raises:
            ValueError: as :meth:`helpers.tasks.addition.ModularAddition.learner`.
        """
        if self.confined:
            confined = _Confined(self.p, self.train_fraction, len(self.chosen), True, self.chosen)
            return confined.learner(model, config, seed)
        learner = self.free.learner(model, config, seed)
        F = torch.from_numpy(waves(self.p, self.chosen)).float()
        W_E = learner.net.parameters.values[TOKENS]
        W_E.copy_(F @ (F.T @ W_E) * math.sqrt(self.p / F.shape[1]))
        return learner

    def batches(self, model: ModelConfig, config: TrainConfig, seed: int) -> PairStream:
        """The training pairs, as without the choice."""
        return self.free.batches(model, config, seed)

    def evaluate(self, learner: AdditionLearner) -> dict[str, float]:
        """Accuracy on the pairs that train and on those that test."""
        return self.free.evaluate(learner)


@dataclass(frozen=True)
class _Confined(ModularAddition):
    """The fast learner's confined embedding, in modes that are given and not drawn."""

    chosen: tuple[int, ...] = ()

    def modes(self, seed: int) -> Int[np.ndarray, " n_modes"]:
        return np.array(self.chosen)


def waves(p: int, modes: tuple[int, ...]) -> Float[np.ndarray, "p columns"]:
    """Orthonormal columns (p, 2m + 1): the constant, then cosine and sine of each mode."""
    return _Confined(p, n_modes=len(modes), chosen=modes).basis(0)


def disjoint_modes(
    p: int, n_sets: int, size: int, rng: np.random.Generator
) -> list[tuple[int, ...]]:
    """Random sets of ``size`` modes each, no mode in two of them.

    Raises:
        ValueError: more modes than the ⌊p/2⌋ that there are.
    """
    if not 1 <= n_sets * size <= p // 2:
        raise ValueError(
            f"{n_sets} disjoint sets of {size} need {n_sets * size} modes; modulo {p} there are "
            f"{p // 2}. Take smaller sets."
        )
    drawn = rng.permutation(np.arange(1, p // 2 + 1))[: n_sets * size]
    return [tuple(sorted(part.tolist())) for part in drawn.reshape(n_sets, size)]


def from_spec(spec: dict[str, Any]) -> ChosenModes:
    """Rebuild a task from :meth:`ChosenModes.spec`."""
    values = {name: value for name, value in spec.items() if name != "kind"}
    return ChosenModes(**{**values, "chosen": tuple(spec["chosen"])})
