r"""The linear read-out behind a residual stream, with its Jacobian, Gramian and core.

A model's last step is ``logits = LN(h) @ W_U``, or ``h @ W_U`` where no norm stands before the
head.  Both are simple enough for closed forms, so that ACE needs no (N, K, D) Jacobian.

Source: Schiffman 2026 (ACE: extract); Ba, Kiros & Hinton 2016 (LayerNorm).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
from jaxtyping import Float
from torch import Tensor

from helpers.cores import Core, ace
from helpers.models import ModelConfig


@dataclass(frozen=True)
class Readout:
    r"""Logits :math:`\mathrm{LN}(h)\,W_U` where ``scale`` is given, else :math:`h\,W_U`.

    ``W_U`` (D, K), ``scale`` and ``bias`` (D,) of the LayerNorm, which divides by
    :math:`\sqrt{\mathrm{var}+\mathrm{eps}}` as torch does.  Everything is kept as float64.

    Raises:
        ValueError: shapes that do not fit, NaN or infinity, a bias without a scale, or a negative
            eps.
    """

    W_U: np.ndarray
    scale: np.ndarray | None = None
    bias: np.ndarray | None = None
    eps: float = 1e-5

    def __post_init__(self) -> None:
        W_U = np.asarray(self.W_U, dtype=np.float64)
        if W_U.ndim != 2 or not W_U.size:
            raise ValueError(f"W_U must be (D, K); got shape {W_U.shape}. Is it the head's weight?")
        if self.scale is None and self.bias is not None:
            raise ValueError("a bias without a scale: give both to apply LayerNorm, or neither.")
        if self.eps < 0:
            raise ValueError(
                f"eps is added to a variance and must not be negative; got {self.eps}."
            )
        object.__setattr__(self, "W_U", W_U)
        for name in ("scale", "bias"):
            value = getattr(self, name)
            if value is not None:
                value = np.asarray(value, dtype=np.float64)
                if value.shape != W_U.shape[:1]:
                    raise ValueError(f"{name} must be ({len(W_U)},) like W_U; got {value.shape}.")
                object.__setattr__(self, name, value)
        if not all(np.isfinite(x).all() for x in (W_U, self.scale, self.bias) if x is not None):
            raise ValueError("the read-out's weights hold NaN or infinity; did training diverge?")

    @classmethod
    def from_state(cls, config: ModelConfig, state: dict[str, Tensor]) -> Readout:
        """The read-out after the last block of a SmallTransformer; only "pre" has a norm there."""
        names = ["head.weight", "ln_out.weight", "ln_out.bias"][: 3 if config.norm == "pre" else 1]
        missing = [name for name in names if name not in state]
        if missing:
            raise ValueError(f"these weights have no {missing}; do they belong to {config}?")
        W_U, *norm = (state[name].detach().cpu().double().numpy() for name in names)
        return cls(W_U.T, *norm)

    @property
    def linear(self) -> tuple[np.ndarray, np.ndarray]:
        r"""``W`` (D, K) and ``b`` (K,) with logits :math:`h W / \sigma(h) + b`.

        LayerNorm's scale and its subtraction of the mean are linear, so they fold into W.
        """
        if self.scale is None:
            return self.W_U, np.zeros(self.W_U.shape[1])
        W = self.scale[:, None] * self.W_U
        bias = np.zeros(len(W)) if self.bias is None else self.bias
        return W - W.mean(axis=0), bias @ self.W_U

    def logits(self, H: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N K"]:
        """Logits of activations (N, D)."""
        H, (W, b) = self.check_activations(H), self.linear
        return H @ W / self._sigma(H)[:, None] + b

    def jacobian(self, H: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N K D"]:
        r"""Jacobian of the logits, centred over the K outputs, with respect to each activation.

        With W of :attr:`linear` (centred over K) and x̂ = (h − mean h)/σ:
        :math:`J = \frac1\sigma\,W^\top (I - \hat x \hat x^\top / D)`; without a norm J = Wᵀ.
        """
        H, W = self.check_activations(H), self._centred
        if self.scale is None:
            return np.broadcast_to(W.T, (len(H), *W.T.shape))
        x, sigma = self._normalised(H)
        return (W.T - (x @ W)[:, :, None] * x[:, None] / H.shape[1]) / sigma[:, None, None]

    def gramian(self, H: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "D D"]:
        r"""Observability Gramian :math:`O = \frac1N \sum_n J_n^\top J_n`, without any :math:`J_n`.

        With S = W Wᵀ it is the mean of :math:`\sigma^{-2} (S - (\hat x \hat x^\top S +
        S \hat x \hat x^\top)/D + (\hat x^\top S \hat x)\, \hat x \hat x^\top / D^2)`.
        """
        H, W = self.check_activations(H), self._centred
        if self.scale is None:
            return W @ W.T
        x, sigma = self._normalised(H)
        D, weight, S = H.shape[1], 1 / (len(H) * sigma**2), W @ W.T
        half = (x.T * weight) @ x @ S / D
        seen = np.sum((x @ W) ** 2, axis=1) / D**2
        return weight.sum() * S - half - half.T + (x.T * (weight * seen)) @ x

    @property
    def _centred(self) -> np.ndarray:
        W, _ = self.linear
        return W - W.mean(axis=1, keepdims=True)

    def _sigma(self, H: np.ndarray) -> np.ndarray:
        return np.ones(len(H)) if self.scale is None else np.sqrt(H.var(axis=1) + self.eps)

    def _normalised(self, H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sigma = self._sigma(H)
        return (H - H.mean(axis=1, keepdims=True)) / sigma[:, None], sigma

    def check_activations(self, H: np.ndarray) -> np.ndarray:
        """``H`` as float64.

        Raises:
            ValueError: not (N, D) with the D of W_U and N ≥ 1, or NaN or infinity.  The largest of
                logits that are NaN is the first, so an accuracy would come out as near chance.
        """
        H = np.asarray(H, dtype=np.float64)
        if H.ndim != 2 or H.shape[1] != len(self.W_U) or not len(H):
            raise ValueError(
                f"this read-out takes activations (N, {len(self.W_U)}); got shape {H.shape}."
            )
        if not np.isfinite(H).all():
            bad = int(np.argmin(np.isfinite(H).all(axis=1)))
            raise ValueError(
                f"activations hold NaN or infinity, first in row {bad} of {len(H)}; did training "
                "diverge?"
            )
        return H


def core(readout: Readout, H: Float[np.ndarray, "N D"], rank: Real = 0.99) -> Core:
    r"""``ace(H, readout.jacobian(H), rank)`` without the (N, K, D) Jacobian.

    ACE sees J only through O, so any factor R with :math:`R^\top R = O` may stand for it.  Rounding
    in O hides directions that the outputs see less than about 1e-7 as well as the best one.

    Raises:
        ValueError: as :func:`helpers.cores.ace`.
    """
    if readout.scale is None:
        return ace(H, readout._centred.T, rank)
    values, vectors = np.linalg.eigh(readout.gramian(H))
    noise = values[-1] * len(values) * np.finfo(np.float64).eps  # its root would pass for a signal
    return ace(H, np.sqrt(np.where(values > noise, values, 0))[:, None] * vectors.T, rank)
