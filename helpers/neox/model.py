"""GPT-NeoX of any size: rotary positions, attention and MLP side by side in a block.

``resid_post = resid_pre + attention(LN₁(resid_pre)) + MLP(LN₂(resid_pre))``, GELU, untied
unembedding, rotary positions on a quarter of each head: as Pythia has it (Biderman et al. 2023).
We train transformers's own module.  A leaner one, measured beside it with the same weights, took
as long: matrix products are most of a step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from helpers.models import ModelConfig

if TYPE_CHECKING:
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM


def neox_config(model: ModelConfig) -> GPTNeoXConfig:
    """These sizes under GPT-NeoX's names; token 0 ends a text.

    Raises:
        ValueError: a norm other than pre-norm, or a head too small for rotary positions.
    """
    from transformers import GPTNeoXConfig

    if model.norm != "pre":
        raise ValueError(f"GPT-NeoX is a pre-norm model; got norm = {model.norm!r}.")
    if model.d_head % 8:
        raise ValueError(
            f"rotary positions turn a quarter of each head, in pairs: d_head = {model.d_head} must "
            "be a multiple of 8."
        )
    return GPTNeoXConfig(
        vocab_size=model.d_vocab,
        hidden_size=model.d_model,
        num_hidden_layers=model.n_layers,
        num_attention_heads=model.n_heads,
        intermediate_size=model.d_mlp,
        max_position_embeddings=model.n_ctx,
        hidden_act="gelu",
        use_parallel_residual=True,
        attention_dropout=0.0,
        hidden_dropout=0.0,
        tie_word_embeddings=False,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
        initializer_range=0.02,
        architectures=["GPTNeoXForCausalLM"],
    )


def neox(model: ModelConfig, seed: int) -> GPTNeoXForCausalLM:
    """A model at its start, in training mode; the seed decides its weights: N(0, 0.02²)."""
    from transformers import GPTNeoXForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return GPTNeoXForCausalLM._from_config(
            neox_config(model), attn_implementation="sdpa", dtype=torch.float32
        ).train()
