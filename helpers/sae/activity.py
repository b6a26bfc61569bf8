"""How many features fire, how often, and which never do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from helpers.sae.model import SAE, pieces


@dataclass(frozen=True, eq=False)
class Activity:
    """``rate`` (d_sae,): the share of the n rows on which each feature fires (f > 0)."""

    rate: np.ndarray
    n: int

    @property
    def l0(self) -> float:
        """L0: the mean number of active features a row."""
        return float(self.rate.sum())

    @property
    def live(self) -> np.ndarray:
        """Mask (d_sae,) of the features that fire on at least one row."""
        return self.rate > 0

    @property
    def share_dead(self) -> float:
        """Share of the features that never fire on these rows."""
        return float((~self.live).mean())


def activity(sae: SAE, X: Float[np.ndarray, "n d_in"]) -> Activity:
    """Firing rates on raw activations.

    Raises:
        ValueError: activations of another dimension, none at all, NaN or infinity.
    """
    with torch.no_grad():
        fired = sum((sae.encode(x) > 0).sum(dim=0).double() for x in pieces(X, sae))
    return Activity(fired.cpu().numpy() / len(X), len(X))
