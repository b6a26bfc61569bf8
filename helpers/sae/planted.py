r"""Activations whose features are known: the positive control for every match of dictionaries.

.. math:: x = c\, D + \mu, \qquad c_i = z_i\,(1 + |g_i|/2)

D holds unit rows, more of them than dimensions if wanted; z_i is 1 with probability p/F, so that p
of the F features are active on average; g_i is standard normal.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
from jaxtyping import Float

from helpers.sae.dictionaries import random_dictionary


@dataclass(frozen=True, eq=False)
class Planted:
    """``activations`` (n, d) = ``codes`` (n, F) · ``dictionary`` (F, d) + ``mean`` (d,)."""

    activations: np.ndarray
    codes: np.ndarray
    dictionary: np.ndarray
    mean: np.ndarray


def planted_activations(
    generator: np.random.Generator,
    n: int,
    *,
    active: Real = 5,
    dictionary: Float[np.ndarray, "F d"] | None = None,
    n_features: int = 96,
    d: int = 64,
) -> Planted:
    """n rows in which ``active`` features fire on average; a random dictionary unless given.

    Raises:
        ValueError: no rows, or a number of active features outside (0, F).
    """
    if dictionary is None:
        dictionary = random_dictionary(generator, n_features, d)
    F = len(dictionary)
    if n < 1 or not 0 < active < F:
        raise ValueError(f"needs n ≥ 1 rows and 0 < active < {F}; got n = {n}, active = {active}.")
    fires = generator.random((n, F)) < active / F
    codes = fires * (1 + np.abs(generator.standard_normal((n, F))) / 2)
    mean = 0.3 * generator.standard_normal(dictionary.shape[1])
    return Planted(codes @ dictionary + mean, codes, dictionary, mean)
