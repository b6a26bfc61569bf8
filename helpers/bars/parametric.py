r"""Bar P: how far a model's weights are from the specification's, after alignment.

.. math:: P = \max_T \frac{1}{|T|} \sum_{j} (w_{T,j} - v_{T,j})^2

over tensors T, v being the specification's.  A raw MSE goes with the square of the weights' scale,
so each comes with its share of the specification's mean square: predicting zero reaches 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Tensors = Mapping[str, Any]
"""Named tensors or arrays."""


@dataclass(frozen=True)
class Parametric:
    """MSE by tensor; ``normalised``: each over the mean square of the specification's tensor.

    Where that tensor is all zeros (a bias at its start), the latter is 0 for a model's zeros and
    infinite otherwise.
    """

    mse: Mapping[str, float]
    normalised: Mapping[str, float]

    @property
    def worst(self) -> str:
        """The tensor of the largest MSE."""
        return max(self.mse, key=lambda name: self.mse[name])

    @property
    def value(self) -> float:
        """P: the largest MSE of a tensor."""
        return self.mse[self.worst]

    @property
    def largest_normalised(self) -> float:
        """The largest normalised MSE of a tensor, which may be another one."""
        return max(self.normalised.values())


def parametric(
    spec: Tensors,
    model: Tensors,
    align: Callable[[Tensors, Tensors], Tensors] | None = None,
) -> Parametric:
    """Bar P of named tensors.

    Args:
        spec: the specification's weights.
        model: the model's, under the same names.
        align: from (model, spec) to the model's weights after its best symmetry; None compares raw.

    Raises:
        ValueError: other names or shapes, NaN or infinity, or a tensor without entries.
    """
    found = model if align is None else align(model, spec)
    if set(spec) != set(found) or not spec:
        different = sorted(set(spec) ^ set(found)) or ["no tensor"]
        raise ValueError(f"both sides need the same tensors; look at {different[0]}.")
    mse, normalised = {}, {}
    for name in spec:
        v, w = (np.asarray(side[name], dtype=np.float64) for side in (spec, found))
        if v.shape != w.shape or not (v.size and np.isfinite(v).all() and np.isfinite(w).all()):
            raise ValueError(
                f"{name}: {v.shape} and {w.shape} must be equal, not empty, and all finite."
            )
        square = float(np.square(v).mean())
        mse[name] = float(np.square(w - v).mean())
        normalised[name] = mse[name] / square if square else math.inf if mse[name] else 0.0
    return Parametric(mse, normalised)


def zeros(tensors: Tensors) -> dict[str, np.ndarray]:
    """The null that predicts zero: every normalised MSE is 1."""
    return {name: np.zeros_like(np.asarray(value)) for name, value in tensors.items()}


def shuffled(tensors: Tensors, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """The null whose tensors hold the model's entries in random order; align it as the model."""
    found = {}
    for name, value in tensors.items():
        array = np.asarray(value)
        found[name] = generator.permutation(array.reshape(-1)).reshape(array.shape)
    return found
