"""The decoy: a model that is wrong on purpose, which any bar worth having must tell apart.

Source: McCann 2026 (small scale), the decoy with averaged depth unembedding rows.
"""

from __future__ import annotations

import math
from numbers import Real

from torch import Tensor

from helpers.dyck.model import OUTPUTS


def averaged_depth(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same weights with every row of the depth unembedding replaced by the rows' mean.

    All depths then get one logit, so the depth output is uniform and its loss log 9; copy and
    sticky stay as they are.
    """
    head = state["head.weight"].clone()
    head[OUTPUTS["depth"]] = head[OUTPUTS["depth"]].mean(dim=0)
    return {**{name: value.clone() for name, value in state.items()}, "head.weight": head}


def told_apart(model: Real, decoy: Real) -> float:
    """How many times the decoy's value of a bar is the model's; ∞ for a model at 0.

    Raises:
        ValueError: values that are no divergence: negative, NaN, or infinite.
    """
    if not (0 <= model < math.inf and 0 <= decoy < math.inf):
        raise ValueError(f"both values must be finite and not negative; got {model} and {decoy}.")
    if model == 0:
        return math.inf if decoy > 0 else math.nan
    return float(decoy / model)
