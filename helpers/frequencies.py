r"""Which Fourier modes two addition models share, and what that lets a map between them carry.

Over all p² inputs (a, b) the waves of a, of b, of a + b and of a − b with frequency k are at right
angles to each other: as functions of the input, whatever directions of the stream hold them.  So
what model A does not hold, no linear map of A can hand to B.  This is the ceiling that a rotation
between two models is compared with.

"Mode" is chapter 2's: a frequency k in 1 … ⌊p/2⌋ that has a fixed share of the variance of class
means (:mod:`helpers.cyclic`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from helpers.alignment.principal import check_pair
from helpers.cores import check_activations
from helpers.cyclic import class_means, mode_power, modes_present

KINDS = ("a", "b", "sum", "difference")
"""Waves in a, in b, in a + b, and in a − b."""
MODE_SHARE = 0.01
"""Chapter 2's threshold: a mode is present with this share of the class means' variance."""


def kind_labels(p: int) -> dict[str, Int[np.ndarray, " pairs"]]:
    """The class mod p of every pair (a, b), in the order a · p + b, for each of :data:`KINDS`."""
    a, b = np.divmod(np.arange(p * p), p)
    return {"a": a, "b": b, "sum": (a + b) % p, "difference": (a - b) % p}


def modes_used(
    H: Float[np.ndarray, "pairs D"], p: int, *, kind: str = "sum", threshold: float = MODE_SHARE
) -> frozenset[int]:
    """The modes k whose share of the class means' variance is at least ``threshold``.

    Args:
        H: activations at the last position on all p² pairs (a, b), in the order a · p + b.
        p: the modulus, odd.
        kind: classes of a + b unless another of :data:`KINDS` is asked for.

    Raises:
        ValueError: another number of rows than p², an unknown kind, or class means without modes
            (see :func:`helpers.cyclic.mode_power`).
    """
    H = _all_pairs(H, p)
    if kind not in KINDS:
        raise ValueError(f"kind is one of {', '.join(KINDS)}; got {kind!r}.")
    power = mode_power(class_means(H, kind_labels(p)[kind], p))
    return frozenset(modes_present(power, threshold).tolist())


def embedding_modes(
    W_E: Float[np.ndarray, "p D"], *, threshold: float = MODE_SHARE
) -> frozenset[int]:
    """The modes of the token embedding by the same rule: row c is the mean of class c."""
    return frozenset(modes_present(mode_power(W_E), threshold).tolist())


def jaccard(first: Iterable[int], second: Iterable[int]) -> float:
    """Jaccard index |S ∩ T| / |S ∪ T| of two sets of modes.

    Raises:
        ValueError: both are empty.
    """
    S, T = set(first), set(second)
    if not S | T:
        raise ValueError("two empty sets have no Jaccard index; lower the threshold on modes.")
    return len(S & T) / len(S | T)


def wave_shares(H: Float[np.ndarray, "pairs D"], p: int) -> dict[str, np.ndarray]:
    r"""Share of the total variance in mode k of each of :data:`KINDS`, (⌊p/2⌋,), and ``"mixed"``.

    The class means of a, b, a + b and a − b are orthogonal projections of H on the waves of that
    kind, so the shares add up; what is left, ``"mixed"`` (a 0-d array), are products of waves of
    two frequencies, such as cos(k a) cos(l b), and harmonics such as cos(k a + 2 k b).

    Raises:
        ValueError: as :func:`modes_used`.
    """
    H = _all_pairs(H, p)
    total, shares = H.var(axis=0).sum(), {}
    for kind, labels in kind_labels(p).items():
        means = class_means(H, labels, p)
        shares[kind] = 2 * np.sum(np.abs(np.fft.rfft(means, axis=0)[1:]) ** 2, axis=1)
        shares[kind] /= p**2 * total
    left = 1 - sum(part.sum() for part in shares.values())
    return {**shares, "mixed": np.maximum(left, 0.0)}


@dataclass(frozen=True)
class SharedVariance:
    """What a map from A can carry of B, in shares of B's variance.

    Args:
        total: in modes that A has as well, all kinds together.
        by_kind: the same for each of :data:`KINDS`.
        held: B's variance by kind, shared or not, and ``"mixed"``.
        rotation: the most that a rotation's EV can be, whatever the directions of the stream.
        scaled: the same for a rotation times any one number.
    """

    total: float
    by_kind: dict[str, float]
    held: dict[str, float]
    rotation: float
    scaled: float


def shared_variance(
    H_A: Float[np.ndarray, "pairs D"],
    H_B: Float[np.ndarray, "pairs D"],
    p: int,
    *,
    threshold: float = MODE_SHARE,
) -> SharedVariance:
    r"""How much of B's variance lies in modes that A has, kind by kind; what R can reach at most.

    *Any linear map.*  It makes from A's waves other combinations of these waves only.  With
    :math:`\beta_{tk}` the share of B's variance in mode k of kind t, and S_t the modes of that
    kind with a share of at least ``threshold`` of A's variance, the best EV is
    :math:`\sum_t \sum_{k \in S_t} \beta_{tk}`, if A's waves lie in independent directions and
    what is mixed is not shared.  It is 0 where no mode is shared.  The share is one of all of A's
    variance, as a kind that A hardly has would else hold modes of noise.

    *A rotation* cannot change sizes.  By the triangle inequality for the nuclear norm,
    :math:`\|A^\top B\|_* \le \sum_c \|A_c\| \|B_c\|` over all cells c = ±(k, l) of the Fourier
    transform over both inputs, so with no threshold at all

    .. math:: \mathrm{EV}(R) \le \frac{2 \sum_c \|A_c\|\,\|B_c\| - \sum_c \|A_c\|^2}
        {\sum_c \|B_c\|^2}

    which is 1 for equal spectra and −‖A‖²/‖B‖² where no cell is shared.  With the best scale
    before R it is :math:`(\sum_c \|A_c\|\,\|B_c\|)^2 / (\sum_c \|A_c\|^2 \sum_c \|B_c\|^2)`.
    Both hold for R fitted and scored on all p² inputs; halves of them move it by their sampling
    error.

    Raises:
        ValueError: as :func:`modes_used`, or two models of different widths.
    """
    check_pair(H_A, H_B)
    has, held = wave_shares(H_A, p), wave_shares(H_B, p)
    by_kind = {kind: float(held[kind][has[kind] >= threshold].sum()) for kind in KINDS}
    sizes_A, sizes_B = _cell_sizes(H_A, p), _cell_sizes(H_B, p)
    common, of_A, of_B = sizes_A @ sizes_B, sizes_A @ sizes_A, sizes_B @ sizes_B
    return SharedVariance(
        total=sum(by_kind.values()),
        by_kind=by_kind,
        held={kind: float(part.sum()) for kind, part in held.items()},
        rotation=float((2 * common - of_A) / of_B),
        scaled=float(common**2 / (of_A * of_B)),
    )


def _cell_sizes(H: np.ndarray, p: int) -> np.ndarray:
    """Norm of the Fourier coefficient (k, l) over both inputs, the constant left out.

    A cell and its mirror (−k, −l) have one size each; both stay, which doubles every sum alike.
    """
    F = np.fft.fft2(H.reshape(p, p, -1), axes=(0, 1))
    sizes = np.linalg.norm(F, axis=2).ravel()
    return sizes[1:] / p**2


def _all_pairs(H: np.ndarray, p: int) -> np.ndarray:
    H = check_activations(H)
    if len(H) != p * p:
        raise ValueError(
            f"need the activations on all {p}² = {p * p} pairs, in the order a · p + b; got "
            f"{len(H)} rows."
        )
    return H
