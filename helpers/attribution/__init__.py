"""What a model's components do to its loss: measured by ablation, predicted by gradients.

- ``components``: heads, attention layers, MLPs and blocks, found by their hook points.
- ``objective``: what a model is asked, and its loss by row.
- ``interpolate``, ``replay``: a component moved towards its mean, and only what follows run again.
- ``methods``: mean ablation, attribution patching, cumulative ablation.
- ``integrated``: integrated gradients of one component at a time.
- ``quadrature``: endpoint, midpoint, Gauss–Legendre, adaptive and pooled, and their errors' order.
- ``effects``: predicted beside measured: r, Σ|error| / Σ|effect|, completeness, cost.
- ``batches``: does attribution patching get better with the batch?

Source: McCann 2026, "Polymorphism Is Rotation" (arXiv:2605.24577), and the doubts about it.
"""

from helpers.attribution.batches import ByBatch, ap_by_batch
from helpers.attribution.components import KINDS, Component, find_components
from helpers.attribution.effects import Attribution, Effects, Passes, pearson, relative_error
from helpers.attribution.integrated import ADAPTIVE, POOLED, integrated_gradients
from helpers.attribution.interpolate import component_means
from helpers.attribution.methods import (
    attribution_patching,
    cumulative_ablation,
    mean_ablation,
)
from helpers.attribution.objective import (
    Objective,
    brackets,
    from_answers,
    last_position,
    next_token,
)
from helpers.attribution.quadrature import RULES, order, quadrature

__all__ = [
    "ADAPTIVE",
    "KINDS",
    "POOLED",
    "RULES",
    "Attribution",
    "ByBatch",
    "Component",
    "Effects",
    "Objective",
    "Passes",
    "ap_by_batch",
    "attribution_patching",
    "brackets",
    "component_means",
    "cumulative_ablation",
    "find_components",
    "from_answers",
    "integrated_gradients",
    "last_position",
    "mean_ablation",
    "next_token",
    "order",
    "pearson",
    "quadrature",
    "relative_error",
]
