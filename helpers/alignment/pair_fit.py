"""A pair of models in one line: rotation and affine map, held out, beside shuffled inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from helpers.alignment.maps import fit_affine, fit_rotation
from helpers.alignment.principal import check_pair
from helpers.alignment.variance import explained_variance


@dataclass(frozen=True)
class PairFit:
    """Held-out EV of the maps from A to B, in shares of B's variance over the scored inputs.

    ``rotation`` is R's, ``scaled`` that of R times one fitted number, ``affine`` the affine map's.
    The three of ``null`` are the same maps fitted and scored where B's rows belong to other
    inputs: what two clouds of these shapes give without anything in common.
    """

    rotation: float
    scaled: float
    affine: float
    null: tuple[float, float, float]


def pair_fit(
    acts_A: Float[np.ndarray, "N d"], acts_B: Float[np.ndarray, "N d"], rng: np.random.Generator
) -> PairFit:
    r"""Fit maps from A to B on a random half of the inputs; score them on the other half.

    The maps: a rotation R; :math:`s R` with :math:`s = \mathrm{tr}((XR)^\top Y) / \|X\|_F^2`
    (X and Y centred), which brings A to B's scale; and an affine map.  EV is 1 − (squared error) /
    (B's variance about the fitting half's mean).  R cannot scale, so where nothing is shared its EV
    falls to −(A's variance) / (B's); that of the other two falls to about 0.  Before a LayerNorm
    the scale of a stream hardly changes what a model does, so two models of different scale may
    agree in all that matters and have a low EV of R: then ``scaled`` is the one to read.

    Only what varies over these inputs counts: whatever A and B do elsewhere is not seen.

    Raises:
        ValueError: rows that do not match, bad activations, or fewer than 2 (d + 1) inputs, with
            which half of them would be fitted perfectly by an affine map.
    """
    X, Y = check_pair(acts_A, acts_B)
    N, d = X.shape
    if 2 * (d + 1) > N:
        raise ValueError(
            f"{N} inputs are too few for half of them to fix an affine map of {d} dimensions; give "
            f"at least {2 * (d + 1)}, better ten times as many."
        )
    order = rng.permutation(N)
    fit, score = order[: N // 2], order[N // 2 :]

    def scores(Y: np.ndarray) -> tuple[float, float, float]:
        rotation = fit_rotation(X[fit], Y[fit])
        turned = rotation.apply(X[fit]) - rotation.mean_y
        scale = np.sum(turned * (Y[fit] - rotation.mean_y)) / np.sum(turned**2)
        maps = (
            rotation,
            replace(rotation, R=scale * rotation.R),
            fit_affine(X[fit], Y[fit]),
        )
        return tuple(explained_variance(Y[score], m.apply(X[score]), m.mean_y) for m in maps)

    return PairFit(*scores(Y), null=scores(Y[rng.permutation(N)]))
