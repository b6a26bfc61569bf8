"""What bar P reads: the MSE of every tensor, the largest, and both in units of the target; nulls.

A raw MSE depends on the weights' scale, so each comes with its share of the target's mean square:
1 is what predicting zero reaches.

Source: McCann 2026, "Polymorphism Is Rotation" (arXiv:2605.24577), bar P.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from helpers.bars.parametric import Parametric, parametric
from helpers.dyck.model import OUTPUTS
from helpers.symmetry.weights import Weights, check_pair


@dataclass(frozen=True)
class Errors(Parametric):
    """Bar P after an alignment; ``pooled``: all squared errors over all squares of the target."""

    pooled: float

    @property
    def mean(self) -> float:
        """Mean over tensors of their MSEs: what the alignment minimises."""
        return sum(self.mse.values()) / len(self.mse)


def errors(found: Weights, target: Weights) -> Errors:
    """How far weights are from the target's.

    Raises:
        ValueError: models of different sizes, or a target with a tensor of zeros.
    """
    check_pair(found, target)
    ours, theirs = found.tensors(), target.tensors()
    empty = [name for name, value in theirs.items() if not value.any()]
    if empty:
        raise ValueError(f"the target's {empty[0]} is all zeros: nothing to normalise by.")
    bar = parametric(theirs, ours)
    total = sum(bar.mse[name] * value.size for name, value in theirs.items())
    whole = sum(float(np.square(value).sum()) for value in theirs.values())
    return Errors(bar.mse, bar.normalised, total / whole)


def zero(target: Weights) -> Errors:
    """The null that predicts zero for every weight: every normalised MSE is 1."""
    empty = {f.name: np.zeros_like(getattr(target, f.name)) for f in fields(target)}
    return errors(Weights(**empty), target)


def entry_shuffled(weights: Weights, generator: np.random.Generator) -> Weights:
    """A null model: the entries of every tensor in random order.

    Each tensor keeps its distribution of entries, and nothing else; ``W_Q`` of a layer is one
    tensor, as bar P has it.  Align it as any other source.
    """

    def shuffled(value: np.ndarray) -> np.ndarray:
        return generator.permutation(value.reshape(-1)).reshape(value.shape)

    parts = {}
    for field in fields(weights):
        value = getattr(weights, field.name)
        if value.ndim > 2:  # by layer
            parts[field.name] = np.stack([shuffled(layer) for layer in value])
        elif field.name == "W_U":
            parts[field.name] = np.concatenate(
                [shuffled(value[:, part]) for part in OUTPUTS.values()], axis=1
            )
        else:
            parts[field.name] = shuffled(value)
    return Weights(**parts)
