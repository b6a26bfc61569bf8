"""Orthogonal matrices that are not Haar, as draws: what a test of Haar should notice.

Each function takes (generator, d) and returns (d, d); some are made by a function of a parameter.
``hidden`` turns any of them into the same spectrum without favoured coordinates.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.linalg import block_diag, expm, polar

from helpers.alignment.geodesic import geodesic
from helpers.alignment.haar import haar

Alternative = Callable[[np.random.Generator, int], Float[np.ndarray, "d d"]]


def haar_draw(generator: np.random.Generator, d: int) -> Float[np.ndarray, "d d"]:
    """A Haar draw from O(d): the row that shows a test's size."""
    return haar(generator, d, 1)[0]


def blocks(count: int) -> Alternative:
    """``count`` Haar blocks of d / count coordinates each: groups that do not mix.

    Drawing raises ValueError where d is no multiple of ``count`` or a block is smaller than 2.
    """

    def draw(generator: np.random.Generator, d: int) -> Float[np.ndarray, "d d"]:
        if d % count or d // count < 2:
            raise ValueError(f"{d} dimensions do not make {count} equal blocks of 2 or more.")
        return block_diag(*haar(generator, d // count, count))

    return draw


def pinned(count: int) -> Alternative:
    """The first ``count`` coordinates stay where they are; the others turn by a Haar draw.

    Drawing raises ValueError where no coordinate is left.
    """

    def draw(generator: np.random.Generator, d: int) -> Float[np.ndarray, "d d"]:
        return block_diag(np.eye(count), haar(generator, d - count, 1)[0])

    return draw


def permutation(generator: np.random.Generator, d: int) -> Float[np.ndarray, "d d"]:
    """A uniform permutation of the coordinates."""
    return np.eye(d)[generator.permutation(d)]


def signed_permutation(generator: np.random.Generator, d: int) -> Float[np.ndarray, "d d"]:
    """A permutation with random signs: the symmetries of Adam's and ReLU's coordinates."""
    return permutation(generator, d) * generator.choice([-1.0, 1.0], size=d)


def cyclic_shift(generator: np.random.Generator, d: int) -> Float[np.ndarray, "d d"]:
    """Every coordinate moves to the next: eigenvalues as even as can be. It is one matrix."""
    return np.roll(np.eye(d), 1, axis=1)


def near_identity(angle: float) -> Alternative:
    """exp(A), A random and skew, with rotation angles of root mean square ``angle`` (radians)."""

    def draw(generator: np.random.Generator, d: int) -> Float[np.ndarray, "d d"]:
        G = generator.standard_normal((d, d))
        A = G - G.T
        # ‖A‖² = Σ θ² over the d eigenvalues iθ
        return expm(A * angle * np.sqrt(d) / np.linalg.norm(A))

    return draw


def part_way(t: float) -> Alternative:
    """The rotation a fraction ``t`` of the way from the identity to a Haar draw of SO(d)."""

    def draw(generator: np.random.Generator, d: int) -> Float[np.ndarray, "d d"]:
        return geodesic(haar(generator, d, 1, "SO")[0], t)

    return draw


def heavy_tailed(freedom: float) -> Alternative:
    """The orthogonal factor of a matrix with Student-t entries: noise that favours coordinates."""

    def draw(generator: np.random.Generator, d: int) -> Float[np.ndarray, "d d"]:
        return polar(generator.standard_t(freedom, size=(d, d)))[0]

    return draw


def hidden(alternative: Alternative) -> Alternative:
    """``alternative`` in a Haar-random basis, H A Hᵀ: its spectrum, and no favoured coordinates."""

    def draw(generator: np.random.Generator, d: int) -> Float[np.ndarray, "d d"]:
        H = haar(generator, d, 1)[0]
        return H @ alternative(generator, d) @ H.T

    return draw


ALTERNATIVES: dict[str, Alternative] = {
    "Haar": haar_draw,
    "2 blocks": blocks(2),
    "2 blocks, hidden": hidden(blocks(2)),
    "8 blocks": blocks(8),
    "8 blocks, hidden": hidden(blocks(8)),
    "3 pinned": pinned(3),
    "3 pinned, hidden": hidden(pinned(3)),
    "6 pinned": pinned(6),
    "permutation": permutation,
    "signed permutation": signed_permutation,
    "cyclic shift": cyclic_shift,
    "cyclic shift, hidden": hidden(cyclic_shift),
    "near the identity": near_identity(0.1),
    "half way": part_way(0.5),
    "heavy-tailed entries": heavy_tailed(3.0),
}
