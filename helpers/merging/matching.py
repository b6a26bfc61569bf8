r"""Each part of a symmetry in closed form, the others held, and the search that alternates them.

What is minimised is :math:`\sum_t c_t \|W_t^g - W'_t\|_F^2` over tensors t (a bias counts with its
matrix), with the source's weights after the symmetry g and the target's W′.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

from helpers.alignment.haar import haar
from helpers.merging.elements import LABELLED, READERS, WRITERS, rows, transform
from helpers.merging.forms import TENSORS, Form, check_pair
from helpers.symmetry.closed_forms import procrustes
from helpers.symmetry.group import Symmetry
from helpers.symmetry.neurons import Pairs, assign

Costs = dict[str, float]
MATRIX = {"b_Q": "W_Q", "b_O": "W_O", "b_in": "W_in", "b_out": "W_out", "b_U": "W_U"}
ENOUGH = 1e-6  # a round that gains a smaller share of the loss is the last
EXACT = 1e-14  # of the weights' own size: nothing is left to match


def costs(target: Form) -> Costs:
    """c_t = 1 / entries of t's matrix: every matrix counts alike, as in :mod:`helpers.symmetry`."""
    return {name: 1 / getattr(target, MATRIX.get(name, name)).size for name in TENSORS}


def distance(source: Form, target: Form, c: Costs) -> float:
    """Σ_t c_t ‖W_t − W′_t‖²."""
    gaps = {n: np.square(getattr(source, n) - getattr(target, n)).sum() for n in TENSORS}
    return float(sum(c[name] * gap for name, gap in gaps.items()))


def match_heads(
    source: Form, target: Form, g: Symmetry, c: Costs, *, rotate: bool = True
) -> Symmetry:
    r"""g with the best permutation of heads for its R, each pair with its best rotations.

    With rows that q, k, v, o of source head i and target head j have in common,
    :math:`M_{ij} = \sum c X_i^\top Y_j`, a pair wins the nuclear norms of its two M with its best
    A and B, or their traces without ``rotate`` (A = B = I).  Hungarian assignment takes the most.
    """
    layers = []
    for i in range(source.n_layers):
        cross = [_cross(source, target, g.R, c, i, names) for names in (("Q", "K"), ("V", "O"))]
        if rotate:
            win = sum(np.linalg.svd(M, compute_uv=False).sum(-1) for M in cross)
        else:
            win = sum(np.trace(M, axis1=2, axis2=3) for M in cross)
        old, new = linear_sum_assignment(win, maximize=True)
        order, places = old[np.argsort(new)], np.arange(len(old))
        inner = [
            procrustes(M[order, places])
            if rotate
            else np.broadcast_to(np.eye(M.shape[-1]), M.shape[1:])
            for M in cross
        ]
        layers.append((order, *inner))
    heads, QK, VO = (np.stack(part) for part in zip(*layers, strict=True))
    return replace(g, heads=heads, QK=QK, VO=VO)


def match_neurons(
    source: Form, target: Form, g: Symmetry, c: Costs, *, scale: bool = True
) -> Symmetry:
    """g with the neurons matched for its R, each with its best positive scale; 1 without ``scale``.

    A neuron is what it reads, its bias, and what it writes.
    """
    layers = []
    for i, now in enumerate(g.neurons):
        reads, aims = (
            np.sqrt(c["W_in"]) * np.column_stack([W.T @ R, b])
            for W, b, R in (
                (source.W_in[i], source.b_in[i], g.R),
                (target.W_in[i], target.b_in[i], np.eye(len(g.R))),
            )
        )
        writes, wants = (np.sqrt(c["W_out"]) * W for W in (source.W_out[i] @ g.R, target.W_out[i]))
        beta, gamma = reads @ aims.T, writes @ wants.T
        if scale:
            sizes = [np.square(part).sum(1) for part in (reads, writes, aims, wants)]
            layers.append(assign(Pairs(sizes[0], sizes[1], beta, gamma, *sizes[2:]), now))
        else:
            old, new = linear_sum_assignment(beta + gamma, maximize=True)
            layers.append((old[np.argsort(new)], np.ones(len(now))))
    neurons, scales = (np.stack(part) for part in zip(*layers, strict=True))
    return replace(g, neurons=neurons, scales=scales)


def match_inside(source: Form, target: Form, g: Symmetry, c: Costs) -> Symmetry:
    """g with the best heads and neurons for its R."""
    return match_neurons(source, target, match_heads(source, target, g, c), c)


def residual_cross(
    source: Form, target: Form, c: Costs, names: tuple[str, ...] = (*WRITERS, *READERS)
) -> Float[np.ndarray, "d_model d_model"]:
    """M = Σ_t c_t X_tᵀ Y_t over rows in the residual stream; the best R is ``procrustes(M)``."""
    return sum(c[name] * rows(source, name).T @ rows(target, name) for name in names)


@dataclass(frozen=True, eq=False)
class Matched:
    """The best ``symmetry`` that was found, its ``distance``, and that of every start, by kind."""

    symmetry: Symmetry
    distance: float
    starts: tuple[tuple[str, float], ...]


def match(
    source: Form,
    target: Form,
    generator: np.random.Generator,
    *,
    starts: int = 0,
    rounds: int = 30,
) -> Matched:
    """The symmetry of the source that comes closest to the target by its weights.

    Rounds of heads, neurons and R, each step in closed form, so that none makes it worse.  They
    begin at the best R of the tensors that nothing else acts on, at the identity, and at ``starts``
    Haar rotations.  What comes out is the best local minimum found;
    trained models of this book end within two percent of each other from every start.

    Raises:
        ValueError: models of different sizes, or fewer than one round.
    """
    check_pair(source, target)
    if starts < 0 or rounds < 1:
        raise ValueError(f"need starts ≥ 0 and rounds ≥ 1; got {starts} and {rounds}.")
    c, still = costs(target), Symmetry.identity(source)
    size = sum(c[name] * np.square(getattr(target, name)).sum() for name in TENSORS)
    begin = [("labelled", procrustes(residual_cross(source, target, c, LABELLED)))]
    begin.append(("identity", still.R))
    begin += [("haar", R) for R in haar(generator, len(still.R), starts)] if starts else []
    tried = []
    for kind, R in begin:
        g, now = replace(still, R=R), np.inf
        for _ in range(rounds):
            before, g = now, match_inside(source, target, g, c)
            placed = transform(source, replace(g, R=still.R))
            g = replace(g, R=procrustes(residual_cross(placed, target, c)))
            now = distance(transform(source, g), target, c)
            if before - now < ENOUGH * now or now < EXACT * size:
                break
        tried.append((now, kind, g))
        if now < EXACT * size:
            break  # nothing is left for another start to find
    best = min(tried, key=lambda one: one[0])
    return Matched(best[2], best[0], tuple((kind, now) for now, kind, _ in tried))


def _cross(
    source: Form, target: Form, R: np.ndarray, c: Costs, layer: int, names: tuple[str, str]
) -> Float[np.ndarray, "source_head target_head k k"]:
    """M of two of a head's four matrices."""
    total = 0.0
    for name in names:
        x, y = (getattr(side, f"W_{name}")[layer] for side in (source, target))
        if name == "O":
            x, y = x.swapaxes(1, 2), y.swapaxes(1, 2)
        part = (x.swapaxes(1, 2) @ R)[:, None] @ y
        if name == "Q":  # its bias is one more row, which R leaves alone
            part = part + source.b_Q[layer][:, None, :, None] * target.b_Q[layer][None, :, None, :]
        total = total + c[f"W_{name}"] * part
    return total
