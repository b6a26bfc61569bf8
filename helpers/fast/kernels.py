"""Row by row loops between the products: norms, sums of rows, the loss.

Arrays are float32, rows contiguous; names as in :mod:`helpers.fast.passes`.  The tests check shapes
by wrapping every function, which Numba cannot compile: ``no_type_check`` keeps these out.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from helpers.fast.compiled import compiled, part


@part
@no_type_check
def relu_bias(x, bias):
    """x ← max(x + bias, 0)."""
    for i in range(x.shape[0]):
        for j in range(len(bias)):
            x[i, j] = max(x[i, j] + bias[j], np.float32(0))


@part
@no_type_check
def relu_back(dx, x, dbias):
    """dx ← dx where x > 0, else 0; dbias ← its column sums."""
    dbias[:] = 0
    for i in range(dx.shape[0]):
        for j in range(len(dbias)):
            value = dx[i, j] if x[i, j] > 0 else np.float32(0)
            dx[i, j] = value
            dbias[j] += value


@part
@no_type_check
def add_rows(x, bias, other, rows):
    """x[i] ← x[i] + bias + other[rows[i]]."""
    for i in range(x.shape[0]):
        row = rows[i]
        for j in range(len(bias)):
            x[i, j] += bias[j] + other[row, j]


@part
@no_type_check
def add(x, bias, other):
    """x ← x + bias + other."""
    for i in range(x.shape[0]):
        for j in range(len(bias)):
            x[i, j] += bias[j] + other[i, j]


@part
@no_type_check
def sum_rows(out, rows, x):
    """out[rows[i]] ← out[rows[i]] + x[i]."""
    for i in range(x.shape[0]):
        row = rows[i]
        for j in range(x.shape[1]):
            out[row, j] += x[i, j]


@part
@no_type_check
def column_sums(x, out):
    """out ← Σ_i x[i]."""
    out[:] = 0
    for i in range(x.shape[0]):
        for j in range(len(out)):
            out[j] += x[i, j]


@part
@no_type_check
def norm(x, gain, bias, eps, y, mean, rstd):
    """y = gain · xhat + bias with xhat = (x − mean) · rstd, by rows."""
    d = len(gain)
    for i in range(x.shape[0]):
        total = np.float32(0)
        for j in range(d):
            total += x[i, j]
        m = total / np.float32(d)
        square = np.float32(0)
        for j in range(d):
            square += (x[i, j] - m) * (x[i, j] - m)
        r = np.float32(1) / np.sqrt(square / np.float32(d) + eps)
        mean[i], rstd[i] = m, r
        for j in range(d):
            y[i, j] = gain[j] * ((x[i, j] - m) * r) + bias[j]


@part
@no_type_check
def norm_back(dy, x, mean, rstd, gain, other, dx, dgain, dbias):
    """dx = other + rstd · (g − mean(g) − xhat · mean(g · xhat)) with g = gain · dy, by rows.

    ``other`` is what comes back beside the norm; an array without rows stands for nothing.
    """
    d = len(gain)
    dgain[:] = 0
    dbias[:] = 0
    for i in range(dy.shape[0]):
        m, r = mean[i], rstd[i]
        total = np.float32(0)
        along = np.float32(0)
        for j in range(d):
            g = dy[i, j] * gain[j]
            total += g
            along += g * (x[i, j] - m)
        total /= np.float32(d)
        along *= r / np.float32(d)
        for j in range(d):
            y, h = dy[i, j], (x[i, j] - m) * r
            dgain[j] += y * h
            dbias[j] += y
            dx[i, j] = r * (y * gain[j] - total - h * along)
        if len(other):
            for j in range(d):
                dx[i, j] += other[i, j]


@compiled
@no_type_check
def cross_entropy(log_probs, probs, answers):
    """Mean cross-entropy, in nats; probs become its gradient with respect to the logits."""
    n, p = probs.shape
    loss = 0.0
    for i in range(n):
        loss -= log_probs[i, answers[i]]
        probs[i, answers[i]] -= np.float32(1)
        for j in range(p):
            probs[i, j] /= np.float32(n)
    return loss / n


@compiled
@no_type_check
def ends(values):
    """Smallest and largest of integers."""
    low = high = values[0]
    for value in values:
        low, high = min(low, value), max(high, value)
    return low, high
