"""Blocks called on other hidden states of the last token, the prefix's keys and values kept.

The rows of one prompt, R versions of its last token, lie side by side where a sequence has its
positions.  All stand at the same position and see the prefix and themselves, never each other: the
mask hides the others, whose weight is then exactly zero.  So the prefix is never repeated, and each
block is a few large matrix products.
"""

from __future__ import annotations

import inspect

import torch
from torch import nn
from transformers.cache_utils import Cache, DynamicLayer

from helpers.last_token.decoder import Decoder, hidden_of


class FrozenLayer(DynamicLayer):
    """One layer's keys and values of some prefixes: read, never written.

    ``source`` is the layer as the prefix left it, of U prefixes; ``index`` (B,) says which of them
    belongs to each prompt.
    """

    def __init__(self, source, index: torch.Tensor) -> None:
        super().__init__()
        self.source, self.index, self.is_sliding = source, index, source.is_sliding
        self.is_initialized = True

    @property
    def length(self) -> int:
        """Positions held; fewer than the prefix has where a window slides."""
        return self.source.keys.shape[-2]

    def update(self, key_states, value_states, *args, **kwargs):
        """The prefix's keys and values followed by the new ones, which are not kept."""
        index = self.index.to(key_states.device)
        old = (self.source.keys[index], self.source.values[index])
        new = (key_states, value_states)
        return tuple(torch.cat(pair, dim=-2) for pair in zip(old, new, strict=True))

    def get_seq_length(self) -> int:
        """Length of the prefix."""
        return self.source.get_seq_length()

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """As the prefix's own layer."""
        return self.source.get_mask_sizes(query_length)


def freeze(cache: Cache, index: torch.Tensor) -> Cache:
    """A cache that answers with the prefixes ``index`` of ``cache``."""
    return Cache(layers=[FrozenLayer(layer, index) for layer in cache.layers])


def _first(value):
    """One prompt's share of an argument: prompts of one length have these in common."""
    if isinstance(value, torch.Tensor):
        return value[:1].detach() if value.ndim > 1 else value.detach()
    if isinstance(value, tuple | list):
        return type(value)(_first(entry) for entry in value)
    if isinstance(value, dict):
        return {key: _first(entry) for key, entry in value.items()}
    return value


def _widen(value, rows: int):
    """An argument made for one position, for ``rows`` rows at this same position."""
    if isinstance(value, tuple | list):
        return type(value)(_widen(entry, rows) for entry in value)
    if isinstance(value, dict):
        return {key: _widen(entry, rows) for key, entry in value.items()}
    if not isinstance(value, torch.Tensor):
        return value
    if not value.is_floating_point() and value.shape[-1:] == (1,):  # position numbers (…, 1)
        return value.expand(*value.shape[:-1], rows)
    if value.ndim > 1 and value.shape[-2] == 1:  # rotary cosines and sines (…, 1, d)
        return value.expand(*value.shape[:-2], rows, value.shape[-1])
    return value


def row_mask(
    recorded: torch.Tensor | None, length: int, rows: int, like: torch.Tensor
) -> torch.Tensor:
    """Additive mask (1, 1, R, length + R): each row sees what the last token saw, and itself."""
    lowest = torch.finfo(like.dtype).min
    if recorded is None:
        seen = like.new_zeros(length + 1)
    elif recorded.dtype == torch.bool:
        seen = like.new_zeros(length + 1).masked_fill(~recorded[0, 0, 0].to(like.device), lowest)
    else:
        seen = recorded[0, 0, 0].to(like)
    own = like.new_full((rows, rows), lowest)
    own.fill_diagonal_(float(seen[-1]))
    return torch.cat([seen[:-1].expand(rows, -1), own], dim=1)[None, None]


class Script:
    """What the model passed to each block with the last token, to be passed again.

    Made by :func:`record` from one run of prompts that have one length.
    """

    def __init__(self, decoder: Decoder, calls: list[dict]) -> None:
        self.decoder, self.calls = decoder, calls

    def block(self, layer: int, hidden: torch.Tensor, cache: Cache) -> torch.Tensor:
        """Block ``layer`` on hidden states (B, R, D), as ``blocks.{layer}`` on the last token."""
        rows, given = hidden.shape[1], {}
        for name, value in self.calls[layer].items():
            is_mask = isinstance(value, torch.Tensor) and value.ndim == 4
            if isinstance(value, Cache):
                given[name] = cache
            elif is_mask or (name == "attention_mask" and value is None):
                length = cache.layers[layer].length
                given[name] = row_mask(value, length, rows, hidden)
            else:
                given[name] = _widen(value, rows)
        return hidden_of(self.decoder.blocks[layer](hidden, **given))


def record(decoder: Decoder, last: torch.Tensor, cache: Cache) -> tuple[Script, list[torch.Tensor]]:
    """Run the last tokens (B, 1) once; return the script and every block's output (B, D)."""
    calls: list[dict] = [{} for _ in decoder.blocks]
    resid: list[torch.Tensor] = [torch.empty(0)] * decoder.n_layers

    def watch(layer: int, block: nn.Module) -> list:
        names = list(inspect.signature(block.forward).parameters)

        def before(module, args, kwargs):
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            given.pop(names[0])  # the hidden states
            calls[layer] = {name: _first(value) for name, value in given.items()}

        def after(module, inputs, output):
            resid[layer] = hidden_of(output)[:, -1].detach()

        return [
            block.register_forward_pre_hook(before, with_kwargs=True),
            block.register_forward_hook(after),
        ]

    hooks = [hook for pair in enumerate(decoder.blocks) for hook in watch(*pair)]
    try:
        decoder.base(last, use_cache=True, **{decoder.cache: cache})
    finally:
        for hook in hooks:
            hook.remove()
    return Script(decoder, calls), resid
