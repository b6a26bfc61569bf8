r"""Activations beside weights: which rotation carries one model's activations to the other.

A rotation R of the source takes an activation x to x R, so nothing is centred: R minimises
:math:`\sum \|x R - y\|^2` over the same inputs at all sites at once.  Only second moments count.

Source: McCann 2026, "Polymorphism Is Rotation" (arXiv:2605.24577), the joint objective weight MSE +
λ activation MSE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from helpers.alignment.principal import check_pair


@dataclass(frozen=True, eq=False)
class Pull:
    """``constant`` − 2 tr(Rᵀ ``cross``): what activations add to the loss of weights."""

    cross: np.ndarray | float
    constant: float

    def loss(self, R: Float[np.ndarray, "d d"]) -> float:
        """At a rotation."""
        return self.constant - 2 * float(np.sum(R * self.cross))

    def times(self, factor: float | int) -> Pull:
        """λ times it."""
        return Pull(factor * self.cross, factor * self.constant)


NO_PULL = Pull(0.0, 0.0)


def activation_pull(
    X: Mapping[str, Float[np.ndarray, "N d"]],
    Y: Mapping[str, Float[np.ndarray, "N d"]],
    *,
    normalised: bool = False,
) -> Pull:
    """The activation MSE: mean over sites, inputs and coordinates of (x R − y)².

    Late sites are far larger than early ones and decide alone; ``normalised`` divides each site's
    MSE by the mean square of y there, so that predicting zero costs 1 at every site.

    Args:
        X: the source's activations by site, one row an input, such as
            :func:`helpers.cross_model.collect` returns.
        Y: the target's on the same inputs.

    Raises:
        ValueError: other sites, no site, bad activations, or shapes that differ.
    """
    if not X or X.keys() != Y.keys():
        raise ValueError(
            f"both models need the same sites, at least one; got {sorted(X)} and {sorted(Y)}."
        )
    cross, constant = 0.0, 0.0
    for site in X:
        x, y = check_pair(X[site], Y[site])
        share = 1 / (len(X) * (np.square(y).sum() if normalised else y.size))
        cross = cross + share * x.T @ y
        constant += share * float(np.square(x).sum() + np.square(y).sum())
    return Pull(cross, constant)
