"""Prompts of one length, and the one run of everything before their last token."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from helpers.last_token.decoder import Decoder

CHUNK = 32  # prompts a group: large matrix products, small memory; 16 and 128 cost 10-20 % more


@dataclass(frozen=True)
class Group:
    """B prompts of one length.

    ``where`` (B,) they stand among all, their clean ``resid`` (B, L, D), the prefixes' ``cache``,
    which of its entries each prompt uses, ``index`` (B,), and the ``script`` of the last token.
    """

    where: np.ndarray
    resid: torch.Tensor
    cache: object
    index: torch.Tensor
    script: object

    def take(self, local: np.ndarray) -> Group:
        """Some of the prompts."""
        if len(local) == len(self.where) and np.array_equal(local, np.arange(len(local))):
            return self
        to = torch.as_tensor(local, device=self.index.device)
        return replace(
            self,
            where=self.where[local],
            resid=self.resid[to.to(self.resid.device)],
            index=self.index[to],
        )

    def above(self, layer: int) -> Group:
        """Without the keys and values of blocks 0…``layer``, whose memory goes free."""
        from transformers.cache_utils import Cache

        kept = [copy.copy(entry) for entry in self.cache.layers]
        for entry in kept[: layer + 1]:
            entry.keys = entry.values = torch.empty(0)
        return replace(self, cache=Cache(layers=kept))

    @cached_property
    def _frozen(self):
        from helpers.last_token.replay import freeze

        return freeze(self.cache, self.index)

    def block(self, layer: int, hidden: torch.Tensor) -> torch.Tensor:
        """Block ``layer`` on R versions of each prompt's last token, (B, R, D) to (B, R, D)."""
        return self.script.block(layer, hidden, self._frozen)

    def through(self, first: int, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden states (B, R, D) after blocks ``first`` to the last."""
        for layer in range(first, self.script.decoder.n_layers):
            hidden = self.block(layer, hidden)
        return hidden


def by_length(tokens: Sequence[Sequence[int]], chunk: int) -> Iterator[np.ndarray]:
    """Rows of prompts with one length, at most ``chunk`` at once, equal beginnings together.

    Raises:
        ValueError: no prompt, or one of fewer than two tokens.
    """
    lengths = np.array([len(row) for row in tokens])
    if len(lengths) == 0 or lengths.min() < 2:
        where = f"prompt {int(lengths.argmin())} has {lengths.min()}" if len(lengths) else "none"
        raise ValueError(f"need prompts of two tokens or more; {where}.")
    for length in np.unique(lengths):
        rows = sorted(np.flatnonzero(lengths == length), key=lambda i: tuple(tokens[i]))
        for start in range(0, len(rows), chunk):
            yield np.array(rows[start : start + chunk])


def run_group(decoder: Decoder, tokens: Sequence[Sequence[int]], where: np.ndarray) -> Group:
    """Run one group's prefixes, each once though several prompts share it, then its last tokens."""
    from transformers.cache_utils import DynamicCache

    from helpers.last_token.replay import freeze, record

    ids = torch.tensor([list(tokens[i]) for i in where], device=decoder.device)
    prefixes, index = torch.unique(ids[:, :-1], dim=0, return_inverse=True)
    cache = DynamicCache(config=decoder.model.config.get_text_config(decoder=True))
    decoder.base(prefixes, use_cache=True, **{decoder.cache: cache})
    script, resid = record(decoder, ids[:, -1:], freeze(cache, index))
    device = resid[-1].device
    return Group(where, torch.stack([h.to(device) for h in resid], 1), cache, index, script)
