r"""Dictionaries that share nothing, for the cosine that a match reaches by chance.

For one direction and n independent uniform ones in R^d, a cosine t has the distribution function
F(t) = I_{(1+t)/2}((d−1)/2, (d−1)/2), a regularised incomplete beta function, and the largest of n

.. math:: \mathbb{E}\max = 1 - \int_{-1}^{1} F(t)^n\, dt .

Trained rows are not uniform: they crowd where the activations are.  So there are two stricter
nulls, one with the decoder's own covariance and one with its coordinates shuffled.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.integrate import quad
from scipy.stats import beta


def expected_max_cosine(n: int, d: int) -> float:
    """E max of the cosines of one direction with n independent uniform ones in R^d, d ≥ 2.

    Raises:
        ValueError: no direction, or fewer than two dimensions.
    """
    if n < 1 or d < 2:
        raise ValueError(f"needs n ≥ 1 directions in d ≥ 2 dimensions; got n = {n}, d = {d}.")
    half = beta((d - 1) / 2, (d - 1) / 2)
    # F^n is a step near the answer: tell the quadrature where its rise is
    rise = 2 * half.ppf(np.array([0.01, 0.5, 0.99]) ** (1 / n)) - 1
    return 1 - quad(lambda t: half.cdf((1 + t) / 2) ** n, -1, 1, points=rise, limit=200)[0]


def random_dictionary(generator: np.random.Generator, n: int, d: int) -> Float[np.ndarray, "n d"]:
    """n independent uniform unit rows in R^d."""
    rows = generator.standard_normal((n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def like_dictionary(
    generator: np.random.Generator, W_dec: Float[np.ndarray, "f d"]
) -> Float[np.ndarray, "f d"]:
    """As many Gaussian rows with the mean and covariance of the rows of ``W_dec``, scaled to unit.

    They lie in the subspace that the decoder prefers, and know nothing else of it.

    Raises:
        ValueError: fewer than two rows.
    """
    if W_dec.ndim != 2 or len(W_dec) < 2:
        raise ValueError(f"a covariance needs rows (f ≥ 2, d); got shape {W_dec.shape}.")
    mean = W_dec.mean(axis=0)
    _, spread, axes = np.linalg.svd(W_dec - mean, full_matrices=False)
    draws = generator.standard_normal((len(W_dec), len(spread)))
    rows = mean + (draws * spread / np.sqrt(len(W_dec))) @ axes
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def shuffled_coordinates(
    generator: np.random.Generator, W_dec: Float[np.ndarray, "f d"]
) -> Float[np.ndarray, "f d"]:
    """The rows with their d coordinates in another order, one order for all rows.

    Every angle within the dictionary stays; which direction of the residual stream it is, does not.
    """
    return W_dec[:, generator.permutation(W_dec.shape[1])]
