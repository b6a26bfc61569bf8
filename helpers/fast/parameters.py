"""All parameters of a small transformer in one vector, with named views of it.

One vector lets AdamW update every parameter in one sweep, and lets a layer's queries, keys and
values be one matrix product.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from helpers.models import ModelConfig, SmallTransformer

LAYER = (
    *(f"attn.{name}.weight" for name in "qkv"),  # neighbours, so that one matrix holds the three
    *(f"attn.{name}.bias" for name in "qkv"),
    *("attn.o.weight", "attn.o.bias", "mlp.fc_in.weight", "mlp.fc_in.bias"),
    *("mlp.fc_out.weight", "mlp.fc_out.bias"),
    *("ln1.weight", "ln1.bias", "ln2.weight", "ln2.bias"),
)
TOKENS = "tok_embed.weight"
CODE = "tok_embed.code"


class Parameters:
    """``flat`` holds the parameters, ``grad`` their gradient; ``values`` and ``grads`` are views.

    With a ``basis`` (p, r) of orthonormal columns the token embedding is confined to its span:
    ``tok_embed.weight`` = basis · code, and the code (r, d_model) is what is trained.  Its start
    is the free embedding's projection, times ``code_scale``.
    """

    def __init__(
        self, config: ModelConfig, seed: int, basis: Tensor | None, code_scale: float
    ) -> None:
        self.config, self.basis = config, basis
        start = SmallTransformer(config, seed).state_dict()
        layers = [f"layers.{i}.{name}" for i in range(config.n_layers) for name in LAYER]
        names = [TOKENS, "pos.weight", *layers, "ln_out.weight", "ln_out.bias", "head.weight"]
        if basis is not None:
            start[CODE] = basis.T @ start[TOKENS] * code_scale
            names[0] = CODE
        self.names = [name for name in names if name in start]  # not every model has every norm
        self.shapes = [start[name].shape for name in self.names]
        self.flat = torch.cat([start[name].flatten() for name in self.names])
        self.grad = torch.zeros_like(self.flat)
        self.values, self.grads = self._views(self.flat), self._views(self.grad)

    def _views(self, flat: Tensor) -> dict[str, Tensor]:
        sizes = [math.prod(shape) for shape in self.shapes]
        parts = zip(self.names, flat.split(sizes), self.shapes, strict=True)
        views = {name: part.view(shape) for name, part, shape in parts}
        ends = dict(zip(self.names, torch.tensor(sizes).cumsum(0).tolist(), strict=True))
        d = self.config.d_model
        for i in range(self.config.n_layers):
            for kind, shape in (("weight", (3 * d, d)), ("bias", (3 * d,))):
                end = ends[f"layers.{i}.attn.v.{kind}"]
                views[f"layers.{i}.attn.qkv.{kind}"] = flat[end - math.prod(shape) : end].view(
                    shape
                )
        return views

    def tokens(self) -> Tensor:
        """The token embedding (p, d_model)."""
        return self.values[TOKENS] if self.basis is None else self.basis @ self.values[CODE]

    def set_token_grad(self, grad: Tensor) -> None:
        """Write the gradient of the token embedding to where it is trained."""
        if self.basis is None:
            self.grads[TOKENS].copy_(grad)
        else:
            torch.mm(self.basis.T, grad, out=self.grads[CODE])

    def weights(self) -> dict[str, Tensor]:
        """Copies under ``SmallTransformer``'s names, ready for ``load_state_dict``."""
        named = {name: self.values[name].clone() for name in self.names if name != CODE}
        return {TOKENS: self.tokens().clone(), **named}
