"""A hooked model whose blocks are linear, or smooth, so that effects are known in closed form."""

import torch
from torch import nn
from transformer_lens.hook_points import HookPoint
from transformer_lens.HookedRootModule import HookedRootModule

from helpers.attribution import Objective


class ToyAttention(nn.Module):
    """Heads that add up what stands before: z = cumulative mean of x W_V."""

    def __init__(self, d, heads, draw):
        super().__init__()
        self.W_V = nn.Parameter(torch.randn(heads, d, 2, generator=draw, dtype=torch.float64) / 3)
        self.W_O = nn.Parameter(torch.randn(heads, 2, d, generator=draw, dtype=torch.float64) / 3)
        self.hook_z = HookPoint()

    def forward(self, x):
        place = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)[:, None, None]
        z = torch.einsum("bpd,hdk->bphk", x, self.W_V).cumsum(1) / place
        return torch.einsum("bphk,hkd->bpd", self.hook_z(z), self.W_O)


class ToyBlock(nn.Module):
    def __init__(self, d, heads, act, draw):
        super().__init__()
        self.attn, self.act = ToyAttention(d, heads, draw), act
        self.W = nn.Parameter(torch.randn(d, d, generator=draw, dtype=torch.float64) / d**0.5)
        self.hook_resid_pre, self.hook_resid_post = HookPoint(), HookPoint()
        self.hook_attn_out, self.hook_mlp_out = HookPoint(), HookPoint()

    def forward(self, x):
        x = self.hook_resid_pre(x)
        x = x + self.hook_attn_out(self.attn(x))
        return self.hook_resid_post(x + self.hook_mlp_out(self.act(x @ self.W)))


class Toy(HookedRootModule):
    """Tokens to a single number at each position."""

    def __init__(self, act=lambda x: x, seed=100, d=5, heads=2, layers=2):
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.E = nn.Parameter(torch.randn(7, d, generator=draw, dtype=torch.float64))
        self.U = nn.Parameter(torch.randn(d, 1, generator=draw, dtype=torch.float64))
        self.blocks = nn.ModuleList(ToyBlock(d, heads, act, draw) for _ in range(layers))
        self.setup()

    def forward(self, tokens):
        x = self.E[tokens]
        for block in self.blocks:
            x = block(x)
        return x @ self.U


def toy_objective(f=lambda y: y, n=6, pos=5, seed=100):
    """Loss f of the model's number; rows end at different places."""
    draw = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 7, (n, pos), generator=draw)
    ends = torch.randint(1, pos + 1, (n,), generator=draw)
    asked = torch.arange(pos) < ends[:, None]
    return Objective(tokens, asked, lambda logits, rows: f(logits[..., 0]))
