r"""A canonical gauge for what is not a rotation: invertible maps inside heads, scales of neurons.

W_Q W_Kᵀ stays the same for every invertible A, and so does W_V W_O for every B.  Of all of them the
balanced ones, :math:`W_Q^\top W_Q = W_K^\top W_K` and :math:`W_V^\top W_V = W_O W_O^\top`, have
the least norm, and differ from each other by rotations only.  So rotations are enough to align two
balanced models over all invertible maps.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from helpers.symmetry.group import Symmetry
from helpers.symmetry.weights import Weights


def balancing(weights: Weights) -> Symmetry:
    """The symmetry that balances every head and every neuron (‖W_in^j‖ = ‖W_out^j‖).

    The heads' matrices are symmetric and positive, the least that does it.

    Raises:
        ValueError: a head with a W_Q, W_K, W_V or W_O of a rank below d_head, or a neuron that
            reads or writes nothing: no invertible map balances those.
    """
    still = Symmetry.identity(weights)
    reads = np.linalg.norm(weights.W_in, axis=1)
    writes = np.linalg.norm(weights.W_out, axis=2)
    if not ((reads > 0) & (writes > 0)).all():
        raise ValueError("a neuron reads or writes nothing: it has no balanced scale.")
    return replace(
        still,
        QK=_balance(weights.W_Q, weights.W_K),
        VO=_balance(weights.W_V, weights.W_O.swapaxes(2, 3)),
        scales=np.sqrt(writes / reads),
    )


def _balance(
    X: Float[np.ndarray, "layer head d k"], Y: Float[np.ndarray, "layer head d k"]
) -> Float[np.ndarray, "layer head k k"]:
    """S = A, symmetric and positive, with (X A)ᵀ(X A) = (Y A⁻¹)ᵀ(Y A⁻¹).

    With the Gram matrices G = XᵀX and H = YᵀY, A² is their geometric mean G⁻¹ # H: the only
    positive Z with Z G Z = H (Ando 1979).
    """
    G, H = X.swapaxes(-1, -2) @ X, Y.swapaxes(-1, -2) @ Y
    if max(np.linalg.cond(G).max(), np.linalg.cond(H).max()) > 1e12:
        raise ValueError(
            "a head has a map of a rank below d_head: no invertible map balances its two sides."
        )
    root = _power(G, 0.5)
    inverse = np.linalg.inv(root)
    Z = inverse @ _power(root @ H @ root, 0.5) @ inverse
    return _power((Z + Z.swapaxes(-1, -2)) / 2, 0.5)


def _power(positive: np.ndarray, exponent: float) -> np.ndarray:
    """A power of symmetric positive matrices, by their eigenvalues."""
    values, vectors = np.linalg.eigh(positive)
    return vectors * values[..., None, :] ** exponent @ vectors.swapaxes(-1, -2)
