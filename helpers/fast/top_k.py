r"""A top-k autoencoder's step after its encoder: k rows of the weights a sample, and no others.

Of a code with d_sae entries k are not zero, so decoding, its gradient and the encoder's take
k · d_in multiplications a sample each, where dense products take d_sae · d_in.  Notation as in
:mod:`helpers.sae.stack`.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from helpers.fast.compiled import compiled


@compiled
@no_type_check
def top_k_step(k, pre, x, E, W, b_enc, b_dec, dE, dW, db_enc, db_dec, losses):
    """For m autoencoders: fill the gradients dE, dW, db_enc, db_dec and the ``losses`` (m,).

    ``pre`` (m, B, d_sae) is x' Eᵀ with x' = x − b_dec, without its bias; ``x`` (m, B, d_in); the
    encoder's rows ``E`` and the decoder's ``W`` (m, d_sae, d_in); biases (m, 1, …).  ``db_dec``
    lacks the encoder's part, − db_enc E.
    """
    m, B, d_sae = pre.shape
    d_in = x.shape[2]
    values, places = np.empty(k, np.float32), np.empty(k, np.int64)
    r, centred = np.empty(d_in, np.float32), np.empty(d_in, np.float32)
    step = np.float32(2.0 / B)
    for s in range(m):
        dE[s], dW[s], db_enc[s], db_dec[s] = 0, 0, 0, 0
        loss = 0.0
        for b in range(B):
            # the k largest positive entries, unordered; ``least`` is where the smallest stands
            count, least, low = 0, 0, np.float32(0)
            for i in range(d_sae):
                value = pre[s, b, i] + b_enc[s, 0, i]
                if not value <= low:  # NaN passes, and reaches the loss
                    if count < k:
                        values[count], places[count] = value, i
                        count += 1
                        if count < k:
                            continue
                    else:
                        values[least], places[least] = value, i
                    least = 0
                    for j in range(1, k):
                        if values[j] < values[least]:
                            least = j
                    low = values[least]
            for c in range(d_in):
                centred[c] = x[s, b, c] - b_dec[s, 0, c]
                r[c] = -centred[c]
            for j in range(count):
                value, i = values[j], places[j]
                for c in range(d_in):
                    r[c] += value * W[s, i, c]
            error = np.float32(0)
            for c in range(d_in):
                error += r[c] * r[c]
                r[c] *= step
                db_dec[s, 0, c] += r[c]
            loss += error
            for j in range(count):
                value, i = values[j], places[j]
                back = np.float32(0)
                for c in range(d_in):
                    back += r[c] * W[s, i, c]
                    dW[s, i, c] += value * r[c]
                db_enc[s, 0, i] += back
                for c in range(d_in):
                    dE[s, i, c] += back * centred[c]
        losses[s] = loss / B
