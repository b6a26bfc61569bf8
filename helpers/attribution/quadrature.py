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
:func:`adaptive` looks for such stretches first.  And of many integrals a few make most of the
error: :func:`pooled` gives these more of the points.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Shaped

RULES = ("endpoint", "midpoint", "gauss-legendre")
Rule = tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]
"""Points and their weights."""
FLOOR = 0.3
"""The share of an integrand's cells that lie evenly, for :func:`adaptive` and :func:`pooled`."""


def quadrature(rule: str, n: int) -> Rule:
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


def adaptive(values: Float[np.ndarray, "m b"], n: int) -> list[Rule]:
    """Two Gauss–Legendre points in each of n/2 cells, for each of b integrands f.

    Cells are closer together where ∫f grows faster.  ``values`` are F(α) = ∫₀^α f at α = 0, 1/m …
    (m − 1)/m; the last stretch is taken to be like the one before it, so that F(1), the answer, is
    not asked for.  The density of cells goes with FLOOR + (1 − FLOOR) √|ΔF| (the latter with mean
    1).  Exact for polynomials of degree 3; on smooth f the error is O(1/n⁴).

    Raises:
        ValueError: fewer than two values, or an odd number of points or none.
    """
    return [_placed(column, n // 2) for column in _need(values, n).T]


def pooled(values: Float[np.ndarray, "m b"], n: int) -> list[Rule]:
    """n · b points for b integrands together: points and weights of each, two points or more.

    A few integrals, large and rough, make most of the error of all; so they should get most of the
    points.  An integrand's share of the cells goes with its mean √|ΔF|; along its path they lie as
    :func:`adaptive` has them.  Arguments and errors as there.
    """
    need = _need(values, n)
    share = need.sum(axis=0).cumsum() / need.sum()
    more = np.round(share * need.shape[1] * (n // 2 - 1)).astype(np.int64)
    cells = 1 + np.diff(more, prepend=0)  # sums are rounded, so that no cell is lost
    return [_placed(column, k) for column, k in zip(need.T, cells.tolist(), strict=True)]


def _need(values: Float[np.ndarray, "m b"], n: int) -> Float[np.ndarray, "m b"]:
    """How closely cells should lie in each stretch, by integrand; 1 everywhere if nothing grows."""
    m = len(values)
    if m < 2 or n < 2 or n % 2:
        raise ValueError(f"need two values or more, and an even number of points; got {m} and {n}.")
    growth = np.sqrt(np.abs(np.diff(values, axis=0)))
    growth = np.concatenate([growth, growth[-1:]])
    need = FLOOR * growth.mean(axis=0) + (1 - FLOOR) * growth
    return need if need.any() else np.ones_like(need)


def _placed(need: Float[np.ndarray, " m"], cells: int) -> Rule:
    """Two Gauss–Legendre points in each cell; every cell holds as much of the need as any other."""
    share = np.concatenate([[0.0], (need if need.any() else np.ones_like(need)).cumsum()])
    even, places = np.linspace(0, 1, cells + 1), np.linspace(0, 1, len(share))
    edges = np.interp(even, share / share[-1], places)
    width, (inside, half) = np.diff(edges)[:, None], quadrature("gauss-legendre", 2)
    return (edges[:-1, None] + width * inside).ravel(), (width * half).ravel()


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
