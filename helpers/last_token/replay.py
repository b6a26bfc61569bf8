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
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from helpers.last_token.decoder import Decoder, hidden_of


class FrozenLayer(DynamicLayer):
    """One layer's keys and values of U prefixes (U, heads, P, d): read, never written.

    ``index`` (B,) says which of them belongs to each prompt.
    """

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, index: torch.Tensor) -> None:
        super().__init__()
        self.keys, self.values, self.index = keys, values, index
        self.is_initialized = True

    def update(self, key_states, value_states, *args, **kwargs):
        """The prefix's keys and values followed by the new ones, which are not kept."""
        index = self.index.to(key_states.device)
        old = (self.keys[index], self.values[index])
        new = (key_states, value_states)
        return tuple(torch.cat(pair, dim=-2) for pair in zip(old, new, strict=True))


Store = list[tuple[torch.Tensor, torch.Tensor]]  # keys and values of each layer


def freeze(store: Store, index: torch.Tensor) -> Cache:
    """A cache that answers with the prefixes ``index`` of ``store``."""
    return Cache(layers=[FrozenLayer(keys, values, index) for keys, values in store])


def run_prefixes(decoder: Decoder, prefixes: list[tuple[int, ...]], length: int) -> Store:
    """Keys and values of U prefixes, each moved to the right end of ``length`` positions.

    They are run padded on the right, where nothing before the padding can see it.  Moved to the
    right end they lie as far from the last token as they stood, which sliding windows measure; what
    lies before them is masked.
    """
    ids = torch.zeros(len(prefixes), max(map(len, prefixes)), dtype=torch.long)
    for i, row in enumerate(prefixes):
        ids[i, : len(row)] = torch.tensor(row)
    cache = DynamicCache()  # without a configuration it keeps every position of every layer
    decoder.base(ids.to(decoder.device), use_cache=True, **{decoder.cache: cache})
    lengths = torch.tensor([[len(row)] for row in prefixes])
    source = (torch.arange(length) - (length - lengths)).clamp(min=0)[:, None, :, None]

    def moved(X: torch.Tensor) -> torch.Tensor:
        return X.gather(2, source.to(X.device).expand(-1, X.shape[1], -1, X.shape[3]))

    return [(moved(layer.keys), moved(layer.values)) for layer in cache.layers]


def _pick(value, index: torch.Tensor, batch: int):
    """The prompts ``index`` of an argument that was made for ``batch`` prompts."""
    if isinstance(value, tuple | list):
        return type(value)(_pick(entry, index, batch) for entry in value)
    if isinstance(value, dict):
        return {key: _pick(entry, index, batch) for key, entry in value.items()}
    if isinstance(value, torch.Tensor) and value.ndim > 1 and len(value) == batch:
        return value[index.to(value.device)]
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
    """Additive mask (B, 1, R, length + R): each row sees what the last token saw, and itself.

    ``recorded`` (B, 1, 1, length + 1) is the last token's, additive or True for what it sees.
    """
    lowest = torch.finfo(like.dtype).min
    if recorded is None:
        seen = like.new_zeros(1, length + 1)
    elif recorded.dtype == torch.bool:
        hidden = ~recorded[:, 0, 0].to(like.device)
        seen = like.new_zeros(hidden.shape).masked_fill(hidden, lowest)
    else:
        seen = recorded[:, 0, 0].to(like)
    before = seen[:, None, :-1].expand(-1, rows, -1)
    itself = torch.eye(rows, dtype=torch.bool, device=like.device)
    own = torch.where(itself, seen[:, -1, None, None], lowest)
    return torch.cat([before, own], dim=2)[:, None]


class Script:
    """What the model passed to each block with the last tokens of B prompts, to be passed again.

    Made by :func:`record`.
    """

    def __init__(self, decoder: Decoder, calls: list[dict], batch: int) -> None:
        self.decoder, self.calls, self.batch = decoder, calls, batch

    def take(self, index: torch.Tensor) -> Script:
        """The same for some of the prompts; what blocks have in common stays one tensor."""
        memory: dict[int, object] = {}

        def once(value):
            if id(value) not in memory:
                memory[id(value)] = _pick(value, index, self.batch)
            return memory[id(value)]

        calls = [{name: once(value) for name, value in call.items()} for call in self.calls]
        return Script(self.decoder, calls, len(index))

    def block(self, layer: int, hidden: torch.Tensor, cache: Cache) -> torch.Tensor:
        """Block ``layer`` on hidden states (B, R, D), as ``blocks.{layer}`` on the last token."""
        rows, given = hidden.shape[1], {}
        for name, value in self.calls[layer].items():
            is_mask = isinstance(value, torch.Tensor) and value.ndim == 4
            if isinstance(value, Cache):
                given[name] = cache
            elif is_mask or (name == "attention_mask" and value is None):
                length = cache.layers[layer].keys.shape[-2]
                given[name] = row_mask(value, length, rows, hidden)
            else:
                given[name] = _widen(value, rows)
        return hidden_of(self.decoder.blocks[layer](hidden, **given))


def record(
    decoder: Decoder, last: torch.Tensor, cache: Cache, lengths: torch.Tensor
) -> tuple[Script, list[torch.Tensor]]:
    """Run the last tokens (B, 1) once; return the script and every block's output (B, D).

    ``lengths`` (B,) of the prefixes are the tokens' positions.
    """
    calls: list[dict] = [{} for _ in decoder.blocks]
    resid: list[torch.Tensor] = [torch.empty(0)] * decoder.n_layers

    def watch(layer: int, block: nn.Module) -> list:
        names = list(inspect.signature(block.forward).parameters)

        def before(module, args, kwargs):
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            given.pop(names[0])  # the hidden states
            calls[layer] = given

        def after(module, inputs, output):
            resid[layer] = hidden_of(output)[:, -1].detach()

        return [
            block.register_forward_pre_hook(before, with_kwargs=True),
            block.register_forward_hook(after),
        ]

    hooks = [hook for pair in enumerate(decoder.blocks) for hook in watch(*pair)]
    given = {decoder.cache: cache}
    if decoder.mixes_lengths:
        whole = cache.get_seq_length()
        seen = torch.arange(whole + 1) >= (whole - lengths)[:, None]
        given["attention_mask"] = seen.long().to(last.device)
        given["position_ids"] = lengths[:, None].to(last.device)
    try:
        decoder.base(last, use_cache=True, **given)
    finally:
        for hook in hooks:
            hook.remove()
    return Script(decoder, calls, len(last)), resid
