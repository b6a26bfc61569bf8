"""Causal attention over sequences of any length that lie one behind the other.

Rows of ``qkv`` (n, 3 d_model) are tokens; sequence s has rows starts[s] … starts[s + 1] − 1.  Every
head of a sequence has a square of its own, (key, query), so that all loops run over queries, which
are neighbours; ``pattern`` holds the squares one behind the other.  Arrays are float32.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from helpers.fast.blas import FLIPPED, PLAIN, sgemm
from helpers.fast.compiled import part

REAL = 4  # bytes of a number


@part
@no_type_check
def exp(x, shift, scale, powers):
    """x ← e^((x − shift) · scale) for (x − shift) · scale ≤ 0, to 2e-7 of itself.

    e^y = 2^k e^r with k = round(y / log 2) and |r| ≤ log 2 / 2.  Below −87 it counts as −87.
    ``powers``: memory for int32; 2^k is made of its bits.
    """
    for i in range(len(x)):
        y = (x[i] - shift[i]) * scale
        y = np.float32(-87) if y < np.float32(-87) else y  # max() would lose what is not finite
        k = np.floor(y * np.float32(1.44269504) + np.float32(0.5))
        r = y - k * np.float32(0.693359375) + k * np.float32(2.12194440e-4)
        series = np.float32(1 / 5040) * r + np.float32(1 / 720)
        series = series * r + np.float32(1 / 120)
        series = series * r + np.float32(1 / 24)
        series = series * r + np.float32(1 / 6)
        series = series * r + np.float32(1 / 2)
        series = series * r + np.float32(1)
        x[i] = series * r + np.float32(1)
        powers[i] = (np.int32(k) + np.int32(127)) << np.int32(23)
    factors = powers.view(np.float32)
    for i in range(len(x)):
        x[i] *= factors[i]


@part
@no_type_check
def _softmax(square, scale, top, total, powers):
    """Each query's column, over the keys up to itself, to softmax(scale · column); 0 elsewhere."""
    n = len(square)
    top[:n] = square[0]
    total[:n] = 0
    for j in range(1, n):
        row, largest = square[j, j:], top[j:n]
        for i in range(len(row)):
            largest[i] = max(largest[i], row[i])
    for j in range(n):
        row, sums = square[j, j:], total[j:n]
        exp(row, top[j:n], scale, powers[: n - j])
        for i in range(len(row)):
            sums[i] += row[i]
    for i in range(n):
        total[i] = np.float32(1) / total[i]
    for j in range(n):
        square[j, :j] = 0
        row, share = square[j, j:], total[j:n]
        for i in range(len(row)):
            row[i] *= share[i]


@part
@no_type_check
def attend(qkv, starts, n_heads, pattern, z):
    """z_i = Σ_{j ≤ i} p_ji v_j with p_ji = softmax_j(q_i · k_j / √d_head), for every head."""
    d = z.shape[1]
    size = d // n_heads
    scale = np.float32(1) / np.sqrt(np.float32(size))
    longest = np.max(starts[1:] - starts[:-1])
    top, total = np.empty(longest, np.float32), np.empty(longest, np.float32)
    powers, done = np.empty(longest, np.int32), 0
    for s in range(len(starts) - 1):
        first, n = starts[s], starts[s + 1] - starts[s]
        for h in range(n_heads):
            square = pattern[done : done + n * n].reshape(n, n)
            done += n * n
            q = qkv.ctypes.data + REAL * (first * 3 * d + h * size)
            k, v, p = q + REAL * d, q + 2 * REAL * d, square.ctypes.data
            out = z.ctypes.data + REAL * (first * d + h * size)
            sgemm(FLIPPED, PLAIN, n, n, size, q, 3 * d, k, 3 * d, 0.0, p, n)
            _softmax(square, scale, top, total, powers)
            sgemm(PLAIN, FLIPPED, size, n, n, v, 3 * d, p, n, 0.0, out, d)


@part
@no_type_check
def attend_back(dz, qkv, starts, n_heads, pattern, dqkv):
    """Gradient of qkv from that of z.

    With g_ji = v_j · dz_i and e_ji = p_ji (g_ji − Σ_j p_ji g_ji) / √d_head:
    dq_i = Σ_j e_ji k_j, dk_j = Σ_i e_ji q_i, dv_j = Σ_i p_ji dz_i.
    """
    d = dz.shape[1]
    size = d // n_heads
    scale = np.float32(1) / np.sqrt(np.float32(size))
    longest = np.max(starts[1:] - starts[:-1])
    along, done = np.empty(longest, np.float32), 0
    memory = np.empty(longest * longest, np.float32)
    for s in range(len(starts) - 1):
        first, n = starts[s], starts[s + 1] - starts[s]
        slopes = memory[: n * n].reshape(n, n)
        e = slopes.ctypes.data
        for h in range(n_heads):
            square = pattern[done : done + n * n].reshape(n, n)
            done += n * n
            there = REAL * (first * 3 * d + h * size)
            q, dq, p = qkv.ctypes.data + there, dqkv.ctypes.data + there, square.ctypes.data
            k, v, dk, dv = q + REAL * d, q + 2 * REAL * d, dq + REAL * d, dq + 2 * REAL * d
            g = dz.ctypes.data + REAL * (first * d + h * size)
            sgemm(FLIPPED, PLAIN, n, n, size, g, d, v, 3 * d, 0.0, e, n)
            along[:n] = 0
            for j in range(n):
                row, share, sums = slopes[j, j:], square[j, j:], along[j:n]
                for i in range(len(row)):
                    sums[i] += share[i] * row[i]
            for j in range(n):
                slopes[j, :j] = 0
                row, share, sums = slopes[j, j:], square[j, j:], along[j:n]
                for i in range(len(row)):
                    row[i] = share[i] * (row[i] - sums[i]) * scale
            sgemm(PLAIN, FLIPPED, size, n, n, k, 3 * d, e, n, 0.0, dq, 3 * d)
            sgemm(PLAIN, PLAIN, size, n, n, q, 3 * d, e, n, 0.0, dk, 3 * d)
            sgemm(PLAIN, PLAIN, size, n, n, g, d, p, n, 0.0, dv, 3 * d)
