r"""One model's SAE on another model's activations: what is fed in, and against what it is scored.

S is the SAE of model A, x_A and x_B are both models' activations at one site on the same tokens,
and g maps B's activations to A's.  A score needs a prediction and a target:

.. math::
    \text{self:}   \quad & S(x_A)           && \text{against } x_A \\
    \text{naive:}  \quad & S(x_B)           && \text{against } x_B \\
    \text{rotated:}\quad & S(g(x_B))        && \text{against } g(x_B) \\
    \text{true:}   \quad & S(g(x_B))        && \text{against } x_A \\
    \text{sent:}   \quad & g^{-1}(S(x_A))   && \text{against } x_B \\
    \text{map:}    \quad & g(x_B)           && \text{against } x_A

*Rotated* asks only whether g(x_B) lies where S reconstructs well, which a Gaussian of the right
covariance does too: nothing in it compares the two models.  *True* and *sent* do: the target is
what the other model really computed on these tokens.  *Map* has no SAE in it, and says how much of
*true* the map alone could reach.  For a rigid g, *rotated* is the same in B's basis, with
g⁻¹(S(g(x_B))) against x_B.

Source: McCann 2026 (arXiv:2605.24577), the naive and the rotated score.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Float

from helpers.alignment.maps import Alignment
from helpers.alignment.variance import explained_variance
from helpers.sae.model import SAE, reconstructed


@dataclass(frozen=True, eq=False)
class Scored:
    """A ``prediction`` (n, d) and the ``target`` (n, d) that it is scored against."""

    prediction: np.ndarray
    target: np.ndarray

    @property
    def ev(self) -> float:
        """Pooled explained variance; the other forms are in :mod:`helpers.alignment.variance`."""
        return explained_variance(self.target, self.prediction)


@dataclass(frozen=True, eq=False)
class Transfer:
    """The six pairs of prediction and target that the module's head defines."""

    self: Scored
    naive: Scored
    rotated: Scored
    true: Scored
    sent: Scored
    map: Scored

    def __iter__(self) -> Iterator[tuple[str, Scored]]:
        for field in fields(Transfer):
            yield field.name, getattr(self, field.name)

    def ev(self) -> dict[str, float]:
        """Pooled explained variance of each."""
        return {name: pair.ev for name, pair in self}


def transfer(
    sae: SAE,
    x_A: Float[np.ndarray, "n d_in"],
    x_B: Float[np.ndarray, "n d_in"],
    to_A: Alignment,
    to_B: Alignment | None = None,
) -> Transfer:
    """Feed ``sae``, model A's, with both models' activations; ``to_A`` is g.

    ``to_B`` is the way back: the inverse of a rotation unless given, and for an affine map one that
    was fitted from A to B.  Take rows on which neither the SAE nor a map was fitted.

    Raises:
        ValueError: activations of different shapes, or no way back.
    """
    if x_A.shape != x_B.shape:
        raise ValueError(
            f"both models need the same tokens, row for row; got {x_A.shape} and {x_B.shape}."
        )
    to_B = to_B or to_A.inverse()
    mapped, own = to_A.apply(x_B), reconstructed(sae, x_A)
    carried = reconstructed(sae, mapped)
    return Transfer(
        self=Scored(own, x_A),
        naive=Scored(reconstructed(sae, x_B), x_B),
        rotated=Scored(carried, mapped),
        true=Scored(carried, x_A),
        sent=Scored(to_B.apply(own), x_B),
        map=Scored(mapped, x_A),
    )
