r"""The symmetry group of the bracket model: other weights, the same logits.

An element holds, for each layer, a permutation of heads, an invertible A (queries, keys) and B
(values, outputs) for each head, a permutation of the MLP's neurons with positive scales s; and one
rotation R of the residual stream.  With i, j counting heads and neurons of the *result*, and p, n
for the permutations,

.. math::
    W_E \to W_E R, \quad W_{pos} \to W_{pos} R, \quad W_U \to R^\top W_U, \\
    W_Q^i \to R^\top W_Q^{p_i} A_i, \quad W_K^i \to R^\top W_K^{p_i} A_i^{-\top}, \quad
    W_V^i \to R^\top W_V^{p_i} B_i, \quad W_O^i \to B_i^{-1} W_O^{p_i} R, \\
    W_{in}^j \to s_j R^\top W_{in}^{n_j}, \quad W_{out}^j \to s_j^{-1} W_{out}^{n_j} R.

Attention only sees W_Q W_Kᵀ and W_V W_O, ReLU(s x) = s ReLU(x), and RMSNorm without gains commutes
with R.  R also turns what the position frame writes, so the frame counts as a weight.

Source: McCann 2026, "Polymorphism Is Rotation" (arXiv:2605.24577), bar P; there A and B are
orthogonal.  See :mod:`helpers.symmetry.balance` for those that are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from helpers.alignment.haar import check_orthogonal, haar
from helpers.symmetry.weights import Weights

KINDS = ("orthogonal", "invertible")


@runtime_checkable
class Decoder(Protocol):
    """What the group acts on: the arrays of :class:`helpers.symmetry.weights.Weights`, by name.

    Other decoders have them too, beside biases of their own: see :mod:`helpers.merging`.
    """

    W_E: np.ndarray
    W_pos: np.ndarray
    W_Q: np.ndarray
    W_K: np.ndarray
    W_V: np.ndarray
    W_O: np.ndarray
    W_in: np.ndarray
    W_out: np.ndarray
    W_U: np.ndarray


@dataclass(frozen=True, eq=False)
class Symmetry:
    """One element: ``heads`` (layer, head) and ``neurons`` (layer, d_mlp) say which old one comes
    here; ``QK``, ``VO`` (layer, head, d_head, d_head), ``scales`` (layer, d_mlp), ``R`` (d_model,
    d_model).

    Raises:
        ValueError: no permutations, a scale that is not positive, a matrix that is singular, or
            an R that is not orthogonal.
    """

    heads: np.ndarray
    QK: np.ndarray
    VO: np.ndarray
    neurons: np.ndarray
    scales: np.ndarray
    R: np.ndarray

    def __post_init__(self) -> None:
        for name in ("heads", "neurons"):
            rows = getattr(self, name)
            if (np.sort(rows, axis=1) != np.arange(rows.shape[1])).any():
                raise ValueError(f"{name} must be a permutation of 0…{rows.shape[1] - 1} a layer.")
        if not (np.isfinite(self.scales).all() and (self.scales > 0).all()):
            raise ValueError("scales of neurons must be positive: ReLU(s x) = s ReLU(x) needs it.")
        for name in ("QK", "VO"):
            if not np.linalg.cond(getattr(self, name)).max() < 1e8:
                raise ValueError(f"{name} holds a matrix that is singular, or nearly.")
        check_orthogonal(self.R)

    @staticmethod
    def identity(weights: Decoder) -> Symmetry:
        """The element that changes nothing."""
        layers, n_heads, d_model, d_head = weights.W_Q.shape
        d_mlp = weights.W_in.shape[2]
        inner = np.broadcast_to(np.eye(d_head), (layers, n_heads, d_head, d_head))
        heads, neurons = (np.tile(np.arange(n), (layers, 1)) for n in (n_heads, d_mlp))
        return Symmetry(heads, inner, inner, neurons, np.ones((layers, d_mlp)), np.eye(d_model))

    def inverse(self) -> Symmetry:
        """The element that undoes this one."""
        heads, neurons = np.argsort(self.heads, axis=1), np.argsort(self.neurons, axis=1)
        QK, VO = (_pick(np.linalg.inv(inner), heads) for inner in (self.QK, self.VO))
        return Symmetry(heads, QK, VO, neurons, 1 / _pick(self.scales, neurons), self.R.T)


def apply(weights: Weights, g: Symmetry) -> Weights:
    """Weights of the same function: see the module's equations.

    Raises:
        ValueError: an element of a model of other sizes.
    """
    return Weights(**moved(weights, g))


def moved(weights: Decoder, g: Symmetry) -> dict[str, np.ndarray]:
    """The arrays after g, by name.

    Raises:
        ValueError: an element of a model of other sizes.
    """
    shapes = (weights.W_Q.shape[:2], weights.W_in.shape[::2], weights.W_E.shape[1:] * 2)
    if (g.heads.shape, g.neurons.shape, g.R.shape) != shapes:
        raise ValueError(
            f"heads {g.heads.shape}, neurons {g.neurons.shape} and R {g.R.shape} do not fit this "
            f"model's {shapes}."
        )
    R, Rt, s = g.R, g.R.T, g.scales
    inverse_QK, inverse_VO = np.linalg.inv(g.QK), np.linalg.inv(g.VO)
    W_Q, W_K, W_V, W_O = (
        _pick(getattr(weights, name), g.heads) for name in ("W_Q", "W_K", "W_V", "W_O")
    )
    W_in = _pick(weights.W_in.swapaxes(1, 2), g.neurons).swapaxes(1, 2)
    return dict(
        W_E=weights.W_E @ R,
        W_pos=weights.W_pos @ R,
        W_Q=Rt @ W_Q @ g.QK,
        W_K=Rt @ W_K @ inverse_QK.swapaxes(-1, -2),
        W_V=Rt @ W_V @ g.VO,
        W_O=inverse_VO @ W_O @ R,
        W_in=Rt @ W_in * s[:, None, :],
        W_out=_pick(weights.W_out, g.neurons) @ R / s[:, :, None],
        W_U=Rt @ weights.W_U,
    )


def compose(first: Symmetry, then: Symmetry) -> Symmetry:
    """``apply(w, compose(g, h)) = apply(apply(w, g), h)``.

    Raises:
        ValueError: elements of models of different sizes.
    """
    if (first.QK.shape, first.neurons.shape) != (then.QK.shape, then.neurons.shape):
        raise ValueError("elements of models of different sizes do not compose.")
    return Symmetry(
        heads=_pick(first.heads, then.heads),
        QK=_pick(first.QK, then.heads) @ then.QK,
        VO=_pick(first.VO, then.heads) @ then.VO,
        neurons=_pick(first.neurons, then.neurons),
        scales=_pick(first.scales, then.neurons) * then.scales,
        R=first.R @ then.R,
    )


def random_element(
    generator: np.random.Generator,
    weights: Decoder,
    *,
    kind: str = "orthogonal",
    spread: float = 0.5,
) -> Symmetry:
    """Uniform permutations, a Haar R from O(d_model), scales exp(N(0, spread²)), and A, B from Haar
    measure on O(d_head); ``"invertible"`` ones have singular values exp(N(0, spread²)).

    Raises:
        ValueError: another kind, or a negative spread.
    """
    if kind not in KINDS or not spread >= 0:
        raise ValueError(f"kind is one of {KINDS} and spread ≥ 0; got {kind!r} and {spread}.")
    layers, n_heads, d_model, d_head = weights.W_Q.shape
    d_mlp = weights.W_in.shape[2]

    def inner() -> np.ndarray:
        left, right = (haar(generator, d_head, layers * n_heads) for _ in range(2))
        sigma = np.exp(spread * generator.standard_normal((len(left), 1, d_head)))
        turned = left if kind == "orthogonal" else left * sigma @ right
        return turned.reshape(layers, n_heads, d_head, d_head)

    return Symmetry(
        heads=np.stack([generator.permutation(n_heads) for _ in range(layers)]),
        QK=inner(),
        VO=inner(),
        neurons=np.stack([generator.permutation(d_mlp) for _ in range(layers)]),
        scales=np.exp(spread * generator.standard_normal((layers, d_mlp))),
        R=haar(generator, d_model, 1)[0],
    )


def _pick(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Entry ``order[layer, i]`` of each layer, in place i."""
    return values[np.arange(len(order))[:, None], order]
