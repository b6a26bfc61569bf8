r"""How many directions of a layer a read-out needs, and how many it would need by chance.

Keeping or removing one direction more changes each activation by a multiple of one vector.  So a
whole curve over ranks costs little more than one forward pass, and many nulls can be afforded.

Source: Schiffman 2026 (validate).
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Real

import numpy as np
from jaxtyping import Float, Int

from helpers.interventions import necessary_rank, sufficient_rank
from helpers.readout import Readout, core


def accuracy(readout: Readout, H: Float[np.ndarray, "N D"], labels: Int[np.ndarray, " N"]) -> float:
    """Share of activations whose largest logit is at their label.

    Raises:
        ValueError: activations that the read-out does not take, or labels that are not one of its
            K outputs for each of them.
    """
    logits = readout.logits(H)
    _check_labels(labels, logits.shape)
    return float(np.mean(logits.argmax(axis=1) == labels))


def rank_curves(
    readout: Readout,
    H: Float[np.ndarray, "N D"],
    labels: Int[np.ndarray, " N"],
    basis: Float[np.ndarray, "D m"],
    mean: Float[np.ndarray, " D"],
    mode: str,
) -> Float[np.ndarray, " m"]:
    r"""Accuracy after ``keep`` or ``remove`` of the leading 1, 2, …, m directions.

    It equals :func:`helpers.interventions.rank_curve` scored by :func:`accuracy`.  One direction
    more changes each activation by a multiple of one vector, so the product with W and LayerNorm's
    variance are updated: O(N K) a rank, not O(N D K).

    Raises:
        ValueError: an unknown mode, arrays that do not fit one another, NaN or infinity.
    """
    H = readout.check_activations(H)
    if basis.shape[0] != H.shape[1] or mean.shape != H.shape[1:] or labels.shape != H.shape[:1]:
        raise ValueError(
            f"activations {H.shape} need a basis (D, m), a mean (D,) and labels (N,); got "
            f"{basis.shape}, {mean.shape} and {labels.shape}."
        )
    if mode not in ("keep", "remove"):
        raise ValueError(f"mode must be 'keep' or 'remove'; got {mode!r}.")
    _check_labels(labels, (len(H), readout.W_U.shape[1]))
    start, sign = (np.tile(mean, (len(H), 1)), 1.0) if mode == "keep" else (H, -1.0)
    change = sign * ((H - mean) @ basis)  # coordinates added to start, one column a rank
    if not np.isfinite(change).all():
        raise ValueError("the basis or the mean holds NaN or infinity; where do they come from?")
    W, b = readout.linear
    along, scaled = basis.T @ W, start @ W  # logits times σ
    sigma = _sigmas(readout, start, change, basis)
    curve = np.empty(basis.shape[1])
    for r in range(len(curve)):
        scaled += change[:, r, None] * along[r]
        curve[r] = np.mean((scaled + sigma[:, r, None] * b).argmax(axis=1) == labels)
    return curve


def _check_labels(labels: np.ndarray, shape: tuple[int, int]) -> None:
    N, K = shape
    if np.shape(labels) != (N,):
        raise ValueError(f"{N} activations need as many labels; got shape {np.shape(labels)}.")
    outside = np.setdiff1d(labels, np.arange(K))
    if len(outside):
        raise ValueError(
            f"labels lie in 0…{K - 1}, one for each output; got {outside[:5].tolist()}."
        )


def _sigmas(
    readout: Readout, start: np.ndarray, change: np.ndarray, basis: np.ndarray
) -> np.ndarray:
    """LayerNorm's σ (N, m) of ``start`` plus the leading r changes along ``basis``, r = 1…m."""
    if readout.scale is None:
        return np.ones(change.shape)
    start = start - start.mean(axis=1, keepdims=True)
    basis = basis - basis.mean(axis=0)
    inner = basis.T @ basis
    before = start @ basis + change @ np.triu(inner, 1)  # with the vector reached so far
    grown = np.cumsum(change * (2 * before + change * np.diag(inner)), axis=1)
    squares = np.sum(start**2, axis=1, keepdims=True) + grown
    return np.sqrt(np.maximum(squares, 0) / len(basis) + readout.eps)


def causal_ranks(
    readout: Readout,
    H: Float[np.ndarray, "N D"],
    labels: Int[np.ndarray, " N"],
    basis: Float[np.ndarray, "D m"],
    mean: Float[np.ndarray, " D"],
    tolerance: float = 1e-3,
    ceiling: float | None = None,
) -> tuple[int | None, int | None]:
    """Sufficient and necessary rank along ``basis``; None where no rank up to m does it.

    Keep must come within ``tolerance`` of the untouched accuracy, removal down to ``ceiling``,
    by default twice chance, 2/K.
    """
    ceiling = 2 / readout.W_U.shape[1] if ceiling is None else ceiling
    keep, remove = (rank_curves(readout, H, labels, basis, mean, m) for m in ("keep", "remove"))
    base = accuracy(readout, H, labels)
    return sufficient_rank(keep, base, tolerance), necessary_rank(remove, ceiling)


def principal_basis(H: Float[np.ndarray, "N D"], rank: int) -> Float[np.ndarray, "D r"]:
    """The leading principal directions of the activations, orthonormal."""
    if not 1 <= rank <= min(H.shape):
        raise ValueError(f"activations {H.shape} have {min(H.shape)} directions; got rank {rank}.")
    return np.linalg.svd(H - H.mean(axis=0), full_matrices=False)[2][:rank].T


def random_basis(D: int, rank: int, generator: np.random.Generator) -> Float[np.ndarray, "D r"]:
    """An orthonormal basis of a uniformly drawn subspace."""
    if not 1 <= rank <= D:
        raise ValueError(f"a basis in {D} dimensions has 1…{D} vectors; got {rank}.")
    return np.linalg.qr(generator.standard_normal((D, rank)))[0]


def random_readout(readout: Readout, generator: np.random.Generator) -> Readout:
    """The same norm before a Gaussian ``W_U`` of the same shape and root mean square."""
    size = np.sqrt(np.mean(readout.W_U**2))
    return replace(readout, W_U=size * generator.standard_normal(readout.W_U.shape))


def random_readout_ranks(
    readout: Readout,
    H_fit: Float[np.ndarray, "n D"],
    H_score: Float[np.ndarray, "N D"],
    rank: Real,
    generator: np.random.Generator,
) -> tuple[int | None, int | None]:
    r"""Sufficient and necessary rank of ACE on a random read-out, scored on its own outputs.

    The labels are its own largest logits.  They are not balanced: a constant guess already scores
    the share c of the commonest one.  So chance is c, and the ceiling :math:`c + (1-c)/(K-1)`,
    which is 2/K where c = 1/K.
    """
    other = random_readout(readout, generator)
    labels = other.logits(H_score).argmax(axis=1)
    common = np.bincount(labels).max() / len(labels)
    ceiling = common + (1 - common) / (readout.W_U.shape[1] - 1)
    found = core(other, H_fit, rank)
    return causal_ranks(other, H_score, labels, found.basis, found.mean, ceiling=ceiling)
