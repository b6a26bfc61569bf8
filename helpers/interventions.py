"""Keep, remove or flip a subspace of a layer's activations, and count how many directions matter.

Source: Schiffman 2026 (validate).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float


def project(
    H: Float[np.ndarray, "*batch D"], basis: Float[np.ndarray, "D r"], mean: np.ndarray, mode: str
) -> Float[np.ndarray, "*batch D"]:
    """Intervene on activations: ``keep`` the subspace, ``remove`` it, or ``flip`` it.

    Everything that is ablated goes to ``mean``: pass the layer's mean for mean-ablation, zeros
    for zero-ablation.  With z the part of h − mean inside the subspace: keep gives mean + z,
    remove h − z, flip h − 2z.

    Raises:
        ValueError: an unknown mode, or a basis or mean of another layer's dimension.
    """
    D = np.shape(H)[-1:]
    if np.ndim(basis) != 2 or np.shape(basis)[:1] != D or np.shape(mean)[-1:] != D:
        raise ValueError(
            f"activations (…, D), basis (D, r) and mean (D,) must share D; got {np.shape(H)}, "
            f"{np.shape(basis)} and {np.shape(mean)}. Take all three from one layer."
        )
    z = (H - mean) @ basis @ basis.T
    if mode == "keep":
        return mean + z
    if mode == "remove":
        return H - z
    if mode == "flip":
        return H - 2 * z
    raise ValueError(f"mode must be 'keep', 'remove' or 'flip'; got {mode!r}.")


def sufficient_rank(
    scores: Float[np.ndarray, " m"], base: float, tolerance: float = 1e-3
) -> int | None:
    """Smallest r whose *keep* score is within ``tolerance`` of ``base``; None if there is none.

    ``scores[r - 1]`` is the score with the leading r directions kept (accuracy, 0…1).
    """
    good = np.flatnonzero(np.asarray(scores) >= base - tolerance)
    return int(good[0]) + 1 if len(good) else None


def necessary_rank(scores: Float[np.ndarray, " m"], ceiling: float) -> int | None:
    """Smallest r whose *removal* brings the score to ``ceiling`` or below; None if there is none.

    ``scores[r - 1]`` is the score with the leading r directions removed (accuracy, 0…1).
    """
    good = np.flatnonzero(np.asarray(scores) <= ceiling)
    return int(good[0]) + 1 if len(good) else None


def rank_curve(
    H: Float[np.ndarray, "N D"],
    basis: Float[np.ndarray, "D m"],
    mean: np.ndarray,
    mode: str,
    score: Callable[[np.ndarray], float],
) -> Float[np.ndarray, " m"]:
    """``score`` of the activations after :func:`project` on the leading 1, 2, …, m directions."""
    ranks = range(1, basis.shape[1] + 1)
    return np.array([score(project(H, basis[:, :r], mean, mode)) for r in ranks])
