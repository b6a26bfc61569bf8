"""Attention and MLP with TransformerLens's hook points, around linear maps that are there already.

For models that no bridge has: the post-norm one, and the bracket model.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint


class HookedAttention(nn.Module):
    """Causal self-attention: ``hook_q|k|v``, ``hook_attn_scores``, ``hook_pattern``, ``hook_z``."""

    def __init__(self, maps: nn.Module, n_heads: int) -> None:
        super().__init__()
        self.maps, self.n_heads = maps, n_heads
        self.hook_q, self.hook_k, self.hook_v = HookPoint(), HookPoint(), HookPoint()
        self.hook_attn_scores, self.hook_pattern = HookPoint(), HookPoint()
        self.hook_z = HookPoint()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        q = self.hook_q(self.maps.q(x).unflatten(-1, (self.n_heads, -1)))
        k = self.hook_k(self.maps.k(x).unflatten(-1, (self.n_heads, -1)))
        v = self.hook_v(self.maps.v(x).unflatten(-1, (self.n_heads, -1)))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        scores = self.hook_attn_scores(scores.masked_fill(future, -torch.inf))
        pattern = self.hook_pattern(scores.softmax(-1))
        z = self.hook_z(torch.einsum("bhqk,bkhd->bqhd", pattern, v))
        return self.maps.o(z.flatten(-2))


class HookedMLP(nn.Module):
    """Two linear maps around a ReLU: ``hook_pre``, ``hook_post``."""

    def __init__(self, maps: nn.Module) -> None:
        super().__init__()
        self.maps = maps
        self.hook_pre, self.hook_post = HookPoint(), HookPoint()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        return self.maps.fc_out(self.hook_post(F.relu(self.hook_pre(self.maps.fc_in(x)))))
