r"""Uniform draws from the orthogonal group O(d) and from its two halves.

O(d) has two connected halves: SO(d), the rotations (determinant +1), and those that also reflect
(determinant −1), here ``"O-"``.  Haar measure on O(d) is an even mixture of the Haar measures on
the two.  The halves differ in what they force on the spectrum:

===========  ==========  ====================
determinant  d           forced eigenvalues
===========  ==========  ====================
+1           even        none
+1           odd         one +1
−1           even        one +1 and one −1
−1           odd         one −1
===========  ==========  ====================

All other eigenvalues come in pairs exp(±iθ).  So a fitted matrix is compared with draws of its own
determinant: if it were Haar on O(d), it would be Haar on that half given its determinant, and the
comparison loses nothing.  Moments of entries of a degree below d are the same on both halves.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Float

Group = Literal["O", "SO", "O-"]
GROUPS = ("O", "SO", "O-")


def haar(
    generator: np.random.Generator, d: int, n: int, group: str = "O"
) -> Float[np.ndarray, "n d d"]:
    r"""``n`` Haar draws from O(d), from SO(d), or from its other half ``"O-"``.

    QR of a Gaussian matrix, with the signs of R's diagonal moved into Q (Mezzadri 2007,
    arXiv:math-ph/0609050); for a half, the first row of a draw from the other one changes its sign,
    which maps one half onto the other and keeps the measure.  As ``scipy.stats.ortho_group``, for
    many draws at once.

    Raises:
        ValueError: d or n below 1, or an unknown group.
    """
    if d < 1 or n < 1:
        raise ValueError(f"Haar draws need d ≥ 1 and n ≥ 1; got d = {d}, n = {n}.")
    if group not in GROUPS:
        raise ValueError(f"the group must be one of {GROUPS}; got {group!r}.")
    Q, upper = np.linalg.qr(generator.standard_normal((n, d, d)))
    # without this the draws are not uniform: LAPACK's own signs depend on the columns
    Q *= np.sign(np.diagonal(upper, axis1=1, axis2=2))[:, None, :]
    if group != "O":
        wanted = 1 if group == "SO" else -1
        Q[np.linalg.slogdet(Q)[0] != wanted, 0] *= -1
    return Q


def check_orthogonal(R: np.ndarray, tolerance: float = 1e-6) -> np.ndarray:
    """``R`` as float64: one orthogonal matrix (d, d), or a stack (n, d, d), with d ≥ 2.

    Raises:
        ValueError: not square, NaN or infinity, or R Rᵀ away from the identity by more than
            ``tolerance`` in an entry.
    """
    R = np.asarray(R, dtype=np.float64)
    if R.ndim not in (2, 3) or R.shape[-1] != R.shape[-2] or R.shape[-1] < 2 or not R.size:
        raise ValueError(f"need an orthogonal matrix (d, d) with d ≥ 2; got shape {R.shape}.")
    if not np.isfinite(R).all():
        raise ValueError("the matrix holds NaN or infinity. Look at the fit that made it.")
    off = np.abs(R @ np.swapaxes(R, -1, -2) - np.eye(R.shape[-1])).max()
    if off > tolerance:
        raise ValueError(
            f"the matrix is not orthogonal: R Rᵀ differs from the identity by up to {off:.2g}. "
            "Take R from fit_rotation; an affine map is none."
        )
    return R


def component(R: Float[np.ndarray, "d d"]) -> Group:
    """``"SO"`` or ``"O-"``: the half of O(d) that ``R`` lies in, by its determinant.

    Raises:
        ValueError: R is not orthogonal.
    """
    return "SO" if np.linalg.slogdet(check_orthogonal(R))[0] > 0 else "O-"
