"""Row by row loops that PyTorch would make in many passes: norms, attention over two positions.

Numba compiles them once and keeps the machine code.  ``fastmath`` lets it sum in the order that
suits the vector units, so results differ from PyTorch's by rounding, and are the same each time.
Arrays are float32, rows contiguous; names as in :mod:`helpers.fast.parts`.  The tests check shapes
by wrapping every function, which Numba cannot compile: ``no_type_check`` keeps these out.
"""

from __future__ import annotations

from typing import no_type_check

import numba
import numpy as np


def _jit(function):
    # error_model: a division by zero, and by NaN under fastmath, gives infinity or NaN, which the
    # trainer notices and names, and no ZeroDivisionError, which says nothing
    how = {"fastmath": True, "nogil": True, "boundscheck": False, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **how)(function)
    except RuntimeError:  # no folder that it may write to: each process compiles for itself
        return numba.njit(**how)(function)


@_jit
@no_type_check
def relu_bias(x, bias):
    """x ← max(x + bias, 0)."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] = max(x[i, j] + bias[j], np.float32(0))


@_jit
@no_type_check
def relu_back(dx, x, dbias):
    """dx ← dx where x > 0, else 0; dbias ← its column sums."""
    dbias[:] = 0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            value = dx[i, j] if x[i, j] > 0 else np.float32(0)
            dx[i, j] = value
            dbias[j] += value


@_jit
@no_type_check
def add_rows(x, bias, other, rows):
    """x[i] ← x[i] + bias + other[rows[i]]."""
    for i in range(x.shape[0]):
        row = rows[i]
        for j in range(x.shape[1]):
            x[i, j] += bias[j] + other[row, j]


@_jit
@no_type_check
def sum_rows(out, rows, x):
    """out[rows[i]] ← out[rows[i]] + x[i]."""
    for i in range(x.shape[0]):
        row = rows[i]
        for j in range(x.shape[1]):
            out[row, j] += x[i, j]


@_jit
@no_type_check
def norm(x, gain, bias, eps, y, xhat, rstd):
    """y = gain · xhat + bias with xhat = (x − mean) · rstd, by rows."""
    d = x.shape[1]
    for i in range(x.shape[0]):
        total = np.float32(0)
        for j in range(d):
            total += x[i, j]
        mean = total / np.float32(d)
        square = np.float32(0)
        for j in range(d):
            square += (x[i, j] - mean) * (x[i, j] - mean)
        r = np.float32(1) / np.sqrt(square / np.float32(d) + eps)
        rstd[i] = r
        for j in range(d):
            h = (x[i, j] - mean) * r
            xhat[i, j] = h
            y[i, j] = gain[j] * h + bias[j]


@_jit
@no_type_check
def norm_back(dy, xhat, rstd, gain, dx, dgain, dbias):
    """dx = rstd · (g − mean(g) − xhat · mean(g · xhat)) with g = gain · dy, by rows."""
    d = dy.shape[1]
    dgain[:] = 0
    dbias[:] = 0
    for i in range(dy.shape[0]):
        total = np.float32(0)
        along = np.float32(0)
        for j in range(d):
            g = dy[i, j] * gain[j]
            total += g
            along += g * xhat[i, j]
        total /= np.float32(d)
        along /= np.float32(d)
        r = rstd[i]
        for j in range(d):
            y, h = dy[i, j], xhat[i, j]
            dgain[j] += y * h
            dbias[j] += y
            dx[i, j] = r * (y * gain[j] - total - h * along)


@_jit
@no_type_check
def attend(qkv, first, second, n_heads, z, w):
    """z[i] = v_first + w · (v_second − v_first) and w = σ(q · (k_second − k_first) / √d_head).

    ``first`` and ``second`` (n,) say which rows of qkv (·, 3 d_model) a pair's positions are;
    every head has its own w.
    """
    d = z.shape[1]
    size = d // n_heads
    scale = np.float32(1) / np.sqrt(np.float32(size))
    for i in range(z.shape[0]):
        one, two = qkv[first[i]], qkv[second[i]]
        for h in range(n_heads):
            # Loops that start at 0 over short views: only those are made into vector code.
            at = h * size
            q, k1, k2 = (
                two[at : at + size],
                one[d + at : d + at + size],
                two[d + at : d + at + size],
            )
            at += 2 * d
            v1, v2, out = (
                one[at : at + size],
                two[at : at + size],
                z[i, at - 2 * d : at - 2 * d + size],
            )
            score = np.float32(0)
            for j in range(size):
                score += q[j] * (k2[j] - k1[j])
            share = np.float32(1) / (np.float32(1) + np.exp(-score * scale))
            w[i, h] = share
            for j in range(size):
                out[j] = v1[j] + share * (v2[j] - v1[j])


@_jit
@no_type_check
def attend_back(dz, qkv, first, second, w, dqkv):
    """Add to dqkv (·, 3 d_model) what :func:`attend` sends back."""
    d, n_heads = dz.shape[1], w.shape[1]
    size = d // n_heads
    scale = np.float32(1) / np.sqrt(np.float32(size))
    for i in range(dz.shape[0]):
        one, two = qkv[first[i]], qkv[second[i]]
        done, dtwo = dqkv[first[i]], dqkv[second[i]]
        for h in range(n_heads):
            at = h * size
            q, dq, g = two[at : at + size], dtwo[at : at + size], dz[i, at : at + size]
            at += d
            k1, k2 = one[at : at + size], two[at : at + size]
            dk1, dk2 = done[at : at + size], dtwo[at : at + size]
            at += d
            v1, v2 = one[at : at + size], two[at : at + size]
            dv1, dv2 = done[at : at + size], dtwo[at : at + size]
            share = w[i, h]
            dshare = np.float32(0)
            for j in range(size):
                dshare += g[j] * (v2[j] - v1[j])
            dscore = dshare * share * (np.float32(1) - share) * scale
            for j in range(size):
                dq[j] += dscore * (k2[j] - k1[j])
            for j in range(size):
                step = dscore * q[j]
                dk2[j] += step
                dk1[j] -= step
            for j in range(size):
                step = share * g[j]
                dv2[j] += step
                dv1[j] += g[j] - step
