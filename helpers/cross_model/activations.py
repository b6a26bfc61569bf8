"""Residual streams of several models on the same tokens, and a split that keeps sequences whole.

Positions of one sequence depend on each other.  A map that is fitted on some of them and scored on
the others has seen most of what it is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

AT_ONCE = 256
"""Sequences in one forward pass."""


@runtime_checkable
class Hooked(Protocol):
    """A model with TransformerLens's ``run_with_cache``."""

    def run_with_cache(self, tokens: Any, **keywords: Any) -> Any:
        """Output, and activations by the names of their hook points."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Which sequences a map is ``fit`` on, and on which it is ``score`` d: their row numbers."""

    fit: np.ndarray
    score: np.ndarray

    def groups(self, mask: Bool[np.ndarray, "n pos"]) -> Int[np.ndarray, " positions"]:
        """The sequence of each position that is collected from the rows ``fit`` of ``mask``."""
        kept = mask[self.fit]
        return np.repeat(np.arange(len(kept)), kept.sum(axis=1))


def split_sequences(
    generator: np.random.Generator, tokens: Int[np.ndarray, "n pos"], *, share: float = 0.5
) -> Plan:
    """A random split in which equal rows lie on one side; ``share`` of the different ones fit.

    Short sequences come up several times in any batch.  Kept together, no row that is scored was
    fitted on.

    Raises:
        ValueError: a share outside (0, 1), or too few different rows for two sides.
    """
    different, which = np.unique(tokens, axis=0, return_inverse=True)
    first = round(share * len(different))
    if not (0 < share < 1 and 0 < first < len(different)):
        raise ValueError(
            f"{len(different)} different sequences and a share of {share} do not make two sides. "
            "Give more sequences, or a share in (0, 1)."
        )
    fits = np.isin(which.reshape(-1), generator.permutation(len(different))[:first])
    return Plan(np.flatnonzero(fits), np.flatnonzero(~fits))


def streams(
    hooked: Hooked, tokens: Int[np.ndarray, "n pos"], sites: Sequence[str]
) -> dict[str, Float[Tensor, "n pos d_model"]]:
    """The residual stream at each site, padding included, in the model's precision.

    Raises:
        ValueError: no site, one that is asked for twice, or one that the model does not have.
    """
    parts: dict[str, list[Tensor]] = {site: [] for site in sites}
    if len(parts) != len(sites) or not parts:
        raise ValueError(f"sites must be different names, at least one; got {list(sites)}.")
    with torch.no_grad():
        for start in range(0, len(tokens), AT_ONCE):
            rows = torch.from_numpy(np.ascontiguousarray(tokens[start : start + AT_ONCE]))
            _, cache = hooked.run_with_cache(rows, names_filter=lambda name: name in parts)
            missing = [site for site in sites if site not in cache]
            if missing:
                raise ValueError(
                    f"the model has no hook point {missing[0]!r}; see its hook_dict for the names."
                )
            for site, values in parts.items():
                values.append(cache[site])
    return {site: torch.cat(values) for site, values in parts.items()}


def collect(
    hooked: Hooked,
    tokens: Int[np.ndarray, "n pos"],
    sites: Sequence[str],
    *,
    mask: Bool[np.ndarray, "n pos"],
) -> dict[str, Float[np.ndarray, "positions d_model"]]:
    """Activations (N, d_model) at the N positions of the mask, by site.

    Rows go sequence by sequence, so that every model's row k is the same position of the same
    tokens.  A part of the sequences runs at a time, and no further than the mask's last position:
    a causal model answers there whatever follows.

    Raises:
        ValueError: a mask of another shape or without a position, and as :func:`streams`.
    """
    if mask.shape != tokens.shape or not mask.any():
        raise ValueError(
            f"the mask must have the tokens' shape {tokens.shape} and keep a position; got "
            f"{mask.shape} with {int(mask.sum())} kept."
        )
    parts = []
    for start in range(0, len(tokens), AT_ONCE):
        kept = mask[start : start + AT_ONCE]
        if kept.any():
            length = int(np.flatnonzero(kept.any(axis=0))[-1]) + 1
            found = streams(hooked, tokens[start : start + AT_ONCE, :length], sites)
            parts.append({site: x.cpu().numpy()[kept[:, :length]] for site, x in found.items()})
    return {site: np.concatenate([part[site] for part in parts]) for site in sites}
