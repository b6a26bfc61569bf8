"""The path from the identity to a rotation, by the shortest way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.linalg import schur

from helpers.alignment.haar import check_orthogonal


def geodesic(
    R: Float[np.ndarray, "d d"], t: float | int | Sequence[float] | Float[np.ndarray, " m"]
) -> Float[np.ndarray, "*m d d"]:
    r"""The rotation a fraction ``t`` of the way from the identity to ``R``: :math:`\exp(t \log R)`.

    By the real Schur form R = Z B Zᵀ, B turns in planes by angles θ in (−π, π]; the result turns in
    the same planes by tθ.  So it is orthogonal for every t, I at 0 and R at 1, and its distance
    from I grows evenly: ‖log‖_F = t √(2 Σθ²).  A pair of eigenvalues −1 is a half turn in a plane;
    which way round is then a choice, and one of several shortest paths is taken.

    Args:
        R: a rotation, determinant +1.
        t: a number, usually in [0, 1], or m of them, which share one decomposition.

    Returns:
        (d, d) for a number, (m, d, d) for several.

    Raises:
        ValueError: R is not orthogonal, or reflects (determinant −1): no path of orthogonal
            matrices leads there from the identity; or t is not finite.
    """
    R = check_orthogonal(R)
    if np.linalg.slogdet(R)[0] < 0:
        raise ValueError(
            "R has determinant −1: it reflects, and no path of orthogonal matrices leads there "
            "from the identity. Fit with fit_rotation(..., proper=True)."
        )
    fractions = np.asarray(t, dtype=np.float64)
    if fractions.ndim > 1 or not np.isfinite(fractions).all():
        raise ValueError(f"t must be a finite number or a list of them; got {t!r}.")
    Z, planes, angles = _planes(R)
    d, many = len(R), fractions.reshape(-1)
    turned = np.broadcast_to(np.eye(d), (len(many), d, d)).copy()
    first, second = planes.T if len(planes) else np.empty((2, 0), int)
    cos, sin = np.cos(np.outer(many, angles)), np.sin(np.outer(many, angles))
    turned[:, first, first] = turned[:, second, second] = cos
    turned[:, first, second], turned[:, second, first] = -sin, sin
    return (Z @ turned @ Z.T).reshape(*fractions.shape, d, d)


def _planes(R: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Z (d, d) orthogonal, and the pairs of its columns (p, 2) that R turns, by angles (p,)."""
    B, Z = schur(R, output="real")
    planes, angles, reversed_axes = [], [], []
    column = 0
    while column < len(B):
        # a rotation by θ has ±sin θ beside its diagonal; a lone eigenvalue has only rounding there
        if column + 1 < len(B) and abs(B[column + 1, column]) > 1e-10:
            cosine = (B[column, column] + B[column + 1, column + 1]) / 2
            sine = (B[column + 1, column] - B[column, column + 1]) / 2
            planes.append((column, column + 1))
            angles.append(np.arctan2(sine, cosine))
            column += 2
            continue
        if B[column, column] < 0:
            reversed_axes.append(column)
        column += 1
    # determinant +1: there is an even number of them, and any two make a plane turned by π
    planes += list(zip(reversed_axes[::2], reversed_axes[1::2], strict=True))
    angles += [np.pi] * (len(reversed_axes) // 2)
    return Z, np.array(planes, dtype=int), np.array(angles)
