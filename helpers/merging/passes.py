"""The forward pass of a folded model: whole, up to a site, or from a site on.

Sites have TransformerLens's names, in the order of the computation: ``blocks.i.hook_resid_pre``,
``blocks.i.hook_resid_mid`` of each layer, and ``hook_resid_post`` of the last one.  (That of any
other layer is ``hook_resid_pre`` of the next.)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from helpers.merging.forms import TENSORS, Form


@dataclass(frozen=True, eq=False)
class Net:
    """A form as tensors of one precision; ``of`` makes it."""

    weights: dict[str, Tensor]
    eps: float | None

    @staticmethod
    def of(form: Form, dtype: torch.dtype = torch.float32) -> Net:
        """Float32 is enough for losses to 1e-6."""
        names = (*TENSORS, "features")
        return Net({n: torch.tensor(getattr(form, n), dtype=dtype) for n in names}, form.eps)

    @property
    def sites(self) -> tuple[str, ...]:
        """Where a pass can stop or start."""
        n = len(self.weights["W_Q"])
        inner = [f"blocks.{i}.hook_resid_{at}" for i in range(n) for at in ("pre", "mid")]
        return (*inner, f"blocks.{n - 1}.hook_resid_post")

    def index(self, site: str) -> int:
        """Its place in :attr:`sites`.

        Raises:
            ValueError: a site that the model does not have.
        """
        if site not in self.sites:
            raise ValueError(f"no site {site!r}; there are {', '.join(self.sites)}.")
        return self.sites.index(site)


def embed(net: Net, tokens: Int[Tensor, "n pos"]) -> Float[Tensor, "n pos d_model"]:
    """The residual stream at the start."""
    w, pos = net.weights, tokens.shape[1]
    if pos > len(w["features"]):
        raise ValueError(f"{pos} tokens do not fit in n_ctx = {len(w['features'])}.")
    return w["W_E"][tokens] + w["features"][:pos] @ w["W_pos"]


def normed(net: Net, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
    """x/√(mean(x²) + ε), or x in a model without norms."""
    return x if net.eps is None else F.rms_norm(x, x.shape[-1:], eps=net.eps)


def advance(
    net: Net, x: Float[Tensor, "n pos d_model"], start: int = 0, stop: int | None = None
) -> Float[Tensor, "n pos d_model"]:
    """From the stream at site number ``start`` to that at ``stop`` (the last one)."""
    last = len(net.sites) - 1
    for k in range(start, last if stop is None else stop):
        x = x + (_mlp if k % 2 else _attention)(net, k // 2, normed(net, x))
    return x


def logits(
    net: Net,
    x: Float[Tensor, "n pos d_model"],
    mask: Bool[Tensor, "n pos"],
    start: int = 0,
) -> Float[Tensor, "positions n_logits"]:
    """Logits at the positions of the mask, row by row, from the stream at site number ``start``.

    What follows the last attention works position by position, so it is done at these alone.
    """
    return unembed(net, final(net, x, mask, start))


def final(
    net: Net,
    x: Float[Tensor, "n pos d_model"],
    mask: Bool[Tensor, "n pos"],
    start: int = 0,
) -> Float[Tensor, "positions d_model"]:
    """What the unembedding reads, at the positions of the mask."""
    before_mlp = len(net.sites) - 2
    kept = advance(net, x, start, before_mlp)[mask] if start < before_mlp else x[mask]
    if start <= before_mlp:
        kept = kept + _mlp(net, before_mlp // 2, normed(net, kept))
    return normed(net, kept)


def unembed(net: Net, x: Float[Tensor, "positions d_model"]) -> Float[Tensor, "positions n_logits"]:
    """Logits from what :func:`final` gives."""
    return x @ net.weights["W_U"] + net.weights["b_U"]


def _attention(net: Net, i: int, x: Tensor) -> Tensor:
    """What attention adds, from the normalised stream."""
    w, (n, pos, _) = net.weights, x.shape
    q, k, v = (
        (x @ w[name][i].transpose(0, 1).flatten(1)).view(n, pos, *w["b_Q"][i].shape)
        for name in ("W_Q", "W_K", "W_V")
    )
    q = q + w["b_Q"][i]
    z = F.scaled_dot_product_attention(*(y.transpose(1, 2) for y in (q, k, v)), is_causal=True)
    return z.transpose(1, 2).flatten(2) @ w["W_O"][i].flatten(0, 1) + w["b_O"][i]


def _mlp(net: Net, i: int, x: Tensor) -> Tensor:
    """What the MLP adds, from the normalised stream."""
    w = net.weights
    return F.relu(x @ w["W_in"][i] + w["b_in"][i]) @ w["W_out"][i] + w["b_out"][i]
