"""A post-norm transformer with TransformerLens's hook points, since no bridge has one.

In a post-norm block the norm follows each residual sum, as in the first transformers:
``resid_mid = LN(resid_pre + attention)``, ``resid_post = LN(resid_mid + MLP)``; the unembedding
reads ``resid_post`` itself.  The weights are :class:`helpers.models.SmallTransformer`'s.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint
from transformer_lens.HookedRootModule import HookedRootModule

from helpers.hooked_parts import HookedAttention, HookedMLP
from helpers.models import Block, ModelConfig, SmallTransformer


class HookedBlock(nn.Module):
    """One post-norm block: ``hook_resid_pre|mid|post``, ``hook_attn_out``, ``hook_mlp_out``."""

    def __init__(self, block: Block, n_heads: int) -> None:
        super().__init__()
        self.ln1, self.ln2 = block.ln1, block.ln2
        self.attn, self.mlp = HookedAttention(block.attn, n_heads), HookedMLP(block.mlp)
        self.hook_resid_pre, self.hook_resid_mid = HookPoint(), HookPoint()
        self.hook_resid_post = HookPoint()
        self.hook_attn_out, self.hook_mlp_out = HookPoint(), HookPoint()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        x = self.hook_resid_pre(x)
        mid = self.hook_resid_mid(self.ln1(x + self.hook_attn_out(self.attn(x))))
        return self.hook_resid_post(self.ln2(mid + self.hook_mlp_out(self.mlp(mid))))


class HookedPostNorm(HookedRootModule):
    """Tokens (batch, pos) to logits; ``run_with_cache`` and ``run_with_hooks`` as on a bridge."""

    def __init__(self, config: ModelConfig, module: SmallTransformer) -> None:
        super().__init__()
        self.config, self.tok_embed, self.pos = config, module.tok_embed, module.pos
        self.head = module.head
        self.hook_embed, self.hook_pos_embed = HookPoint(), HookPoint()
        self.blocks = nn.ModuleList(HookedBlock(b, config.n_heads) for b in module.layers)
        self.setup()

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_vocab"]:
        if tokens.shape[1] > self.config.n_ctx:
            raise ValueError(f"{tokens.shape[1]} tokens do not fit in n_ctx = {self.config.n_ctx}.")
        pos = self.hook_pos_embed(self.pos.weight[: tokens.shape[1]].expand(len(tokens), -1, -1))
        x = self.hook_embed(self.tok_embed(tokens)) + pos
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    @property
    def W_U(self) -> Float[Tensor, "d_model d_vocab"]:
        """The unembedding."""
        return self.head.weight.T

    @property
    def W_E(self) -> Float[Tensor, "d_vocab d_model"]:
        """The token embedding."""
        return self.tok_embed.weight


def to_hooked(config: ModelConfig, state: dict[str, Tensor]) -> HookedPostNorm:
    """A hooked post-norm model with these weights.

    Raises:
        ValueError: the model has its norm elsewhere: use :func:`helpers.models.to_bridge`.
    """
    if config.norm != "post":
        raise ValueError(
            f"norm = {config.norm!r}: TransformerLens has a bridge for this model; take "
            "helpers.models.to_bridge."
        )
    module = SmallTransformer(config)
    module.load_state_dict(state)
    return HookedPostNorm(config, module).eval()
