r"""Eigenangles of orthogonal matrices, the traces of their powers, and statistics of both.

The eigenvalues of a real orthogonal R are exp(±iθ), so the symmetric part (R + Rᵀ)/2 has the
eigenvalues cos θ, each pair twice.  They give everything here, and cost a fraction of R's own
eigenvalues: :math:`\mathrm{Tr} R^k = \sum_j \cos k\theta_j`.

Eigenvalues of Haar matrices repel each other, so their angles are spread much more evenly than
independent uniform ones.  A Kolmogorov–Smirnov test of the angles supposes independence: it gives
p ≈ 1 to Haar draws, and to anything else that is spread evenly, such as a cyclic shift.
"""

from __future__ import annotations

import numpy as np
import scipy.stats
from jaxtyping import Float

from helpers.alignment.haar import check_orthogonal


def cosines(R: Float[np.ndarray, "*n d d"]) -> Float[np.ndarray, "*n d"]:
    """cos θ of all d eigenvalues exp(iθ), ascending: the eigenvalues of (R + Rᵀ)/2."""
    return np.clip(np.linalg.eigvalsh((R + np.swapaxes(R, -1, -2)) / 2), -1, 1)


def eigenangles(R: Float[np.ndarray, "d d"]) -> Float[np.ndarray, " d"]:
    """The angles θ of the eigenvalues exp(iθ) in (−π, π], ascending, as scipy's eigenvalues give.

    Angles near 0 and π are good to about 1e-8, where the cosine is flat; others to rounding.

    Raises:
        ValueError: R is not orthogonal.
    """
    R = check_orthogonal(R)
    if R.ndim != 2:
        raise ValueError(f"eigenangles takes one matrix (d, d); got shape {R.shape}.")
    sizes = np.arccos(cosines(R))[::-1].copy()  # each pair twice, ascending
    reflects = np.linalg.slogdet(R)[0] < 0
    # what the determinant forces stands alone: +1 comes first, −1 last (see helpers.alignment.haar)
    start = int(reflects != (len(sizes) % 2 == 1))
    end = len(sizes) - int(reflects)
    if start:
        sizes[0] = 0
    if reflects:
        sizes[-1] = np.pi
    sizes[start:end:2] *= -1
    return np.sort(sizes)


def power_traces(cos: Float[np.ndarray, "*n d"], count: int) -> Float[np.ndarray, "*n count"]:
    """Tr Rᵏ for k = 1 … ``count``, from the cosines of R's eigenangles."""
    theta = np.arccos(cos)
    return np.stack([np.cos(k * theta).sum(axis=-1) for k in range(1, count + 1)], axis=-1)


def trace_statistic(traces: Float[np.ndarray, "n K"]) -> Float[np.ndarray, " n"]:
    r""":math:`T_K = \sum_{k \le K} (\mathrm{Tr} R^k - [k\ \text{even}])^2 / k`.

    For Haar R on O(d), and on either half of it, the traces of powers far below d are nearly
    independent normals of mean [k even] and variance k (Diaconis & Shahshahani 1994, On the
    eigenvalues of random matrices), so T_K is nearly χ² with K degrees of freedom.
    """
    k = np.arange(1, traces.shape[-1] + 1)
    return np.sum((traces - (k % 2 == 0)) ** 2 / k, axis=-1)


def kuiper(cos: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    r"""Kuiper's V = D⁺ + D⁻ of the eigenangles against the uniform circle, in (0, 1].

    D⁺ and D⁻ are how far the angles' distribution function rises above the uniform one and falls
    below it.  Their sum does not depend on where the circle is cut.
    """
    theta = np.arccos(cos)
    # ±θ for each of the d cosines: every pair counts twice, so each point weighs 1/(2d)
    points = np.sort(np.concatenate([-theta, theta], axis=-1), axis=-1)
    uniform = points / (2 * np.pi) + 0.5
    m = points.shape[-1]
    above = np.max(np.arange(1, m + 1) / m - uniform, axis=-1)
    below = np.max(uniform - np.arange(m) / m, axis=-1)
    return above + below


def naive_ks(R: Float[np.ndarray, "d d"]) -> tuple[float, float]:
    """KS statistic and p-value of the eigenangles against the uniform circle, as if independent.

    Shown because it is often used.  Its p is near 1 for whatever is spread evenly, Haar or not, so
    a large p is no evidence for Haar.

    Raises:
        ValueError: R is not orthogonal.
    """
    test = scipy.stats.kstest(eigenangles(R), scipy.stats.uniform(-np.pi, 2 * np.pi).cdf)
    return float(test.statistic), float(test.pvalue)
