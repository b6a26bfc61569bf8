r"""Clock or Pizza: two numbers that tell apart two ways to add modulo p.

A *Clock* multiplies: from a point on a circle for a and one for b it makes
:math:`\cos w(a+b-c)`, so the gradients with respect to a and b differ and the size of the answer
does not depend on a − b.  A *Pizza* works on the sum of the two points, whose length is
:math:`2|\cos(w(a-b)/2)|`: its gradients are equal, and the correct logit follows the distance.

Source: Zhong, Liu, Tegmark & Andreas 2023, "The Clock and the Pizza" (arXiv:2306.17844),
definitions 4.1 and 4.2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from helpers.models import SmallTransformer

EmbeddingLogits = Callable[[Tensor, Tensor], Tensor]
"""From the embeddings of a and of b, each (n, D), to logits (n, K), row by row."""


def from_embeddings(model: SmallTransformer) -> EmbeddingLogits:
    """The model as a function of the token embeddings of a and b, read at the last position.

    Positions are added inside, so the derivative is the one with respect to ``W_E``'s rows.
    """

    def logits(emb_a: Tensor, emb_b: Tensor) -> Tensor:
        # Every input gets two words of its own in a made-up vocabulary.
        tokens = torch.arange(2 * len(emb_a), device=emb_a.device).reshape(2, -1).T
        words = {"tok_embed.weight": torch.cat([emb_a, emb_b])}
        return torch.func.functional_call(model, words, (tokens,))[:, -1]

    return logits


def random_triples(p: int, n: int, generator: np.random.Generator) -> Int[np.ndarray, "n 3"]:
    """Independent uniform (a, b, c) below p; c is any class, not only the sum."""
    return generator.integers(p, size=(n, 3))


def gradient_cosines(
    logits: EmbeddingLogits, W_E: Float[Tensor, "p D"], triples: Int[np.ndarray, "n 3"]
) -> Float[np.ndarray, " n"]:
    r"""Cosine between :math:`\partial Q_c/\partial E_a` and :math:`\partial Q_c/\partial E_b`.

    Q_c is the logit of class c on the input (a, b), E_a and E_b the embeddings of its tokens, as
    two variables even where a = b.

    Raises:
        ValueError: no triple, one outside the vocabulary, or a logit that does not depend on one
            of its inputs (no angle is defined then).
    """
    if np.ndim(triples) != 2 or np.shape(triples)[1] != 3 or not len(triples):
        raise ValueError(f"triples must be (n, 3) with n ≥ 1; got shape {np.shape(triples)}.")
    if np.min(triples) < 0 or np.max(triples) >= len(W_E):
        raise ValueError(f"triples hold classes below p = {len(W_E)}; got {np.max(triples)}.")
    a, b, c = torch.as_tensor(triples, device=W_E.device).long().T
    emb_a, emb_b = (W_E.detach()[token].requires_grad_() for token in (a, b))
    with torch.enable_grad():
        chosen = logits(emb_a, emb_b).gather(1, c[:, None]).sum()  # rows do not mix
        grad_a, grad_b = (
            g.double().cpu().numpy()
            for g in torch.autograd.grad(chosen, (emb_a, emb_b), materialize_grads=True)
        )
    sizes = np.linalg.norm(grad_a, axis=1) * np.linalg.norm(grad_b, axis=1)
    if not (sizes > 0).all():
        bad = triples[np.argmin(sizes > 0)].tolist()
        raise ValueError(
            f"at (a, b, c) = {bad} the logit does not depend on one of its inputs, or is NaN, so "
            "there is no angle. Is the model trained, and finite?"
        )
    return np.sum(grad_a * grad_b, axis=1) / sizes


def gradient_symmetricity(
    logits: EmbeddingLogits, W_E: Float[Tensor, "p D"], triples: Int[np.ndarray, "n 3"]
) -> float:
    r"""Mean of :func:`gradient_cosines`, in [−1, 1]: 1 for any function of :math:`E_a + E_b`.

    An ideal Clock has :math:`\cos w(a-b)` at each triple, so 0 on average over all.  The paper
    takes 100 random triples and finds 0.99 and 0.33 for its Pizza and its Clock.
    """
    return float(gradient_cosines(logits, W_E, triples).mean())


def correct_logits(logits: Float[np.ndarray, "pairs p"]) -> Float[np.ndarray, "p p"]:
    """Table L[a, b] of the logit of a + b mod p, from all pairs in the order a p + b.

    A shift of all logits of an input changes no probability but changes L: centre them first.

    Raises:
        ValueError: not p² rows of p logits.
    """
    p = np.shape(logits)[-1]
    if np.shape(logits) != (p * p, p):
        raise ValueError(f"need logits (p², p), pair a p + b; got shape {np.shape(logits)}.")
    a, b = np.divmod(np.arange(p * p), p)
    return logits[np.arange(p * p), (a + b) % p].reshape(p, p)


def distance_irrelevance(L: Float[np.ndarray, "p p"]) -> float:
    r"""How little the correct logit depends on the distance: :math:`q =
    \frac1p \sum_d \mathrm{std}_a(L_{a,a+d}) \,/\, \mathrm{std}_{a,b}(L_{a,b})`, in [0, 1].

    0 where the distance says everything (an ideal Pizza), near 1 where it says nothing.  An ideal
    Clock has a constant correct logit and no q; a trained one's remaining variation gives its q.
    Noise alone gives 1 − 3/(4 p), so compare with an untrained model.  The paper finds 0.17 and
    0.85 for its Pizza and its Clock.

    Raises:
        ValueError: no square table, NaN or infinity, or a constant table.
    """
    if np.ndim(L) != 2 or len(set(np.shape(L))) != 1:
        raise ValueError(f"the table of correct logits must be (p, p); got shape {np.shape(L)}.")
    L = np.asarray(L, dtype=np.float64)
    if not np.isfinite(L).all():
        raise ValueError("the table of correct logits holds NaN or infinity.")
    total = L.std()
    if not total > 1e-12 * np.abs(L).max():
        raise ValueError("the correct logit is the same for all pairs, so nothing is to be shared.")
    a = np.arange(len(L))
    by_distance = L[a, (a + a[:, None]) % len(L)]  # row d holds L[a, a + d]
    return float(by_distance.std(axis=1).mean() / total)
