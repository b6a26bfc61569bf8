"""A decoder with three outputs at every position, RMSNorm and no bias anywhere (McCann 2026).

With two layers, d_model 64, four heads and d_mlp 256 it has 104,448 parameters: embedding 2,560,
unembeddings 3,264, attention 32,768, MLPs 65,536, gains 320.  Position is told by six fixed
features; the frame that writes them into the residual stream is fixed too, and no parameter.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn as nn
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from helpers.models import ModelConfig

if TYPE_CHECKING:
    from helpers.dyck.hooked import HookedDyck

OUTPUTS = {"copy": slice(0, 40), "depth": slice(40, 49), "sticky": slice(49, 51)}
N_LOGITS, N_FEATURES = 51, 6
EPS = 1e-5  # of the norms
SMALL = ModelConfig(40, 64, n_layers=2, d_model=64, n_heads=4, d_mlp=256)
FRAMES = ("shared", "own")


def position_features(n_ctx: int) -> Float[Tensor, "n_ctx 6"]:
    """Of t < n_ctx: t/n_ctx, 1/(t+1), log(t+1)/log(n_ctx), [t = 0], cos and sin of 2πt/n_ctx.

    All lie in −1 … 1.
    """
    t = torch.arange(n_ctx, dtype=torch.float64)
    angle = 2 * math.pi * t / n_ctx
    columns = [t / n_ctx, 1 / (t + 1), torch.log1p(t) / math.log(max(n_ctx, 2)), (t == 0).double()]
    return torch.stack([*columns, angle.cos(), angle.sin()], dim=1).float()


def position_frame(kind: str, d_model: int, seed: int) -> Float[Tensor, "6 d_model"]:
    """Six orthonormal rows, along which the features are written.

    ``"shared"``: the first six coordinates, in every model.  ``"own"``: a random frame (uniform)
    that the seed decides.

    Raises:
        ValueError: another kind, or fewer than six dimensions.
    """
    if kind not in FRAMES or d_model < N_FEATURES:
        raise ValueError(
            f"a frame is 'shared' or 'own', in six dimensions or more; got {kind!r} in {d_model}."
        )
    if kind == "shared":
        return torch.eye(N_FEATURES, d_model)
    draw = torch.Generator().manual_seed(seed + 2**32)  # not the numbers of the weights
    q, r = torch.linalg.qr(torch.randn(d_model, N_FEATURES, generator=draw, dtype=torch.float64))
    return (q * r.diagonal().sign()).T.float().contiguous()


class RMSNorm(nn.Module):
    """x ↦ gain · x / √(mean(x²) + ε)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return F.rms_norm(x, self.weight.shape, self.weight, EPS)


class Attention(nn.Module):
    """Causal self-attention without biases."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d = config.d_model
        self.n_heads = config.n_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        heads = (
            layer(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # batch head pos d_head
            for layer in (self.q, self.k, self.v)
        )
        z = F.scaled_dot_product_attention(*heads, is_causal=True)
        return self.o(z.transpose(1, 2).flatten(-2))


class MLP(nn.Module):
    """Two linear maps with a ReLU between them, without biases."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.fc_in = nn.Linear(config.d_model, config.d_mlp, bias=False)
        self.fc_out = nn.Linear(config.d_mlp, config.d_model, bias=False)

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        return self.fc_out(F.relu(self.fc_in(x)))


class Block(nn.Module):
    """``resid_mid = resid_pre + attention(RMS)``, ``resid_post = resid_mid + MLP(RMS)``."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.ln1, self.ln2 = RMSNorm(config.d_model), RMSNorm(config.d_model)
        self.attn, self.mlp = Attention(config), MLP(config)

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class DyckTransformer(nn.Module):
    """Tokens to the logits of copy, depth and sticky, side by side: see :data:`OUTPUTS`.

    Padding stands at the end of a row, so no real position sees it.

    Initialisation: the embedding N(0, 0.25²), linear maps N(0, 1/d_in), gains 1, from one generator
    seeded with ``seed``.  ``pos_frame`` is a buffer: it is in the state, and is no parameter.

    Args:
        config: the sizes; its ``norm`` must be ``"pre"`` (and means RMSNorm here), its vocabulary
            40.
        seed: the initial weights, and the frame if it is the model's own.
        frame: ``"shared"`` or ``"own"``: see :func:`position_frame`.

    Raises:
        ValueError: another norm or vocabulary.
    """

    def __init__(self, config: ModelConfig = SMALL, seed: int = 0, frame: str = "shared") -> None:
        super().__init__()
        if (config.norm, config.d_vocab) != ("pre", 40):
            raise ValueError(
                "this model has its norms before each part and a vocabulary of 40; got norm = "
                f"{config.norm!r} and d_vocab = {config.d_vocab}."
            )
        self.config = config
        self.tok_embed = nn.Embedding(config.d_vocab, config.d_model)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.ln_out = RMSNorm(config.d_model)
        self.head = nn.Linear(config.d_model, N_LOGITS, bias=False)
        self.register_buffer("pos_frame", position_frame(frame, config.d_model, seed))
        features = position_features(config.n_ctx)
        self.register_buffer("features", features, persistent=False)
        draw = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for module in self.modules():
                if isinstance(module, nn.Embedding):
                    module.weight.normal_(0, 0.25, generator=draw)
                elif isinstance(module, nn.Linear):
                    module.weight.normal_(0, module.in_features**-0.5, generator=draw)

    def embed(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        """The residual stream at the start.

        Raises:
            ValueError: more tokens than the context holds.
        """
        check_length(tokens.shape[1], self.config)
        return self.tok_embed(tokens) + self.features[: tokens.shape[1]] @ self.pos_frame

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos 51"]:
        """Logits at every position."""
        x = self.embed(tokens)
        for block in self.layers:
            x = block(x)
        return self.head(self.ln_out(x))


def check_length(length: int, config: ModelConfig) -> None:
    """Raise a ``ValueError`` where so many tokens do not fit."""
    if length > config.n_ctx:
        raise ValueError(f"{length} tokens do not fit in n_ctx = {config.n_ctx}.")


def to_hooked(state: dict[str, Tensor], config: ModelConfig = SMALL) -> HookedDyck:
    """The model with TransformerLens's hooks and these weights, in their precision.

    Raises:
        RuntimeError: the weights are not those of ``config``; PyTorch names the first that differ.
    """
    from helpers.dyck.hooked import HookedDyck  # its library takes seconds: only when used

    module = DyckTransformer(config).to(state["head.weight"].dtype)
    module.load_state_dict(state)
    return HookedDyck(module).eval()
