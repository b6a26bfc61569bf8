"""Prompts that run together, and the one run of everything before their last token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from helpers.last_token.decoder import Decoder

CHUNK = 128  # prompts a group: they share each pass over the weights
TOGETHER = 32  # prefixes run at once: of similar length, since they are padded


@dataclass(frozen=True)
class Group:
    """B prompts that are run together.

    ``where`` (B,) they stand among all, their clean ``resid`` (B, L, D), keys and values of the
    prefixes, ``store``, which of them each prompt uses, ``index`` (B,), and the ``script`` of the
    last token.
    """

    where: np.ndarray
    resid: torch.Tensor
    store: list
    index: torch.Tensor
    script: object

    def take(self, local: np.ndarray) -> Group:
        """Some of the prompts."""
        if len(local) == len(self.where) and np.array_equal(local, np.arange(len(local))):
            return self
        to = torch.as_tensor(local)
        return replace(
            self,
            where=self.where[local],
            resid=self.resid[to.to(self.resid.device)],
            index=self.index[to],
            script=self.script.take(to),
        )

    def split(self, size: int) -> Iterator[Group]:
        """The same prompts, at most ``size`` at once."""
        for start in range(0, len(self.where), size):
            yield self.take(np.arange(start, min(start + size, len(self.where))))

    def above(self, layer: int) -> Group:
        """Without the keys and values of blocks 0…``layer``, whose memory goes free."""
        nothing = (torch.empty(0), torch.empty(0))
        return replace(self, store=[nothing] * (layer + 1) + self.store[layer + 1 :])

    @cached_property
    def _frozen(self):
        from helpers.last_token.replay import freeze

        return freeze(self.store, self.index)

    def block(self, layer: int, hidden: torch.Tensor) -> torch.Tensor:
        """Block ``layer`` on R versions of each prompt's last token, (B, R, D) to (B, R, D)."""
        return self.script.block(layer, hidden, self._frozen)

    def through(self, first: int, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden states (B, R, D) after blocks ``first`` to the last."""
        for layer in range(first, self.script.decoder.n_layers):
            hidden = self.block(layer, hidden)
        return hidden


def in_groups(
    tokens: Sequence[Sequence[int]], chunk: int, *, mixed: bool = False
) -> Iterator[np.ndarray]:
    """Rows of at most ``chunk`` prompts, sorted by length, equal beginnings together.

    Args:
        tokens: N prompts.
        chunk: most prompts in a group.
        mixed: whether a group may hold several lengths.

    Raises:
        ValueError: no prompt, or one of fewer than two tokens.
    """
    lengths = np.array([len(row) for row in tokens])
    if len(lengths) == 0 or lengths.min() < 2:
        where = f"prompt {int(lengths.argmin())} has {lengths.min()}" if len(lengths) else "none"
        raise ValueError(f"need prompts of two tokens or more; {where}.")
    order = np.array(sorted(range(len(tokens)), key=lambda i: (lengths[i], tuple(tokens[i]))))
    cuts = [] if mixed else np.flatnonzero(np.diff(lengths[order])) + 1
    for rows in np.split(order, cuts):
        for start in range(0, len(rows), chunk):
            yield rows[start : start + chunk]


def run_group(decoder: Decoder, tokens: Sequence[Sequence[int]], where: np.ndarray) -> Group:
    """Run one group's prefixes, each once though several prompts share it, then its last tokens."""
    from helpers.last_token.replay import freeze, record, run_prefixes

    each = [tuple(int(t) for t in tokens[i][:-1]) for i in where]
    prefixes = list(dict.fromkeys(each))  # in order, so that neighbours have similar lengths
    index = torch.tensor([prefixes.index(prefix) for prefix in each])
    lengths = torch.tensor([len(prefix) for prefix in each])
    longest = int(lengths.max())
    stores = [
        run_prefixes(decoder, prefixes[start : start + TOGETHER], longest)
        for start in range(0, len(prefixes), TOGETHER)
    ]
    store = [
        tuple(torch.cat(parts) for parts in zip(*layer, strict=True))
        for layer in zip(*stores, strict=True)
    ]
    last = torch.tensor([[int(tokens[i][-1])] for i in where], device=decoder.device)
    script, resid = record(decoder, last, freeze(store, index), lengths)
    device = resid[-1].device
    return Group(where, torch.stack([h.to(device) for h in resid], 1), store, index, script)
