r"""Each part of a symmetry in closed form, the other parts held: the steps of the alignment.

What is minimised is :math:`\sum_t c_t \|W_t^g - W'_t\|_F^2` over tensors t, with the source's
weights after the symmetry g and the target's W′; c is :func:`tensor_weights`'s.  Given the residual
rotation R, the heads and the neurons of every layer come apart.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

from helpers.symmetry.group import Symmetry, apply
from helpers.symmetry.neurons import Pairs, assign
from helpers.symmetry.weights import Weights

Costs = dict[str, float]
LABELLED = ("W_E", "W_pos", "W_U.copy", "W_U.depth", "W_U.sticky")
"""Tensors whose rows have names (tokens, features, answers): only R acts on them."""


def tensor_weights(target: Weights) -> Costs:
    """c_t = 1 / (number of tensors × entries of t): what is minimised is the mean of the MSEs.

    A sum over all entries would hardly see the small tensors, and bar P reads the worst one.
    """
    tensors = target.tensors()
    return {name: 1 / (len(tensors) * value.size) for name, value in tensors.items()}


def loss(source: Weights, target: Weights, g: Symmetry, c: Costs) -> float:
    """What is minimised, by its definition."""
    moved, wanted = apply(source, g).tensors(), target.tensors()
    return float(sum(c[name] * np.square(moved[name] - wanted[name]).sum() for name in wanted))


def procrustes(M: Float[np.ndarray, "*batch d d"]) -> Float[np.ndarray, "*batch d d"]:
    """The orthogonal X that maximises tr(Xᵀ M): U Vᵀ with the SVD M = U Σ Vᵀ (Schönemann 1966)."""
    U, _, Vt = np.linalg.svd(M)
    return U @ Vt


def best_heads(
    source: Weights, target: Weights, g: Symmetry, c: Costs, *, rotate: bool = True
) -> Symmetry:
    r"""g with the best permutation and rotations of all heads that there are for its R.

    With :math:`M_{ij} = c_Q W_Q^{i\top} R W_Q'^j + c_K W_K^{i\top} R W_K'^j` the best A between
    source head i and target head j wins tr(Aᵀ M_ij), the nuclear norm of M_ij; likewise B.  The
    permutation is the assignment that wins most.  Without ``rotate`` A and B become the identity.
    """
    layers = []
    for i in range(len(source.W_Q)):
        QK, VO = _cross(source, target, g.R, c, i)
        if rotate:
            win = sum(np.linalg.svd(M, compute_uv=False).sum(-1) for M in (QK, VO))
        else:
            win = np.trace(QK + VO, axis1=2, axis2=3)
        old, new = linear_sum_assignment(win, maximize=True)
        layers.append(_turned(QK, VO, old[np.argsort(new)], rotate))
    heads, A, B = (np.stack(part) for part in zip(*layers, strict=True))
    return replace(g, heads=heads, QK=A, VO=B)


def turn_heads(source: Weights, target: Weights, g: Symmetry, c: Costs) -> Symmetry:
    """g with the best rotations for the permutation of heads that it has."""
    layers = [
        _turned(*_cross(source, target, g.R, c, i), order, True) for i, order in enumerate(g.heads)
    ]
    _, A, B = (np.stack(part) for part in zip(*layers, strict=True))
    return replace(g, QK=A, VO=B)


def best_neurons(source: Weights, target: Weights, g: Symmetry, c: Costs) -> Symmetry:
    """g with the neurons matched and scaled for its R: :func:`helpers.symmetry.neurons.assign`."""
    layers = []
    for i, now in enumerate(g.neurons):
        c_in, c_out = (c[f"blocks.{i}.{name}"] for name in ("W_in", "W_out"))
        reads, writes = source.W_in[i].T @ g.R, source.W_out[i] @ g.R
        pairs = Pairs(
            c_in * np.square(reads).sum(1),
            c_out * np.square(writes).sum(1),
            c_in * reads @ target.W_in[i],
            c_out * writes @ target.W_out[i].T,
            c_in * np.square(target.W_in[i]).sum(0),
            c_out * np.square(target.W_out[i]).sum(1),
        )
        layers.append(assign(pairs, now))
    neurons, scales = (np.stack(part) for part in zip(*layers, strict=True))
    return replace(g, neurons=neurons, scales=scales)


def residual_cross(
    source: Weights, target: Weights, g: Symmetry, c: Costs
) -> Float[np.ndarray, "d_model d_model"]:
    """M = Σ_t c_t X_tᵀ Y_t over rows in the residual stream, the source's before R; the loss is a
    constant − 2 tr(Rᵀ M), so that the best R is ``procrustes(M)``."""
    X = apply(source, replace(g, R=np.eye(len(g.R)))).vectors()
    return sum(c[name] * X[name].T @ y for name, y in target.vectors().items())


def labelled_rotation(
    source: Weights, target: Weights, c: Costs
) -> Float[np.ndarray, "d_model d_model"]:
    """The best R for the tensors that nothing else acts on: see :data:`LABELLED`."""
    X, Y = source.vectors(), target.vectors()
    return procrustes(sum(c[name] * X[name].T @ Y[name] for name in LABELLED))


def _cross(source: Weights, target: Weights, R: np.ndarray, c: Costs, layer: int) -> list:
    """M of QK and of VO, each (source head, target head, k, k)."""
    pairs = []
    for names in (("W_Q", "W_K"), ("W_V", "W_O")):
        total = 0.0
        for name in names:
            x, y = (getattr(side, name)[layer] for side in (source, target))
            if name == "W_O":
                x, y = x.swapaxes(1, 2), y.swapaxes(1, 2)
            turned = c[f"blocks.{layer}.{name}"] * x.swapaxes(1, 2) @ R  # head k d
            total = total + turned[:, None] @ y
        pairs.append(total)
    return pairs


def _turned(QK: np.ndarray, VO: np.ndarray, order: np.ndarray, rotate: bool) -> tuple:
    """The permutation with its best A and B."""
    places = np.arange(len(order))
    if rotate:
        return order, procrustes(QK[order, places]), procrustes(VO[order, places])
    still = np.broadcast_to(np.eye(QK.shape[-1]), (len(order), *QK.shape[2:]))
    return order, still, still
