"""One small transformer, twice: a lean module that trains fast, and a TransformerLens bridge.

Both are the same decoder with the same parameter names, so weights move over by
``load_state_dict``.  We train the lean one (no hooks, fused attention) and look at the bridge.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn as nn
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge


NORMS = ("pre", "post", "none")


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of a small decoder, under TransformerLens's names.

    ``norm`` says where LayerNorm stands: before each part and before the unembedding (``"pre"``),
    after each residual sum (``"post"``, as in the first transformers; no other final norm), or
    nowhere (``"none"``).

    Raises:
        ValueError: a size below 1, heads that do not fill ``d_model``, or an unknown norm.
    """

    d_vocab: int
    n_ctx: int
    n_layers: int = 1
    d_model: int = 64
    n_heads: int = 4
    d_mlp: int = 256
    norm: str = "pre"

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise ValueError(f"norm must be one of {', '.join(NORMS)}; got {self.norm!r}.")
        for name, value in asdict(self).items():
            if name != "norm" and value < 1:
                raise ValueError(f"{name} must be at least 1; got {value}.")
        if self.d_model % self.n_heads:
            raise ValueError(
                f"d_model = {self.d_model} does not split into n_heads = {self.n_heads}; "
                "choose a multiple."
            )

    @property
    def d_head(self) -> int:
        """Width of one attention head."""
        return self.d_model // self.n_heads


class Attention(nn.Module):
    """Causal self-attention; PyTorch's fused kernel does the softmax."""

    def __init__(self, config: ModelConfig, dropout: float) -> None:
        super().__init__()
        d = config.d_model
        self.n_heads, self.dropout = config.n_heads, dropout
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        heads = (
            layer(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # batch head pos d_head
            for layer in (self.q, self.k, self.v)
        )
        p = self.dropout if self.training else 0.0
        z = F.scaled_dot_product_attention(*heads, is_causal=True, dropout_p=p)
        return self.o(z.transpose(1, 2).flatten(-2))


class MLP(nn.Module):
    """Two linear maps with a ReLU between them."""

    def __init__(self, config: ModelConfig, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.fc_in = nn.Linear(config.d_model, config.d_mlp)
        self.fc_out = nn.Linear(config.d_mlp, config.d_model)

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        return self.fc_out(F.dropout(F.relu(self.fc_in(x)), self.dropout, self.training))


def _norm(config: ModelConfig, there: bool) -> nn.Module:
    return nn.LayerNorm(config.d_model) if there else nn.Identity()


class Block(nn.Module):
    """``resid_pre → + attention(LN) → resid_mid → + MLP(LN) → resid_post``, for pre-norm.

    Post-norm: ``resid_mid = LN(resid_pre + attention)``, ``resid_post = LN(resid_mid + MLP)``.
    """

    def __init__(self, config: ModelConfig, dropout: float) -> None:
        super().__init__()
        self.dropout, self.post = dropout, config.norm == "post"
        self.ln1, self.ln2 = (_norm(config, config.norm != "none") for _ in range(2))
        self.attn, self.mlp = Attention(config, dropout), MLP(config, dropout)

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        if self.post:
            x = self.ln1(x + F.dropout(self.attn(x), self.dropout, self.training))
            return self.ln2(x + F.dropout(self.mlp(x), self.dropout, self.training))
        x = x + F.dropout(self.attn(self.ln1(x)), self.dropout, self.training)
        return x + F.dropout(self.mlp(self.ln2(x)), self.dropout, self.training)


class SmallTransformer(nn.Module):
    """A decoder whose weights drop into ``TransformerBridge.boot_native``.

    Initialisation: embeddings N(0, 0.5²), linear maps N(0, 1/d_in), biases 0, drawn from one
    generator seeded with ``seed`` and from nothing else.
    """

    def __init__(self, config: ModelConfig, seed: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1); got {dropout}.")
        self.config = config
        self.tok_embed = nn.Embedding(config.d_vocab, config.d_model)
        self.pos = nn.Embedding(config.n_ctx, config.d_model)
        self.layers = nn.ModuleList(Block(config, dropout) for _ in range(config.n_layers))
        self.ln_out = _norm(config, config.norm == "pre")
        self.head = nn.Linear(config.d_model, config.d_vocab, bias=False)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for module in self.modules():
                if isinstance(module, nn.Embedding):
                    module.weight.normal_(0, 0.5, generator=generator)
                elif isinstance(module, nn.Linear):
                    std = module.in_features**-0.5
                    module.weight.normal_(0, std, generator=generator)
                    if module.bias is not None:
                        module.bias.zero_()

    def resid_post(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        """The residual stream after the last block, before the final norm."""
        pos = tokens.shape[1]
        if pos > self.config.n_ctx:
            raise ValueError(f"{pos} tokens do not fit in n_ctx = {self.config.n_ctx}.")
        x = self.tok_embed(tokens) + self.pos.weight[:pos]
        for block in self.layers:
            x = block(x)
        return x

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_vocab"]:
        """Logits of the next token at every position."""
        return self.head(self.ln_out(self.resid_post(tokens)))


@torch.no_grad()
def unembed_input(
    config: ModelConfig, state: dict[str, Tensor], tokens: Int[Tensor, "batch pos"]
) -> Float[Tensor, "batch pos d_model"]:
    """What the unembedding reads, ``unembed.hook_in``: the residual stream after the final norm.

    The bridge gives the same; booting one takes longer than this whole forward pass.
    """
    net = SmallTransformer(config)
    net.load_state_dict(state)
    net.eval()
    # In parts, so that the hidden layers of a large batch never stand in memory together.
    return torch.cat([net.ln_out(net.resid_post(part)) for part in tokens.split(128)])


def to_bridge(config: ModelConfig, state: dict[str, Tensor]) -> TransformerBridge:
    """A TransformerLens bridge with these weights: hooks, ``run_with_cache``, ``W_U`` and all.

    Raises:
        ValueError: the weights are not those of ``config``, or the model is post-norm, which the
            bridge does not have: use :func:`helpers.post_norm.to_hooked`.
    """
    from transformer_lens.model_bridge import TransformerBridge  # takes seconds: only when used

    if config.norm == "post":
        raise ValueError(
            "TransformerLens has no post-norm bridge; take helpers.post_norm.to_hooked, which has "
            "the same hook names."
        )

    reference = SmallTransformer(config).state_dict()
    shapes = {name: tuple(value.shape) for name, value in state.items()}
    wanted = {name: tuple(value.shape) for name, value in reference.items()}
    if shapes != wanted:
        wrong = sorted(set(shapes.items()) ^ set(wanted.items()))[0]
        raise ValueError(f"these weights do not fit {config}: look at {wrong[0]} {wrong[1]}.")
    bridge = TransformerBridge.boot_native(
        {
            **{name: size for name, size in asdict(config).items() if name != "norm"},
            "d_head": config.d_head,
            "act_fn": "relu",
            "normalization_type": "LN" if config.norm == "pre" else None,
            "seed": 0,
        }
    )
    target = dict(bridge.original_model.named_parameters())
    with torch.no_grad():
        for name, parameter in target.items():
            parameter.copy_(state[name.replace("_original_component.", "")])
    return bridge.eval()
