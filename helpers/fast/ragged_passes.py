"""Both passes of a pre-norm layer over sequences that lie one behind the other, compiled.

Arguments are of :mod:`helpers.fast.ragged`: memory for as many tokens as there may be, of which
the first n, the rows of x, are in use.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from helpers.fast import ragged_kernels as kernels
from helpers.fast.blas import times_transposed
from helpers.fast.compiled import compiled
from helpers.fast.passes import dense_back
from helpers.fast.ragged_attention import attend, attend_back


@compiled
@no_type_check
def forward(layer, kept, x, starts, n_heads, out):
    """resid_mid = x + attention(RMS(x)); out = resid_mid + MLP(RMS(resid_mid))."""
    n = len(x)
    read, qkv, z, mid = kept.read1[:n], kept.qkv[:n], kept.z[:n], kept.mid[:n]
    kernels.norm(x, layer.ln1, read, kept.rstd1)
    times_transposed(read, layer.qkv, qkv)
    attend(qkv, starts, n_heads, kept.pattern, z)
    times_transposed(z, layer.o, mid)
    kernels.add(mid, x)
    read, hidden = kept.read2[:n], kept.hidden[:n]
    kernels.norm(mid, layer.ln2, read, kept.rstd2)
    times_transposed(read, layer.fc_in, hidden)
    kernels.relu(hidden)
    times_transposed(hidden, layer.fc_out, out)
    kernels.add(out, mid)


@compiled
@no_type_check
def backward(layer, grads, kept, scratch, x, starts, n_heads, dout):
    """Write the gradients of a layer's weights; dout, the gradient of its output, becomes x's."""
    n = len(x)
    dhidden, dread, dmid = scratch.hidden[:n], scratch.read[:n], scratch.mid[:n]
    dense_back(dout, kept.hidden[:n], layer.fc_out, grads.fc_out, dhidden)
    kernels.relu_back(dhidden, kept.hidden)
    dense_back(dhidden, kept.read2[:n], layer.fc_in, grads.fc_in, dread)
    kernels.norm_back(dread, kept.mid, kept.rstd2, layer.ln2, dout, dmid, grads.ln2)
    dz, dqkv = scratch.z[:n], scratch.qkv[:n]
    dense_back(dmid, kept.z[:n], layer.o, grads.o, dz)
    attend_back(dz, kept.qkv[:n], starts, n_heads, kept.pattern, dqkv)
    dense_back(dqkv, kept.read1[:n], layer.qkv, grads.qkv, dread)
    kernels.norm_back(dread, x, kept.rstd1, layer.ln1, dmid, dout, grads.ln1)


@compiled
@no_type_check
def unembed(x, gain, head, read, rstd, logits):
    """Logits from the last layer's output."""
    kernels.norm(x, gain, read, rstd)
    times_transposed(read, head, logits)


@compiled
@no_type_check
def unembed_back(dlogits, x, gain, head, read, rstd, dgain, dhead, dread, dx):
    """Gradient of the last layer's output."""
    dense_back(dlogits, read, head, dhead, dread)
    kernels.norm_back(dread, x, rstd, gain, np.empty((0, x.shape[1]), np.float32), dx, dgain)
