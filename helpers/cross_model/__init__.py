"""Everything that is asked of two models at one site, in one report.

- ``activations``: both models' residual streams on the same tokens, split by sequence.
- ``side``: what concerns one model alone, computed once for all of its pairs.
- ``maps``: the rotation between two models, and the maps that it has to beat.
- ``scores``: SAEs, decoders and firing under each of them.
- ``report``: all of it, for an ordered pair.

Source: McCann 2026, "Polymorphism Is Rotation" (arXiv:2605.24577), and the doubts about it that the
nulls here are for.
"""

from helpers.cross_model.activations import Plan, collect, split_sequences, streams
from helpers.cross_model.maps import NULLS, There, pair_maps
from helpers.cross_model.report import CrossModel, cross_model_report
from helpers.cross_model.scores import Carried, Cosines, firing, one_sae_on_another
from helpers.cross_model.side import Side, prepare

__all__ = [
    "NULLS",
    "Carried",
    "Cosines",
    "CrossModel",
    "Plan",
    "Side",
    "There",
    "collect",
    "cross_model_report",
    "firing",
    "one_sae_on_another",
    "pair_maps",
    "prepare",
    "split_sequences",
    "streams",
]
