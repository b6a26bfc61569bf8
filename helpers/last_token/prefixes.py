"""Run everything but the last token once, in groups, and keep keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from helpers.last_token.decoder import Decoder, take_apart
from helpers.last_token.groups import CHUNK, Group, in_groups, run_group
from helpers.last_token.outputs import Outputs, Readout


@dataclass(frozen=True)
class Prefixes:
    """N prompts ready for extraction and sweeps; see :func:`prepare`."""

    decoder: Decoder
    readout: Readout
    groups: tuple[Group, ...]
    n_prompts: int
    lowest: int = 0  # keys and values of blocks up to this one are not needed, or dropped

    @property
    def outputs(self) -> Outputs:
        """The margins that are looked at."""
        return self.readout.outputs

    @property
    def n_layers(self) -> int:
        """L, the number of blocks."""
        return self.decoder.n_layers

    @property
    def resid(self) -> Float[np.ndarray, "N L D"]:
        """Clean ``blocks.{l}.hook_resid_post`` at the last position."""
        return self.gather(lambda group: group.resid.float())

    @property
    def margins(self) -> Float[np.ndarray, "N K"]:
        """Clean margins."""
        with torch.inference_mode():
            return self.gather(lambda group: self.readout(group.resid[:, -1]))

    @property
    def megabytes(self) -> float:
        """Memory that the kept keys, values and residual streams take."""
        kept = [group.resid for group in self.groups]
        stores = {id(group.store): group.store for group in self.groups}
        kept += [X for store in stores.values() for layer in store for X in layer]
        return sum(t.numel() * t.element_size() for t in kept) / 1e6

    def scored_on(self, outputs: Outputs) -> Prefixes:
        """The same prompts and their kept prefixes, with other margins."""
        old = self.readout
        return replace(self, readout=Readout(old.tail, old.head, old.softcap, outputs))

    def select(self, rows: Sequence[int] | np.ndarray) -> Prefixes:
        """Some of the prompts, in the order given; nothing is run again.

        Raises:
            IndexError: a row that is not there.
        """
        rows = np.arange(self.n_prompts)[np.asarray(rows)] if len(rows) else np.zeros(0, int)
        if rows.size == 0:
            raise IndexError("no prompt is selected; give at least one row.")
        groups = []
        for group in self.groups:
            wanted, local = np.nonzero(rows[:, None] == group.where[None])
            if len(wanted):
                groups.append(replace(group.take(local), where=wanted))
        return replace(self, groups=tuple(groups), n_prompts=len(rows))

    def above(self, layer: int) -> Prefixes:
        """For work at ``layer`` and above alone: the keys and values below are dropped.

        They are freed once nothing else holds the prefixes that this was called on.

        Raises:
            IndexError: no such layer, or one whose keys are dropped already.
        """
        self.check_layer(layer)
        groups = tuple(group.above(layer) for group in self.groups)
        return replace(self, groups=groups, lowest=layer)

    def gather(self, compute) -> np.ndarray:
        """``compute(group)`` (B, …) of every group, in the order of the prompts, as NumPy."""
        whole: np.ndarray | None = None
        for group in self.groups:
            part = compute(group).cpu().numpy()
            if whole is None:
                whole = np.empty((self.n_prompts, *part.shape[1:]), dtype=part.dtype)
            whole[group.where] = part
        return whole

    def check_layer(self, layer: int) -> int:
        """``layer`` itself, where the model has it."""
        if not 0 <= layer < self.n_layers:
            raise IndexError(f"layer {layer} is not among 0…{self.n_layers - 1} of this model.")
        if layer < self.lowest:
            raise IndexError(
                f"keys and values below layer {self.lowest} were dropped by above(); prepare the "
                f"prompts again to work at layer {layer}."
            )
        return int(layer)


def _check(prefixes: Prefixes, tokens: Sequence[Sequence[int]]) -> None:
    """Hold replayed rows against the model's own forward pass, for one prompt."""
    lengths = [[len(tokens[i]) for i in group.where] for group in prefixes.groups]
    group = prefixes.groups[int(np.argmax([max(some) - min(some) for some in lengths]))]
    group = group.take(np.array([0]))  # the shortest, before which most is masked
    ids = torch.tensor([list(tokens[group.where[0]])], device=prefixes.decoder.device)
    logits = prefixes.decoder.model(ids, use_cache=False).logits[0, -1].float()
    want = prefixes.outputs.of_logits(logits)
    clean = group.resid[:, 0]
    hidden = torch.stack([clean, -clean, clean], dim=1)  # a stranger between two equal rows
    got = prefixes.readout(group.through(1, hidden))[0, [0, 2]].to(want.device)
    scale = max(1.0, float(logits.abs().max()))
    loose = 1e-4 if prefixes.decoder.dtype == torch.float32 else 0.1
    gap = float((got - want).abs().max()) / scale
    if not gap <= loose:
        raise ValueError(
            f"{type(prefixes.decoder.model).__name__} cannot be replayed block by block: margins "
            f"differ by {gap:.1e} of the largest logit from the model's own. Use full_sweep and "
            "full_extract, which only hook its forward pass."
        )


def prepare(
    model: nn.Module, tokens: Sequence[Sequence[int]], outputs: Outputs, *, chunk: int = CHUNK
) -> Prefixes:
    """Group prompts by length and run each different prefix (all tokens but the last) once.

    Args:
        model: a Hugging Face causal language model in eval mode.
        tokens: N prompts of two token ids or more, without padding.
        outputs: the margins to look at; :meth:`Prefixes.scored_on` changes them later.
        chunk: most prompts in a group, which bounds the memory of an extraction.

    Raises:
        ValueError: prompts too short, ids beyond the vocabulary, or a model whose replayed last
            token does not give its own margins (checked on one prompt).
    """
    if chunk < 1:
        raise ValueError(f"a group holds one prompt or more; got chunk = {chunk}.")
    decoder = take_apart(model)
    readout = Readout(decoder.tail, decoder.head, decoder.softcap, outputs)
    with torch.no_grad():
        rows = in_groups(tokens, chunk, mixed=decoder.mixes_lengths)
        groups = tuple(run_group(decoder, tokens, where) for where in rows)
        prefixes = Prefixes(decoder, readout, groups, len(tokens))
        _check(prefixes, tokens)
    return prefixes
