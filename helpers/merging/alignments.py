r"""Symmetries that bring model B to model A, by what they are fitted on.  All leave B's function.

``folded``       nothing: the identity.
``permutation``  heads and neurons permuted, by their weights (git re-basin); R, A, B and scales
                 stay trivial, so layers do not depend on each other and one step is exact.
``weights``      the whole group, by weights: :func:`helpers.merging.matching.match`.
``activations``  R by Procrustes on both residual streams at all sites, on rows that are not scored,
                 then heads and neurons matched for that R.
``core``         R by core coordinates, and nothing else moves.
``core, matched``  the same R, then heads and neurons matched for it.
``random``       the null: a random element, R from Haar measure.

The R of a core: with orthonormal bases Q_A, Q_B (d, r) of both cores and T the orthogonal
Procrustes solution from B's core coordinates to A's on the same inputs,

.. math:: R = Q_B T Q_A^\top + N_B K N_A^\top,

where N spans what is orthogonal to Q, and K is the orthogonal matrix that makes R's second part
closest to the identity (Procrustes on N_Bᵀ N_A).  So core coordinates land where A has its own, and
everything else stays as close to where it is as an orthogonal map allows.

Source: Ainsworth, Hayase & Srinivasa 2023, git re-basin (arXiv:2209.04836), for permutations.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Real

import numpy as np
from jaxtyping import Float

from helpers.cores import Core, ace
from helpers.merging.elements import LABELLED
from helpers.merging.exams import Exam, read_by_unembedding, streams
from helpers.merging.forms import Form, check_pair
from helpers.merging.matching import (
    costs,
    match,
    match_heads,
    match_inside,
    match_neurons,
    residual_cross,
)
from helpers.symmetry.closed_forms import procrustes
from helpers.symmetry.group import Symmetry, random_element
from helpers.symmetry.pull import activation_pull

TIE = 1e-6
"""Share of the weights in a fit on activations: they decide only what activations leave open."""


def permutation(source: Form, target: Form) -> Symmetry:
    """Heads and neurons permuted by weights, and nothing rotated or scaled."""
    check_pair(source, target)
    c, still = costs(target), Symmetry.identity(source)
    heads = match_heads(source, target, still, c, rotate=False)
    return match_neurons(source, target, heads, c, scale=False)


def by_activations(source: Form, target: Form, fit: Exam) -> Symmetry:
    """R from both streams on the rows of ``fit`` (every site counts alike), then what is inside.

    A rotation of the stream has no offset, so nothing is centred.
    """
    check_pair(source, target)
    c = costs(target)
    pull = activation_pull(streams(source, fit), streams(target, fit), normalised=True)
    weights = residual_cross(source, target, c, LABELLED)
    R = procrustes(
        pull.cross / np.linalg.norm(pull.cross) + TIE * weights / np.linalg.norm(weights)
    )
    return match_inside(source, target, replace(Symmetry.identity(source), R=R), c)


def readout_core(form: Form, exam: Exam, rank: Real = 0.99) -> tuple[Core, np.ndarray]:
    """The core of what the unembedding reads, by :func:`helpers.cores.ace`, and what it reads.

    J is W_U with its mean over each output's logits taken out, which no probability sees.
    """
    H = read_by_unembedding(form, exam)
    parts = [form.W_U[:, part] for part in exam.outputs.values()]
    J = np.hstack([W - W.mean(axis=1, keepdims=True) for W in parts]).T
    return ace(H, J, rank), H


def core_rotation(
    source: Core,
    target: Core,
    X: Float[np.ndarray, "N d"],
    Y: Float[np.ndarray, "N d"],
) -> Float[np.ndarray, "d d"]:
    """R of the module's equation, from what both models have on the same inputs.

    Raises:
        ValueError: cores of different ranks.
    """
    if source.rank != target.rank:
        raise ValueError(
            f"cores of ranks {source.rank} and {target.rank}: take one rank for both, say the "
            "larger."
        )
    z_source, z_target = X @ source.basis, Y @ target.basis  # a rotation has no offset
    T = procrustes(z_source.T @ z_target)
    N_source, N_target = (_complement(core.basis) for core in (source, target))
    K = procrustes(N_source.T @ N_target)
    return source.basis @ T @ target.basis.T + N_source @ K @ N_target.T


def by_core(source: Form, target: Form, fit: Exam, rank: Real = 0.99) -> Symmetry:
    """R by core coordinates of what the unembedding reads; nothing else moves.

    With a share as ``rank`` both cores get the larger of the two ranks that hold it.
    """
    check_pair(source, target)
    (core_s, X), (core_t, Y) = (readout_core(form, fit, rank) for form in (source, target))
    if core_s.rank != core_t.rank:
        larger = max(core_s.rank, core_t.rank)
        core_s, core_t = (readout_core(form, fit, larger)[0] for form in (source, target))
    return replace(Symmetry.identity(source), R=core_rotation(core_s, core_t, X, Y))


def alignments(
    source: Form,
    target: Form,
    fit: Exam,
    generator: np.random.Generator,
    *,
    rank: Real = 0.99,
    starts: int = 0,
) -> dict[str, Symmetry]:
    """Every alignment of the module's list, by name.

    Args:
        source: B, which is moved.
        target: A, to which it is brought.
        fit: rows for activations and cores; score on others.
        generator: for the random element and for random starts.
        rank: of the cores, see :func:`by_core`.
        starts: random ones of ``weights``.

    Raises:
        ValueError: models of different sizes, or a rank that cannot be had.
    """
    core = by_core(source, target, fit, rank)
    return {
        "folded": Symmetry.identity(source),
        "permutation": permutation(source, target),
        "weights": match(source, target, generator, starts=starts).symmetry,
        "activations": by_activations(source, target, fit),
        "core": core,
        "core, matched": match_inside(source, target, core, costs(target)),
        "random": random_element(generator, source),
    }


def _complement(basis: np.ndarray) -> np.ndarray:
    """Orthonormal columns (d, d − r) that are orthogonal to these."""
    return np.linalg.qr(basis, mode="complete")[0][:, basis.shape[1] :]
