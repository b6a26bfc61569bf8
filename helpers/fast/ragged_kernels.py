"""Row by row loops for a model with RMSNorm, without biases and with several outputs.

Arrays are float32, rows contiguous; names as in :mod:`helpers.fast.ragged_passes`, and
``no_type_check`` as in :mod:`helpers.fast.kernels`.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from helpers.fast.compiled import compiled, part
from helpers.fast.ragged_attention import exp

EPS = np.float32(1e-5)


@part
@no_type_check
def add(x, other):
    """x ← x + other."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] += other[i, j]


@part
@no_type_check
def relu(x):
    """x ← max(x, 0)."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] = max(x[i, j], np.float32(0))


@part
@no_type_check
def relu_back(dx, x):
    """dx ← dx where x > 0, else 0."""
    for i in range(dx.shape[0]):
        for j in range(dx.shape[1]):
            dx[i, j] = dx[i, j] if x[i, j] > 0 else np.float32(0)


@part
@no_type_check
def norm(x, gain, y, rstd):
    """y = gain · x · rstd with rstd = 1 / √(mean(x²) + ε), by rows."""
    d = len(gain)
    for i in range(x.shape[0]):
        square = np.float32(0)
        for j in range(d):
            square += x[i, j] * x[i, j]
        r = np.float32(1) / np.sqrt(square / np.float32(d) + EPS)
        rstd[i] = r
        for j in range(d):
            y[i, j] = gain[j] * x[i, j] * r


@part
@no_type_check
def norm_back(dy, x, rstd, gain, other, dx, dgain):
    """dx = other + rstd · (g − h · mean(g · h)) with g = gain · dy and h = x · rstd, by rows.

    ``other`` is what comes back beside the norm; an array without rows stands for nothing.
    """
    d = len(gain)
    dgain[:] = 0
    for i in range(dy.shape[0]):
        r, along = rstd[i], np.float32(0)
        for j in range(d):
            along += dy[i, j] * gain[j] * x[i, j]
        along *= r * r / np.float32(d)
        for j in range(d):
            dgain[j] += dy[i, j] * x[i, j] * r
        for j in range(d):
            dx[i, j] = r * (dy[i, j] * gain[j] - x[i, j] * along)
        if len(other):
            for j in range(d):
                dx[i, j] += other[i, j]


@compiled
@no_type_check
def cross_entropies(logits, answers, ends):
    """Sum of every output's mean cross-entropy, in nats; logits become the gradient's own.

    Output o has the columns ends[o] … ends[o + 1] − 1; answers (n, outputs) count from its first.
    """
    n, loss = len(answers), 0.0
    powers, share = np.empty(logits.shape[1], np.int32), np.float32(1) / np.float32(n)
    shift = np.empty(logits.shape[1], np.float32)
    for i in range(n):
        for o in range(len(ends) - 1):
            row, answer = logits[i, ends[o] : ends[o + 1]], answers[i, o]
            top = row[0]
            for j in range(1, len(row)):
                top = max(top, row[j])
            wanted, shifts = row[answer] - top, shift[: len(row)]
            shifts[:] = top
            exp(row, shifts, np.float32(1), powers[: len(row)])
            total = np.float32(0)
            for j in range(len(row)):
                total += row[j]
            loss += np.log(total) - wanted
            factor = share / total
            for j in range(len(row)):
                row[j] *= factor
            row[answer] -= share
    return loss / n


@compiled
@no_type_check
def embed(tokens, positions, embedding, table, x):
    """x[i] = embedding[tokens[i]] + table[positions[i]]."""
    for i in range(len(tokens)):
        token, position = tokens[i], positions[i]
        for j in range(x.shape[1]):
            x[i, j] = embedding[token, j] + table[position, j]


@compiled
@no_type_check
def embed_back(dx, tokens, dembedding):
    """Gradient of the embedding from that of the stream."""
    dembedding[:] = 0
    for i in range(len(tokens)):
        token = tokens[i]
        for j in range(dx.shape[1]):
            dembedding[token, j] += dx[i, j]
