"""Maps that know less than a fitted rotation: what a good score has to beat.

The identity says what two models share without any fit.  A Haar draw is a wrong basis.  The matched
principal axes know both models' spectra and nothing of which input is which.  In expectation over
its draws, each of the last two explains −(variance of x) / (variance of y): −1 where the two
models' activations have one scale.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from helpers.alignment.haar import haar
from helpers.alignment.maps import Alignment
from helpers.alignment.principal import check_pair, principal_axes


def identity_map(
    X: Float[np.ndarray, "N d"], Y: Float[np.ndarray, "N d"], *, centred: bool = False
) -> Alignment:
    """ŷ = x, the naive map; with ``centred`` ŷ = x − x̄ + ȳ, which grants it the means.

    Raises:
        ValueError: bad activations, or shapes that differ.
    """
    X, Y = check_pair(X, Y)
    d = X.shape[1]
    if centred:
        return Alignment(np.eye(d), X.mean(axis=0), Y.mean(axis=0))
    return Alignment(np.eye(d), np.zeros(d), np.zeros(d))


def haar_map(
    X: Float[np.ndarray, "N d"], Y: Float[np.ndarray, "N d"], generator: np.random.Generator
) -> Alignment:
    """A Haar draw from O(d) between the two means: a basis that has nothing to do with either.

    Raises:
        ValueError: bad activations, or shapes that differ.
    """
    X, Y = check_pair(X, Y)
    return Alignment(haar(generator, X.shape[1], 1)[0], X.mean(axis=0), Y.mean(axis=0))


def principal_axes_map(
    X: Float[np.ndarray, "N d"], Y: Float[np.ndarray, "N d"], generator: np.random.Generator
) -> Alignment:
    """R = V_x S V_yᵀ: the k-th principal axis to the k-th, with random signs S.

    It uses each model's spectrum, never the pairing of their inputs: shuffling the rows of Y leaves
    it as it is.  So it is the null for a rotation that is *shared*.

    Raises:
        ValueError: bad activations, or shapes that differ.
    """
    X, Y = check_pair(X, Y)
    signs = generator.choice([-1.0, 1.0], size=X.shape[1])
    R = (principal_axes(X)[0] * signs) @ principal_axes(Y)[0].T
    return Alignment(R, X.mean(axis=0), Y.mean(axis=0))
