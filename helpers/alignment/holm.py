"""Many tests at once: p-values that keep the chance of any false rejection at the level."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def holm(p: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Holm's adjusted p-values over all entries: reject where they are at most the level.

    The sorted p are multiplied by m, m − 1, …, 1 and kept from falling; the chance of any false
    rejection is then at most the level, however the tests depend on each other (Holm 1979).

    Raises:
        ValueError: no p-value, or one outside [0, 1].
    """
    p = np.asarray(p, dtype=np.float64)
    if not p.size or not ((p >= 0) & (p <= 1)).all():
        raise ValueError("Holm's correction needs p-values, each in [0, 1].")
    order = np.argsort(p, axis=None)
    scaled = p.ravel()[order] * np.arange(p.size, 0, -1)
    adjusted = np.empty(p.size)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1)
    return adjusted.reshape(p.shape)
