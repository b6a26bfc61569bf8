"""Attention over two positions, as loops over the pairs.

The second position attends to both with a weight w and 1 − w, so softmax is a logistic function.
Arrays are float32, rows contiguous; see :mod:`helpers.fast.kernels` for ``no_type_check``.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from helpers.fast.compiled import part


@part
@no_type_check
def _by_head(x, n_heads, h):
    """Sum of the h-th of ``n_heads`` pieces of x."""
    size = len(x) // n_heads
    total = np.float32(0)
    # A loop that starts at 0 over a short view: only that is made into vector code.
    piece = x[h * size : h * size + size]
    for j in range(size):
        total += piece[j]
    return total


@part
@no_type_check
def attend(qkv, bias, first, second, n_heads, z, w):
    """z[i] = v_first + w · (v_second − v_first) and w = σ(q · (k_second − k_first) / √d_head).

    ``qkv`` lacks its ``bias`` (3 d_model), which is added here: a key's makes no difference.

    ``first`` and ``second`` (n,) say which rows of qkv (·, 3 d_model) a pair's positions are;
    every head has its own w (n, d_model), written d_head times: wide loops are fast.
    """
    d = w.shape[1]
    size = d // n_heads
    scale = np.float32(1) / np.sqrt(np.float32(size))
    terms = np.empty(d, np.float32)
    for i in range(len(first)):
        one, two, out, wide = qkv[first[i]], qkv[second[i]], z[i], w[i]
        q, k1, k2 = two[:d], one[d : 2 * d], two[d : 2 * d]
        v1, v2 = one[2 * d : 3 * d], two[2 * d : 3 * d]
        for j in range(d):
            terms[j] = (q[j] + bias[j]) * (k2[j] - k1[j])
        for h in range(n_heads):
            score = _by_head(terms, n_heads, h)
            share = np.float32(1) / (np.float32(1) + np.exp(-score * scale))
            wide[h * size : h * size + size] = share
        for j in range(d):
            out[j] = v1[j] + bias[2 * d + j] + wide[j] * (v2[j] - v1[j])


@part
@no_type_check
def attend_back(dz, qkv, bias, first, second, n_heads, w, shared, dqkv):
    """Add to dqkv (·, 3 d_model) what :func:`attend` sends back.

    Where no two pairs have a second row in common (not ``shared``), these rows are set.
    """
    d = w.shape[1]
    size = d // n_heads
    scale = np.float32(1) / np.sqrt(np.float32(size))
    terms, slope = np.empty(d, np.float32), np.empty(d, np.float32)
    for i in range(len(first)):
        one, two, g, wide = qkv[first[i]], qkv[second[i]], dz[i], w[i]
        q, k1, k2 = two[:d], one[d : 2 * d], two[d : 2 * d]
        v1, v2 = one[2 * d : 3 * d], two[2 * d : 3 * d]
        for j in range(d):
            terms[j] = g[j] * (v2[j] - v1[j])
        for h in range(n_heads):
            dshare = _by_head(terms, n_heads, h)
            share = wide[h * size]
            dscore = dshare * share * (np.float32(1) - share) * scale
            slope[h * size : h * size + size] = dscore
        done, dtwo = dqkv[first[i]], dqkv[second[i]]
        if not shared:
            dtwo[:] = 0
        dq, dk1, dk2 = dtwo[:d], done[d : 2 * d], dtwo[d : 2 * d]
        dv1, dv2 = done[2 * d : 3 * d], dtwo[2 * d : 3 * d]
        # One array written in each loop: more, and none is made into vector code.
        for j in range(d):
            dq[j] += slope[j] * (k2[j] - k1[j])
        for j in range(d):
            dk2[j] += slope[j] * (q[j] + bias[j])
        for j in range(d):
            dk1[j] -= slope[j] * (q[j] + bias[j])
        for j in range(d):
            dv2[j] += wide[j] * g[j]
        for j in range(d):
            dv1[j] += g[j] - wide[j] * g[j]
