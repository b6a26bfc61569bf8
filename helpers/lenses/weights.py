r"""Direct weights: how large each head's circuits are, and whether size says that a head is used.

A head reads and writes through two products of its matrices,

.. math:: W_{QK} = W_Q W_K^\top / \sqrt{d_{head}}, \qquad W_{OV} = W_V W_O,

of rank d_head at most, both (d_model, d_model).  No other part of the weights matters: rotations
within a head leave both as they are.  Take folded weights, or a gain that multiplies what a head
reads is missed.

Source: Elhage et al. 2021 ("A mathematical framework"), the circuits; Roy & Vetterli 2007, the
effective rank; McCann 2026 (vestigial heads).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import hypergeom
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Circuit:
    """A product of a head's matrices: ``singular_values`` (…, d_head), largest first."""

    singular_values: np.ndarray

    @property
    def norm(self) -> Float[np.ndarray, "*heads"]:
        """Frobenius norm."""
        return np.linalg.norm(self.singular_values, axis=-1)

    @property
    def effective_rank(self) -> Float[np.ndarray, "*heads"]:
        """:func:`effective_rank`."""
        return effective_rank(self.singular_values)


def circuit(
    A: Float[np.ndarray, "*heads d_model d_head"], B: Float[np.ndarray, "*heads d_head d_model"]
) -> Circuit:
    """Singular values of A B, from two small factors: those of R_A R_Bᵀ of their QR.

    Raises:
        ValueError: NaN or infinity.
    """
    if not (np.isfinite(A).all() and np.isfinite(B).all()):
        raise ValueError("the weights hold NaN or infinity; did training diverge?")
    R_A = np.linalg.qr(np.asarray(A, np.float64), mode="r")
    R_B = np.linalg.qr(np.asarray(B, np.float64).swapaxes(-1, -2), mode="r")
    return Circuit(np.linalg.svd(R_A @ R_B.swapaxes(-1, -2), compute_uv=False))


def effective_rank(
    singular_values: Float[np.ndarray, "*heads r"],
) -> Float[np.ndarray, "*heads"]:
    r"""exp of the entropy of σ / Σσ: r for equal values, 1 for a single one; NaN for zeros."""
    total = singular_values.sum(axis=-1, keepdims=True)
    share = singular_values / np.where(total > 0, total, np.nan)
    entropy = -np.where(share > 0, share * np.log(np.where(share > 0, share, 1)), 0).sum(axis=-1)
    return np.where(total[..., 0] > 0, np.exp(entropy), np.nan)


def head_circuits(
    W_Q: Float[Tensor, "layer head d_model d_head"],
    W_K: Float[Tensor, "layer head d_model d_head"],
    W_V: Float[Tensor, "layer head d_model d_head"],
    W_O: Float[Tensor, "layer head d_head d_model"],
) -> dict[str, Circuit]:
    """``QK`` and ``OV`` of every head; any model with TransformerLens's names has these weights."""
    Q, K, V, O = (w.detach().cpu().double().numpy() for w in (W_Q, W_K, W_V, W_O))  # noqa: E741
    return {
        "QK": circuit(Q / math.sqrt(Q.shape[-1]), K.swapaxes(-1, -2)),
        "OV": circuit(V, O),
    }


@dataclass(frozen=True, eq=False)
class Vestigial:
    """Heads that are large and idle, as a mask (layer, head).

    ``chance`` is the probability that there is one at all if norm and effect had nothing to do with
    each other, the numbers of large heads and of idle ones being what they are.
    """

    large: np.ndarray
    idle: np.ndarray
    chance: float

    @property
    def mask(self) -> Bool[np.ndarray, "layer head"]:
        """Large and idle."""
        return self.large & self.idle


def vestigial_heads(
    ov_norm: Float[np.ndarray, "layer head"],
    effect: Float[np.ndarray, "layer head"],
    largest: Real,
    *,
    share: float = 0.01,
) -> Vestigial:
    """Heads whose OV norm is above the heads' median and whose effect is under ``share`` · largest.

    Args:
        ov_norm: of the folded weights.
        effect: what the loss gains when the head is replaced by its mean.
        largest: the largest effect of any component, MLPs included.
        share: of the largest effect.

    Raises:
        ValueError: NaN or infinity, or a largest effect that is not above 0 or not the largest.
    """
    if not (np.isfinite(ov_norm).all() and np.isfinite(effect).all()):
        raise ValueError("norms or effects hold NaN or infinity.")
    if not (largest > 0 and largest >= effect.max()):
        raise ValueError(
            f"the largest effect must be above 0 and no smaller than any head's ({effect.max()}); "
            f"got {largest}."
        )
    large, idle = ov_norm > np.median(ov_norm), effect < share * largest
    none = hypergeom(large.size, int(large.sum()), int(idle.sum())).pmf(0)
    return Vestigial(large, idle, float(1 - none))
