r"""Sparse autoencoders: a code of d_sae numbers, few of them active, that gives d_in back.

.. math:: f = \sigma\bigl((x - b_{dec})\, W_{enc} + b_{enc}\bigr), \qquad
          \hat x = f\, W_{dec} + b_{dec}

σ is the ReLU, or the ReLU of the k largest entries.  Every row of W_dec has length 1: row i is the
direction that feature i writes, which papers call a decoder column.  Names and layout are those of
SAELens.

Source: Bricken et al. 2023 ("Towards monosemanticity": pre-encoder bias, unit decoder norms); Gao
et al. 2024 (arXiv:2406.04093: top-k).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

UNIT = 1e-3
"""How far from 1 the length of a decoder row may be."""


@dataclass(frozen=True, eq=False)
class SAE(ABC):
    """W_enc (d_in, d_sae), b_enc (d_sae,), W_dec (d_sae, d_in), b_dec (d_in,).

    Codes are in the units of the activations, since decoder rows have length 1.

    Raises:
        ValueError: shapes that do not fit together, NaN or infinity, decoder rows that are not of
            length 1.
    """

    W_enc: Tensor
    b_enc: Tensor
    W_dec: Tensor
    b_dec: Tensor

    def __post_init__(self) -> None:
        d_sae, d_in = self.W_dec.shape if self.W_dec.ndim == 2 else (0, 0)
        wanted = {"W_enc": (d_in, d_sae), "b_enc": (d_sae,), "b_dec": (d_in,)}
        found = {name: tuple(getattr(self, name).shape) for name in wanted}
        if found != wanted or not d_sae * d_in:
            raise ValueError(
                "an SAE needs W_enc (d_in, d_sae), b_enc (d_sae,), W_dec (d_sae, d_in), b_dec "
                f"(d_in,); got W_dec {tuple(self.W_dec.shape)} and {found}."
            )
        for name in (*wanted, "W_dec"):
            if not torch.isfinite(getattr(self, name)).all():
                raise ValueError(f"{name} holds NaN or infinity: the training diverged; lower lr.")
        off = float((self.W_dec.detach().norm(dim=1) - 1).abs().max())
        if off > UNIT:
            raise ValueError(
                f"rows of W_dec must have length 1, one is off by {off:.3g}. Divide row i by its "
                "length, and multiply column i of W_enc and b_enc[i] by it."
            )

    @property
    def d_in(self) -> int:
        """Dimension of the activations."""
        return self.W_dec.shape[1]

    @property
    def d_sae(self) -> int:
        """Number of features."""
        return self.W_dec.shape[0]

    @abstractmethod
    def activate(self, pre: Float[Tensor, "*batch d_sae"]) -> Float[Tensor, "*batch d_sae"]:
        """σ, of what the encoder gives."""

    def encode(self, x: Float[Tensor, "*batch d_in"]) -> Float[Tensor, "*batch d_sae"]:
        """The code f of raw activations.

        Raises:
            ValueError: activations of another dimension.
        """
        if x.shape[-1] != self.d_in:
            raise ValueError(
                f"this SAE takes activations (…, {self.d_in}); got shape {tuple(x.shape)}."
            )
        return self.activate((x - self.b_dec) @ self.W_enc + self.b_enc)

    def decode(self, f: Float[Tensor, "*batch d_sae"]) -> Float[Tensor, "*batch d_in"]:
        """The activations that a code stands for.

        Raises:
            ValueError: a code of another length.
        """
        if f.shape[-1] != self.d_sae:
            raise ValueError(f"this SAE's codes are (…, {self.d_sae}); got {tuple(f.shape)}.")
        return f @ self.W_dec + self.b_dec

    def forward(self, x: Float[Tensor, "*batch d_in"]) -> Float[Tensor, "*batch d_in"]:
        """The reconstruction: decode(encode(x))."""
        return self.decode(self.encode(x))

    __call__ = forward

    @property
    def decoder(self) -> Float[np.ndarray, "d_sae d_in"]:
        """W_dec as an array, for the comparisons."""
        return self.W_dec.detach().cpu().double().numpy()


@dataclass(frozen=True, eq=False)
class ReluSAE(SAE):
    """All features with a positive pre-activation are active; an L1 penalty keeps them few."""

    def activate(self, pre: Float[Tensor, "*batch d_sae"]) -> Float[Tensor, "*batch d_sae"]:
        """max(pre, 0)."""
        return pre.relu()


@dataclass(frozen=True, eq=False)
class TopKSAE(SAE):
    """At most ``k`` features are active: the largest, where they are positive.

    Raises:
        ValueError: k outside 1…d_sae.
    """

    k: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_k(self.k, self.d_sae)

    def activate(self, pre: Float[Tensor, "*batch d_sae"]) -> Float[Tensor, "*batch d_sae"]:
        """max(pre, 0) at the k largest entries of each row, 0 elsewhere."""
        values, places = pre.topk(self.k, dim=-1, sorted=False)
        return torch.zeros_like(pre).scatter(-1, places, values.relu())


def check_k(k: int, d_sae: int) -> None:
    """Refuse a k outside 1…d_sae."""
    if not 1 <= k <= d_sae:
        raise ValueError(f"k counts active features, 1…{d_sae} (d_sae = {d_sae}); got k = {k}.")


def pieces(
    X: Float[np.ndarray, "n d_in"], sae: SAE, rows: int = 4096
) -> list[Float[Tensor, "_ d_in"]]:
    """Activations as tensors that ``sae`` takes, at most ``rows`` at a time.

    Raises:
        ValueError: activations that are not (n, d_in) with n ≥ 1, NaN or infinity.
    """
    if X.ndim != 2 or not len(X) or X.shape[1] != sae.d_in:
        raise ValueError(f"activations must be (n, {sae.d_in}), n ≥ 1; got shape {X.shape}.")
    if not np.isfinite(X).all():
        raise ValueError("activations hold NaN or infinity: leave those rows out.")
    like = sae.W_dec
    return [
        torch.as_tensor(X[i : i + rows]).to(like.device, like.dtype) for i in range(0, len(X), rows)
    ]


def encoded(sae: SAE, X: Float[np.ndarray, "n d_in"]) -> Float[np.ndarray, "n d_sae"]:
    """Codes of raw activations, as an array; errors as in :func:`pieces`."""
    with torch.no_grad():
        return np.concatenate([sae.encode(x).cpu().numpy() for x in pieces(X, sae)])


def reconstructed(sae: SAE, X: Float[np.ndarray, "n d_in"]) -> Float[np.ndarray, "n d_in"]:
    """Reconstructions of raw activations, as an array; errors as in :func:`pieces`."""
    with torch.no_grad():
        return np.concatenate([sae(x).cpu().numpy() for x in pieces(X, sae)])
