r"""Do the same features fire on the same tokens?  Pearson's r of codes, feature by feature.

For features i of one code F and their partners π(i) in another code G, both on the same n tokens,

.. math:: r_i = \mathrm{corr}_n\bigl(F_{ni},\, G_{n\pi(i)}\bigr).

The paper's two numbers have one SAE S and π(i) = i: F = S(x_A), and G = S(x_B) raw or
S(g(x_B)) rotated.

Source: McCann 2026 (arXiv:2605.24577).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

BLOCK = 256
"""Features at a time."""


@dataclass(frozen=True, eq=False)
class Firing:
    """``r`` (pairs,), NaN where either feature is constant: r is not defined there.

    ``silent_one`` and ``silent_two`` (pairs,) mark features that never fire in that code, and
    ``varies_one`` those that are not constant in the first.
    """

    r: np.ndarray
    silent_one: np.ndarray
    silent_two: np.ndarray
    varies_one: np.ndarray

    @property
    def n_defined(self) -> int:
        """Pairs with an r."""
        return int(np.isfinite(self.r).sum())

    @property
    def n_excluded(self) -> int:
        """Pairs without."""
        return len(self.r) - self.n_defined

    @property
    def mean(self) -> float:
        """Mean r over pairs that have one; NaN if none has.

        A feature that falls silent on the other model is left out, which flatters.
        """
        return float(np.nanmean(self.r)) if self.n_defined else float("nan")

    @property
    def mean_silent_zero(self) -> float:
        """Mean r over the features that vary in the first code, 0 where the partner is constant."""
        counted = np.nan_to_num(self.r[self.varies_one])
        return float(counted.mean()) if len(counted) else float("nan")


def firing_correlation(
    F: Float[np.ndarray, "n f"],
    G: Float[np.ndarray, "n g"],
    partner: Int[np.ndarray, " f"] | None = None,
) -> Firing:
    """Pearson's r of every column of ``F`` with its ``partner`` column of ``G``, itself unless
    given.

    Raises:
        ValueError: different numbers of tokens, fewer than two, NaN or infinity, or partners that
            are not columns of G.
    """
    if F.ndim != 2 or G.ndim != 2 or len(F) != len(G) or len(F) < 2:
        raise ValueError(
            f"codes must be (n, f) and (n, g) on the same n ≥ 2 tokens; got {F.shape}, {G.shape}."
        )
    if not (np.isfinite(F).all() and np.isfinite(G).all()):
        raise ValueError("a code holds NaN or infinity: look at the activations it was made from.")
    partner = np.arange(F.shape[1]) if partner is None else np.asarray(partner)
    if partner.shape != (F.shape[1],) or partner.min() < 0 or partner.max() >= G.shape[1]:
        raise ValueError(
            f"every one of the {F.shape[1]} features needs a partner among 0…{G.shape[1] - 1}; "
            f"got shape {partner.shape}. For SAEs of different sizes give the match's partners."
        )
    r, spread = np.empty(F.shape[1]), np.empty((2, F.shape[1]))
    for start in range(0, F.shape[1], BLOCK):  # codes are large, and centred ones not sparse
        block = slice(start, start + BLOCK)
        (one, spread[0, block]), (two, spread[1, block]) = (
            _centred(F[:, block]),
            _centred(G[:, partner[block]]),
        )
        r[block] = np.einsum("nf,nf->f", one, two)
    both = spread.prod(axis=0)
    return Firing(
        r=np.clip(np.where(both > 0, r / np.where(both > 0, both, 1), np.nan), -1, 1),
        silent_one=~F.any(axis=0),
        silent_two=~G.any(axis=0)[partner],
        varies_one=spread[0] > 0,
    )


def _centred(code: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centred columns and their lengths, which are exactly 0 for a constant column."""
    code = code.astype(np.float64)
    length = np.linalg.norm(centred := code - code.mean(axis=0), axis=0)
    return centred, np.where(np.ptp(code, axis=0) == 0, 0.0, length)
