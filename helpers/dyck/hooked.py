"""The bracket model with TransformerLens's hook points and names of weights.

The weights are :class:`helpers.dyck.model.DyckTransformer`'s; logits agree to rounding.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint
from transformer_lens.HookedRootModule import HookedRootModule

from helpers.dyck.model import EPS, Block, DyckTransformer, RMSNorm, check_length
from helpers.hooked_parts import HookedAttention, HookedMLP

PLACES = ("hook_resid_pre", "hook_resid_mid", "hook_resid_post")
FINAL = "ln_final.hook_normalized"


class HookedNorm(nn.Module):
    """RMSNorm: ``hook_scale`` is √(mean(x²) + ε), ``hook_normalized`` what the gain multiplies."""

    def __init__(self, norm: RMSNorm) -> None:
        super().__init__()
        self.norm, self.hook_scale, self.hook_normalized = norm, HookPoint(), HookPoint()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        scale = self.hook_scale((x.square().mean(-1, keepdim=True) + EPS).sqrt())
        return self.gain(x / scale)

    def gain(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        """From what is normalised on."""
        return self.hook_normalized(x) * self.norm.weight


class HookedBlock(nn.Module):
    """One pre-norm block: ``hook_resid_pre|mid|post``, ``hook_attn_out``, ``hook_mlp_out``."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        self.ln1, self.ln2 = HookedNorm(block.ln1), HookedNorm(block.ln2)
        self.attn = HookedAttention(block.attn, block.attn.n_heads)
        self.mlp = HookedMLP(block.mlp)
        self.hook_resid_pre, self.hook_resid_mid = HookPoint(), HookPoint()
        self.hook_resid_post = HookPoint()
        self.hook_attn_out, self.hook_mlp_out = HookPoint(), HookPoint()

    def forward(
        self, x: Float[Tensor, "batch pos d_model"], start_at: str = PLACES[0]
    ) -> Float[Tensor, "batch pos d_model"]:
        if start_at == PLACES[0]:
            x = self.hook_resid_pre(x)
            x = x + self.hook_attn_out(self.attn(self.ln1(x)))
        if start_at != PLACES[2]:
            x = self.hook_resid_mid(x)
            x = x + self.hook_mlp_out(self.mlp(self.ln2(x)))
        return self.hook_resid_post(x)


class HookedDyck(HookedRootModule):
    """Tokens to logits; ``run_with_cache`` and ``run_with_hooks`` as on a bridge.

    ``model(start_at=site, resid=x)`` goes on from a residual stream x at a site, without the
    part before it: the site's own hook sees x first.  Sites: ``blocks.i.hook_resid_pre|mid|post``
    and ``ln_final.hook_normalized``.  Both runs take the keywords too.
    """

    def __init__(self, module: DyckTransformer) -> None:
        super().__init__()
        self.config, self.tok_embed, self.head = module.config, module.tok_embed, module.head
        self.register_buffer("pos_frame", module.pos_frame)
        self.register_buffer("features", module.features)
        self.hook_embed, self.hook_pos_embed = HookPoint(), HookPoint()
        self.blocks = nn.ModuleList(HookedBlock(block) for block in module.layers)
        self.ln_final = HookedNorm(module.ln_out)
        self.setup()

    @property
    def sites(self) -> tuple[str, ...]:
        """Where a run can start, in the order of the computation."""
        blocks = range(self.config.n_layers)
        return (*(f"blocks.{i}.{place}" for i in blocks for place in PLACES), FINAL)

    def forward(
        self,
        tokens: Int[Tensor, "batch pos"] | None = None,
        *,
        start_at: str | None = None,
        resid: Float[Tensor, "batch pos d_model"] | None = None,
    ) -> Float[Tensor, "batch pos 51"]:
        """Logits, from tokens or from a residual stream at a site.

        Raises:
            ValueError: more tokens than the context holds, an unknown site, or anything but
                tokens alone or a site with its residual stream.
        """
        first, place, x = self._start(tokens, start_at, resid)
        if start_at == FINAL:
            return self.head(self.ln_final.gain(x))
        for i, block in enumerate(self.blocks):
            if i >= first:
                x = block(x, place if i == first else PLACES[0])
        return self.head(self.ln_final(x))

    def _start(
        self, tokens: Tensor | None, start_at: str | None, resid: Tensor | None
    ) -> tuple[int, str, Tensor]:
        """The first block to run, where in it, and the stream there."""
        if (start_at is None) != (resid is None) or (tokens is None) == (resid is None):
            raise ValueError("give tokens alone, or start_at and resid together without tokens.")
        if tokens is not None:
            check_length(tokens.shape[1], self.config)
            pos = self.features[: tokens.shape[1]] @ self.pos_frame
            pos = self.hook_pos_embed(pos.expand(len(tokens), -1, -1))
            return 0, PLACES[0], self.hook_embed(self.tok_embed(tokens)) + pos
        if start_at not in self.sites:
            raise ValueError(f"no site {start_at!r}; a run can start at {', '.join(self.sites)}.")
        check_length(resid.shape[1], self.config)
        part, _, place = start_at.rpartition(".")
        return 0 if start_at == FINAL else int(part.split(".")[1]), place, resid

    def _heads(self, name: str) -> Float[Tensor, "layer head d_model d_head"]:
        maps = torch.stack([getattr(block.attn.maps, name).weight for block in self.blocks])
        return maps.unflatten(1, (self.config.n_heads, -1)).transpose(2, 3)

    @property
    def W_E(self) -> Float[Tensor, "d_vocab d_model"]:
        """The token embedding."""
        return self.tok_embed.weight

    @property
    def W_Q(self) -> Float[Tensor, "layer head d_model d_head"]:
        """Queries, by layer and head."""
        return self._heads("q")

    @property
    def W_K(self) -> Float[Tensor, "layer head d_model d_head"]:
        """Keys, by layer and head."""
        return self._heads("k")

    @property
    def W_V(self) -> Float[Tensor, "layer head d_model d_head"]:
        """Values, by layer and head."""
        return self._heads("v")

    @property
    def W_O(self) -> Float[Tensor, "layer head d_head d_model"]:
        """What heads write, by layer and head."""
        maps = torch.stack([block.attn.maps.o.weight.T for block in self.blocks])
        return maps.unflatten(1, (self.config.n_heads, -1))

    @property
    def W_in(self) -> Float[Tensor, "layer d_model d_mlp"]:
        """What the MLPs read."""
        return torch.stack([block.mlp.maps.fc_in.weight.T for block in self.blocks])

    @property
    def W_out(self) -> Float[Tensor, "layer d_mlp d_model"]:
        """What the MLPs write."""
        return torch.stack([block.mlp.maps.fc_out.weight.T for block in self.blocks])

    @property
    def W_U(self) -> Float[Tensor, "d_model 51"]:
        """The three unembeddings side by side: see :data:`helpers.dyck.model.OUTPUTS`."""
        return self.head.weight.T
