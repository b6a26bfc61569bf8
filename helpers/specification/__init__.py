"""What the bracket model ought to compute, written down twice, and how far the model is from it.

- ``exact``: the algorithm's one-hot answers.
- ``constructive``: the trained model without its idle components; ``components`` finds those.
- ``streaming``: KL of a specification against a model over millions of positions.
- ``annotate``, ``roles``: what the stream knows, and what heads and MLPs do, each with its nulls.
- ``decoy``: a model that is wrong on purpose.

Source: McCann 2026, "Polymorphism Is Rotation" (arXiv:2605.24577), and the doubts about it that the
nulls here are for.
"""

from helpers.specification.annotate import Annotation, annotate
from helpers.specification.components import (
    Component,
    Effect,
    ReplacedDyck,
    ablation_effects,
    component_means,
    components,
    dead_components,
)
from helpers.specification.constructive import Constructive, constructive
from helpers.specification.decoy import averaged_depth, told_apart
from helpers.specification.evidence import Evidence
from helpers.specification.exact import Exact
from helpers.specification.features import FEATURES, feature_columns
from helpers.specification.roles import find_roles
from helpers.specification.streaming import (
    DISTRIBUTIONS,
    Divergence,
    blocks,
    divergence,
    fast_logits,
    module_logits,
)

__all__ = [
    "DISTRIBUTIONS",
    "FEATURES",
    "Annotation",
    "Component",
    "Constructive",
    "Divergence",
    "Effect",
    "Evidence",
    "Exact",
    "ReplacedDyck",
    "ablation_effects",
    "annotate",
    "averaged_depth",
    "blocks",
    "component_means",
    "components",
    "constructive",
    "dead_components",
    "divergence",
    "fast_logits",
    "feature_columns",
    "find_roles",
    "module_logits",
    "told_apart",
]
