r"""Rules for ∫₀¹ f(α) dα ≈ Σ w_q f(α_q), and the order at which they converge.

================== =============================== ================================= ==============
rule               points                          exact for polynomials of degree   smooth f: error
================== =============================== ================================= ==============
``endpoint``       k/n, k = 1 … n (right Riemann)  0                                 O(1/n)
``midpoint``       (k − ½)/n                       1                                 O(1/n²)
``gauss-legendre`` zeros of Legendre's polynomial  2n − 1                            O(ρ⁻²ⁿ)
================== =============================== ================================= ==============

Where f jumps, as the slope along a path through a ReLU model does at every kink, no rule does
better than O(1/n) for one path.  Where it is steep on a short stretch, points should lie there:
:func:`adaptive` looks for such stretches first.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Shaped

RULES = ("endpoint", "midpoint", "gauss-legendre")
FLOOR = 0.3
"""The share of :func:`adaptive`'s cells that lie evenly."""


def quadrature(rule: str, n: int) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Points in [0, 1] and their weights, which sum to 1.

    Raises:
        ValueError: an unknown rule, or no point.
    """
    if rule not in RULES or n < 1:
        raise ValueError(
            f"a rule is one of {', '.join(RULES)}, with 1 point or more; got {rule!r} with {n}."
        )
    if rule == "gauss-legendre":
        points, weights = np.polynomial.legendre.leggauss(n)
        return (points + 1) / 2, weights / 2
    shift = 1.0 if rule == "endpoint" else 0.5
    return (np.arange(n) + shift) / n, np.full(n, 1 / n)


def adaptive(
    values: Float[np.ndarray, "m b"], n: int
) -> tuple[Float[np.ndarray, "n b"], Float[np.ndarray, "n b"]]:
    """Two Gauss–Legendre points in each of n/2 cells, for each of b integrands f.

    Cells are closer together where ∫f grows faster.  ``values`` are F(α) = ∫₀^α f at α = 0, 1/m …
    (m − 1)/m; the last stretch is taken to be like the one before it, so that F(1), the answer, is
    not asked for.  The density of cells goes with FLOOR + (1 − FLOOR) √|ΔF| (the latter with mean
    1).  Exact for polynomials of degree 3; on smooth f the error is O(1/n⁴).

    Raises:
        ValueError: fewer than two values, or an odd number of points or none.
    """
    m = len(values)
    if m < 2 or n < 2 or n % 2:
        raise ValueError(f"need two values or more, and an even number of points; got {m} and {n}.")
    growth = np.sqrt(np.abs(np.diff(values, axis=0)))
    growth = np.concatenate([growth, growth[-1:]])
    mean = growth.mean(axis=0)
    density = FLOOR + (1 - FLOOR) * np.divide(
        growth, mean, out=np.ones_like(growth), where=mean > 0
    )
    share = np.concatenate([np.zeros_like(density[:1]), density.cumsum(axis=0)])
    share /= share[-1]
    even, places = np.linspace(0, 1, n // 2 + 1), np.linspace(0, 1, m + 1)
    edges = np.stack([np.interp(even, column, places) for column in share.T], axis=1)
    width, (inside, half) = np.diff(edges, axis=0), quadrature("gauss-legendre", 2)
    points = edges[:-1, None] + width[:, None] * inside[:, None]
    return points.reshape(n, -1), (width[:, None] * half[:, None]).reshape(n, -1)


def order(points: Shaped[np.ndarray, " k"], errors: Float[np.ndarray, " k"]) -> float:
    """The p of error ≈ C n⁻ᵖ: minus the slope of log error against log points, by least squares.

    Errors of 0 are left out.

    Raises:
        ValueError: fewer than two errors above 0, or points that are all the same.
    """
    points, errors = np.asarray(points, dtype=np.float64), np.abs(np.asarray(errors))
    kept = errors > 0
    if kept.sum() < 2 or np.ptp(points[kept]) == 0:
        raise ValueError("a slope needs errors above 0 at two different numbers of points or more.")
    return float(-np.polyfit(np.log(points[kept]), np.log(errors[kept]), 1)[0])
