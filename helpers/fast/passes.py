"""Both passes of a layer over pairs, written out and compiled: no Python between two products.

Between products of some hundred rows Python would cost a tenth of the step, and more on a busy
machine.  Arguments are of :mod:`helpers.fast.memory`; a norm that the model lacks has an empty
gain, and what it would return is what it would read.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from helpers.fast import attention, kernels
from helpers.fast.blas import times, times_transposed, transposed_times
from helpers.fast.compiled import compiled, part

EPS = np.float32(1e-5)  # PyTorch's own for LayerNorm


@part
@no_type_check
def normalise(norm, x):
    """The norm of x, in the norm's own memory; x itself where there is no norm."""
    if not len(norm.gain):
        return x
    kernels.norm(x, norm.gain, norm.bias, EPS, norm.y, norm.mean, norm.rstd)
    return norm.y


@part
@no_type_check
def normalise_back(norm, x, dy, other):
    """Gradient of x from that of the norm, and from ``other``; dy itself without a norm."""
    if not len(norm.gain):
        return dy
    saved = (norm.mean, norm.rstd, norm.gain)
    kernels.norm_back(dy, x, *saved, other, norm.dx, norm.dgain, norm.dbias)
    return norm.dx


@compiled
@no_type_check
def forward(layer, before, middle, after, kept, x, pairs, rows, skip, n_heads):
    """A layer's output.

    ``layer`` holds the weights, ``kept`` memory; norms stand ``before`` attention, in the
    ``middle`` and ``after`` the MLP.  ``pairs``: the rows of x that are a pair's two positions.
    ``rows``: those of x that go on, of which the first ``skip`` are of the first position.  It
    attends to itself alone, so its z = v.
    """
    d = x.shape[1]
    times_transposed(normalise(before, x), layer.qkv, kept.qkv)
    for i in range(skip):
        for j in range(d):
            kept.z[i, j] = kept.qkv[i, 2 * d + j] + layer.qkv_bias[2 * d + j]
    attention.attend(kept.qkv, layer.qkv_bias, *pairs, n_heads, kept.z[skip:], kept.share)
    times_transposed(kept.z, layer.o, kept.mid)
    kernels.add_rows(kept.mid, layer.o_bias, x, rows)
    into = normalise(middle, kept.mid)
    times_transposed(into, layer.fc_in, kept.hidden)
    kernels.relu_bias(kept.hidden, layer.fc_in_bias)
    times_transposed(kept.hidden, layer.fc_out, kept.out)
    kernels.add(kept.out, layer.fc_out_bias, into if len(after.gain) else kept.mid)
    return normalise(after, kept.out)


@compiled
@no_type_check
def backward(
    layer, grads, before, middle, after, kept, x, pairs, rows, skip, n_heads, scratch, shared, dout
):
    """Write the gradients of a layer's weights; return that of x.

    ``scratch`` has memory for gradients; ``shared``: pairs may have a second row in common.
    """
    n, d = len(rows), x.shape[1]
    pre = len(before.gain) > 0
    nothing = np.empty((0, d), np.float32)
    normed = before.y if pre else x
    into = middle.y if len(middle.gain) else kept.mid
    down = normalise_back(after, kept.out, dout, nothing)
    dhidden, dinto, dz = scratch.hidden[:n], scratch.into[:n], scratch.z[:n]
    kernels.column_sums(down, grads.fc_out_bias)
    dense_back(down, kept.hidden, layer.fc_out, grads.fc_out, dhidden)
    kernels.relu_back(dhidden, kept.hidden, grads.fc_in_bias)
    dense_back(dhidden, into, layer.fc_in, grads.fc_in, dinto)
    if not pre:
        kernels.sum_rows(dinto, np.arange(n), down)
    dmid = normalise_back(middle, kept.mid, dinto, down if pre else nothing)
    dense_back(dmid, kept.z, layer.o, grads.o, dz)
    kernels.column_sums(dmid, grads.o_bias)
    dqkv, dnormed = scratch.qkv[: len(x)], scratch.normed[: len(x)]
    dqkv[: len(x) if shared else len(x) - len(pairs[0])] = 0
    for i in range(skip):
        for j in range(d):
            dqkv[i, 2 * d + j] = dz[i, j]
    attended = (kept.qkv, layer.qkv_bias, *pairs)
    attention.attend_back(dz[skip:], *attended, n_heads, kept.share, shared, dqkv)
    dense_back(dqkv, normed, layer.qkv, grads.qkv, dnormed)
    kernels.column_sums(dqkv, grads.qkv_bias)
    dx = normalise_back(before, x, dnormed, nothing)
    kernels.sum_rows(dx, rows, dmid)
    return dx


@part
@no_type_check
def dense_back(dy, x, weight, dweight, dx):
    """dx = dy W and dW = dyᵀ x."""
    transposed_times(dy, x, dweight)
    times(dy, weight, dx)


@compiled
@no_type_check
def unembed(norm, x, head, logits):
    """Logits from the last layer's output."""
    times_transposed(normalise(norm, x), head, logits)


@compiled
@no_type_check
def unembed_back(norm, x, head, dhead, dlogits, scratch):
    """Gradient of the last layer's output."""
    read = norm.y if len(norm.gain) else x
    dread = scratch.normed[: len(x)]
    dense_back(dlogits, read, head, dhead, dread)
    return normalise_back(norm, x, dread, np.empty((0, x.shape[1]), np.float32))


@compiled
@no_type_check
def embed(tokens, positions, x):
    """The residual stream at the start: a row for each token at each position, p rows each."""
    p = len(tokens)
    for i in range(len(x)):
        for j in range(x.shape[1]):
            x[i, j] = tokens[i % p, j] + positions[i // p, j]


@compiled
@no_type_check
def embed_back(dx, dtokens, dpositions):
    """Gradients of the embeddings from that of the stream."""
    p = len(dtokens)
    kernels.column_sums(dx[:p], dpositions[0])
    kernels.column_sums(dx[p:], dpositions[1])
    for i in range(p):
        for j in range(dx.shape[1]):
            dtokens[i, j] = dx[i, j] + dx[p + i, j]
