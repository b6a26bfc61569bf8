r"""Rules for ∫₀¹ f(α) dα ≈ Σ w_q f(α_q), and the order at which they converge.

================== =============================== ================================= ==============
rule               points                          exact for polynomials of degree   smooth f: error
================== =============================== ================================= ==============
``endpoint``       k/n, k = 1 … n (right Riemann)  0                                 O(1/n)
``midpoint``       (k − ½)/n                       1                                 O(1/n²)
``gauss-legendre`` zeros of Legendre's polynomial  2n − 1                            O(ρ⁻²ⁿ)
================== =============================== ================================= ==============

Where f jumps, as the slope along a path through a ReLU model does at every kink, no rule does
better than O(1/n) for one path.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

RULES = ("endpoint", "midpoint", "gauss-legendre")


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


def order(points: Float[np.ndarray, " k"], errors: Float[np.ndarray, " k"]) -> float:
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
