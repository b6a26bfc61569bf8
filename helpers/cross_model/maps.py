"""The maps between a pair of models: the fitted rotation, and what it has to beat.

================== ==================================================== ====================
map                what it is                                           what it knows
================== ==================================================== ====================
``rotation``       orthogonal Procrustes on the batch to fit on         the pairing of tokens
``principal_axes`` k-th principal axis to the k-th, random signs        both spectra
``shuffled``       Procrustes with the other model's rows permuted      nothing but the means
``haar``           a Haar draw                                          nothing but the means
``affine``         least squares: an upper bound, and no null           the pairing of tokens
================== ==================================================== ====================
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from helpers.alignment.haar import haar
from helpers.alignment.maps import Alignment, fit_affine, fit_rotation
from helpers.cross_model.side import Side

NULLS = ("principal_axes", "shuffled", "haar")
RIDGE = 1e-9  # some sites fill a few dimensions only: there the normal equations have no solution


class There(NamedTuple):
    """A map ``to_A`` from B's activations to A's, and the way back ``to_B``."""

    to_A: Alignment
    to_B: Alignment


def pair_maps(
    A: Side, B: Side, generator: np.random.Generator, *, nulls: bool = True
) -> dict[str, There]:
    """All maps of the table above by name, fitted on the ``fit`` rows; else ``rotation`` alone.

    What the data leave open of a rotation is a Haar draw of ``generator``.

    Raises:
        ValueError: two sides on different tokens, or of different widths.
    """
    shapes = [(side.fit.shape, side.score.shape) for side in (A, B)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            "both models need the same positions, row for row, and one width; got (fit, score) = "
            f"{shapes[0]} and {shapes[1]}."
        )
    there = {"rotation": fit_rotation(B.fit, A.fit, generator=generator)}
    if nulls:
        signs = generator.choice([-1.0, 1.0], size=len(A.axes))
        means = there["rotation"].mean_x, there["rotation"].mean_y
        mixed = generator.permutation(B.fit)
        there |= {
            "principal_axes": Alignment((B.axes * signs) @ A.axes.T, *means),
            "shuffled": fit_rotation(mixed, A.fit, generator=generator),
            "haar": Alignment(haar(generator, len(A.axes), 1)[0], *means),
        }
    maps = {name: There(to_A, to_A.inverse()) for name, to_A in there.items()}
    if nulls:
        maps["affine"] = There(
            fit_affine(B.fit, A.fit, ridge=RIDGE), fit_affine(A.fit, B.fit, ridge=RIDGE)
        )
    return maps
