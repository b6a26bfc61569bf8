"""Vectors added to a model's residual stream, and what they do in another model.

Of the bracket model:

- ``directions``: depth, sticky and closer, as matched differences of means.
- ``effects``: what a dose of a vector does to the three outputs.
- ``transfer``: one model's vector in another, raw and through a map, against the other's own.

Of language models, not imported here:

- ``contrasts``: sentences for sentiment, name and number size.
- ``language``: directions from them, and what they make likelier.

Source: McCann 2026, "Polymorphism Is Rotation" (arXiv:2605.24577), steering vectors; Turner et al.
2023 (arXiv:2308.10248), activation addition.
"""

from helpers.steering.directions import (
    NAMES,
    SITE,
    directions,
    matched_difference,
    places,
)
from helpers.steering.effects import MEASURES, Steered, Steerer
from helpers.steering.transfer import HalfDose, TransferCurves, overlap, transfer_curves

__all__ = [
    "MEASURES",
    "NAMES",
    "SITE",
    "HalfDose",
    "Steered",
    "Steerer",
    "TransferCurves",
    "directions",
    "matched_difference",
    "overlap",
    "places",
    "transfer_curves",
]
