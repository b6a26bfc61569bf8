"""The bracket model's symmetry group, and how close it brings one model's weights to another's.

- ``weights``: TransformerLens's names, gains folded; ``group``: elements and what they do.
- ``closed_forms``, ``neurons``: heads, neurons and residual rotation, each with the others held.
- ``align``, ``refine``: the search, and a smooth end to it on the orthogonal group.
- ``balance``: a gauge for invertible maps, so that rotations are all that is left.
- ``report``: errors by tensor, raw and normalised; the nulls.
- ``pull``, ``basins``: activations beside weights, and the path between their two rotations.

Source: McCann 2026, "Polymorphism Is Rotation" (arXiv:2605.24577), bar P.
"""

from helpers.symmetry.align import STEPS, Aligned, Start, align, alternate
from helpers.symmetry.balance import balancing
from helpers.symmetry.basins import (
    LAMBDAS,
    Joint,
    Path,
    activation_rotation,
    joint,
    path,
    profile,
)
from helpers.symmetry.closed_forms import tensor_weights
from helpers.symmetry.group import Symmetry, apply, compose, random_element
from helpers.symmetry.pull import Pull, activation_pull
from helpers.symmetry.refine import refine
from helpers.symmetry.report import Errors, entry_shuffled, errors, zero
from helpers.symmetry.weights import Weights

__all__ = [
    "LAMBDAS",
    "STEPS",
    "Aligned",
    "Errors",
    "Joint",
    "Path",
    "Pull",
    "Start",
    "Symmetry",
    "Weights",
    "activation_pull",
    "activation_rotation",
    "align",
    "alternate",
    "apply",
    "balancing",
    "compose",
    "entry_shuffled",
    "errors",
    "joint",
    "path",
    "profile",
    "random_element",
    "refine",
    "tensor_weights",
    "zero",
]
