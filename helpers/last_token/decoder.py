"""The parts of a decoder that we drive ourselves, found without naming its architecture."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Decoder:
    """A causal language model taken apart; the weights stay the model's own.

    ``base`` gives hidden states for tokens, ``blocks`` are its layers, ``tail`` what follows them,
    ``head`` the unembedding, ``softcap`` its cap on logits, ``cache`` the name under which ``base``
    takes keys and values; ``mixes_lengths`` that it can be told positions and padding.
    """

    model: nn.Module
    base: nn.Module
    blocks: nn.ModuleList
    tail: tuple[nn.Module, ...]
    head: nn.Module
    softcap: float | None
    cache: str
    mixes_lengths: bool

    @property
    def n_layers(self) -> int:
        """Number of blocks."""
        return len(self.blocks)

    @property
    def device(self) -> torch.device:
        """Where tokens go in."""
        return self.model.get_input_embeddings().weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The residual stream's number format."""
        return self.model.dtype


def hidden_of(output) -> torch.Tensor:
    """A block's residual stream; some return it inside a tuple."""
    return output[0] if isinstance(output, tuple | list) else output


def find_blocks(model: nn.Module) -> tuple[nn.Module, nn.ModuleList]:
    """The list of blocks and the module it hangs on.

    Raises:
        ValueError: no list of as many modules as the configuration has layers.
    """
    config = model.config.get_text_config(decoder=True)
    for parent in model.modules():  # from the outside in, so experts come after their blocks
        for child in parent.children():
            if isinstance(child, nn.ModuleList) and len(child) == config.num_hidden_layers:
                return parent, child
    raise ValueError(
        f"{type(model).__name__} has no list of {config.num_hidden_layers} blocks; give a decoder "
        "such as AutoModelForCausalLM returns."
    )


def _tail(base: nn.Module, parent: nn.Module, blocks: nn.ModuleList, device) -> tuple:
    """The parent's modules that run after the last block, in order, seen on one token."""
    seen: list[nn.Module] = []

    def note(module, inputs, output):
        seen.append(module)

    watched = [blocks[-1], *(child for child in parent.children() if child is not blocks)]
    hooks = [module.register_forward_hook(note) for module in watched]
    try:
        with torch.no_grad():
            base(torch.zeros(1, 1, dtype=torch.long, device=device), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return tuple(seen[seen.index(blocks[-1]) + 1 :])


def take_apart(model: nn.Module) -> Decoder:
    """Find blocks, final norm, unembedding and soft cap of a Hugging Face decoder.

    Raises:
        ValueError: no blocks or unembedding to be found, training mode, or an attention kernel
            that takes no mask of ours.
    """
    if model.training:
        raise ValueError("the model is in training mode, where dropout is on; call model.eval().")
    config = model.config.get_text_config(decoder=True)
    if getattr(config, "_attn_implementation", "eager") not in ("eager", "sdpa", None):
        raise ValueError(
            f"attention is {config._attn_implementation!r}; load the model with "
            "attn_implementation='eager' or 'sdpa', which take a mask."
        )
    parent, blocks = find_blocks(model)
    base, head = model.base_model, model.get_output_embeddings()
    if base is model or head is None or not hasattr(head, "weight"):
        raise ValueError(
            f"{type(model).__name__} has no unembedding on top of a decoder; load it with "
            "AutoModelForCausalLM."
        )
    device = model.get_input_embeddings().weight.device
    parameters = inspect.signature(base.forward).parameters
    return Decoder(
        model,
        base,
        blocks,
        _tail(base, parent, blocks, device),
        head,
        getattr(config, "final_logit_softcapping", None),
        "cache" if "cache" in parameters else "past_key_values",
        {"position_ids", "attention_mask"} <= set(parameters),
    )
