r"""Neurons of two MLPs matched one to one, each with its best positive scale.

Source neuron i reads a_i and writes b_i, target neuron j reads a′_j and writes b′_j.  Scaled by
s > 0 the pair costs, up to what does not depend on s or on the match,

.. math:: \varphi_{ij}(s) = \alpha_i s^2 + \delta_i s^{-2} - 2 \beta_{ij} s - 2 \gamma_{ij} s^{-1}

with α = c_in ‖a‖², δ = c_out ‖b‖², β = c_in a·a′, γ = c_out b·b′.  It is stationary where
α s⁴ − β s³ + γ s − δ = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment

Number = float | Float[np.ndarray, "..."]
TINY = 1e-150  # squared norm of what is dead
FAR = 1e6  # no scale is farther from the balanced one


@dataclass(frozen=True, eq=False)
class Pairs:
    """α, δ (n,) of source neurons, β, γ (n, n) of pairs, and the target's own α′, δ′ (n,)."""

    alpha: np.ndarray
    delta: np.ndarray
    beta: np.ndarray
    gamma: np.ndarray
    target_alpha: np.ndarray
    target_delta: np.ndarray


def cost(
    s: Number, alpha: Number, delta: Number, beta: Number, gamma: Number
) -> Float[np.ndarray, ...]:
    """φ(s), for arrays that broadcast."""
    return alpha * s**2 + delta / s**2 - 2 * beta * s - 2 * gamma / s


def best_scales(
    alpha: Float[np.ndarray, " n"],
    delta: Float[np.ndarray, " n"],
    beta: Float[np.ndarray, " n"],
    gamma: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """The s > 0 of the least φ, by all four roots of the quartic at once.

    A neuron that writes nothing has s = β/α, one that reads nothing δ/γ, one that does neither 1.
    Scales stay within a factor 10⁶ of where both sides are alike.
    """
    reads, writes = alpha > TINY, delta > TINY
    both = reads & writes
    unit = np.where(both, (np.where(both, delta, 1) / np.where(both, alpha, 1)) ** 0.25, 1.0)
    # in units of the scale that makes both sides alike, the quartic is s⁴ − p s³ + q s − 1
    size = np.where(both, alpha * unit**2, 1.0)
    p, q = np.where(both, beta * unit / size, 0), np.where(both, gamma / unit / size, 0)
    companion = np.zeros((len(alpha), 4, 4))
    companion[:, 1:, :3] = np.eye(3)
    companion[:, 0, 3], companion[:, 1, 3], companion[:, 3, 3] = 1, -q, p
    # a real part that is no root only adds a candidate; 1 is there for two roots that fell together
    roots = np.clip(np.abs(np.linalg.eigvals(companion).real), 1 / FAR, FAR)
    candidates = np.concatenate([roots, np.ones((len(alpha), 1))], axis=1)
    values = cost(candidates, np.ones_like(candidates), 1.0, p[:, None], q[:, None])
    best = candidates[np.arange(len(alpha)), values.argmin(axis=1)] * unit
    only_reads = np.clip(beta / np.where(reads, alpha, 1), 1 / FAR, FAR)
    only_writes = 1 / np.clip(gamma / np.where(writes, delta, 1), 1 / FAR, FAR)
    lone = [reads & ~writes, writes & ~reads, ~reads & ~writes]
    return np.select(lone, [only_reads, only_writes, np.ones_like(alpha)], best)


def assign(
    pairs: Pairs, now: Int[np.ndarray, " n"]
) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Which source neuron comes to each place, and its scale.

    Hungarian assignment, with each pair's cost at the better of two scales: the one that is right
    for a perfect match, (‖a′‖ ‖b‖ / (‖a‖ ‖b′‖))^½, and the one that is right where nothing matches,
    (δ/α)^¼.  Matched pairs then get their best scale.  The match ``now`` stays where it is better.
    """
    alpha, delta = pairs.alpha[:, None] + TINY, pairs.delta[:, None] + TINY
    lone = np.broadcast_to((delta / alpha) ** 0.25, pairs.beta.shape)
    match = ((pairs.target_alpha + TINY) * delta / (alpha * (pairs.target_delta + TINY))) ** 0.25
    sides = (alpha, delta, pairs.beta, pairs.gamma)
    old, new = linear_sum_assignment(np.minimum(cost(lone, *sides), cost(match, *sides)))
    options = []
    for order in (old[np.argsort(new)], now):
        matched = (order, np.arange(len(order)))
        parts = (pairs.alpha[order], pairs.delta[order], pairs.beta[matched], pairs.gamma[matched])
        scales = best_scales(*parts)
        options.append((float(cost(scales, *parts).sum()), order, scales))
    return min(options, key=lambda option: option[0])[1:]
