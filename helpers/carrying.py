r"""One model's core in another model: carried by a map, compared with the other's own, and used.

Rows are activations, so a map R takes a direction v to v R, and a core with the orthonormal columns
Q (D, r) to the columns :math:`\mathrm{orth}(R^\top Q)`.  Two questions follow.  *Is it the same
subspace?*  Principal angles with the other model's own core answer.  *Does it do the same work?*
Keep it, remove it or flip it in the other model, and let that model's own remaining layers answer.

Source: the two papers put together: Schiffman 2026 (cores; validate), McCann 2026 (rotation).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from helpers.alignment.haar import haar
from helpers.alignment.maps import Alignment, fit_rotation
from helpers.alignment.principal import active_subspace
from helpers.comparison import principal_angles, random_subspace
from helpers.cores import Core
from helpers.interventions import necessary_rank, project, rank_curve, sufficient_rank


@dataclass(frozen=True, eq=False)
class Side:
    """One model at one site.

    ``fit`` (N, D) are the activations on which maps and the ``core`` are fitted, ``held_out``
    (M, D) those on which everything is scored.  ``score`` takes activations in the place of
    ``held_out``, row for row, through the model's own remaining layers to an accuracy, and
    ``limit`` is the accuracy that counts as chance.
    """

    fit: np.ndarray
    held_out: np.ndarray
    core: Core
    score: Callable[[np.ndarray], float]
    limit: float

    @property
    def base(self) -> float:
        """Accuracy of the activations as they are."""
        return self.score(self.held_out)


@dataclass(frozen=True, eq=False)
class Judged:
    """A subspace in a model: ``angles`` with the model's own core (degrees, smallest first), and
    the accuracy as it is (``base``), after ``keep``, ``remove`` and ``flip``, and the ``limit``."""

    angles: np.ndarray
    base: float
    keep: float
    remove: float
    flip: float
    limit: float

    @property
    def largest(self) -> float:
        """The largest principal angle, in degrees."""
        return float(self.angles[-1])

    @property
    def keep_minus_base(self) -> float:
        """Accuracy with nothing but the subspace, minus the accuracy as it is."""
        return self.keep - self.base

    @property
    def remove_over_limit(self) -> float:
        """Accuracy without the subspace over what counts as chance; at most 1 is chance."""
        return self.remove / self.limit


def causal_rank(side: Side, tolerance: float = 1e-3) -> int:
    """Smallest rank of a model's own core that is both sufficient and necessary on ``held_out``.

    To choose a rank without a look at the rows that are scored later, give a side whose
    ``held_out`` (and ``score``) are those of the fit.

    Sufficient: ``keep`` within ``tolerance`` of the base.  Necessary: ``remove`` at the limit or
    below.  Where no rank of the core does both, the whole core.
    """
    basis, mean = side.core.basis, side.core.mean
    keep, remove = (
        rank_curve(side.held_out, basis, mean, mode, side.score) for mode in ("keep", "remove")
    )
    ranks = sufficient_rank(keep, side.base, tolerance), necessary_rank(remove, side.limit)
    return side.core.rank if None in ranks else max(ranks)


def cut(core: Core, rank: int) -> Core:
    """The core's leading ``rank`` directions.

    Raises:
        ValueError: a rank that the core does not have.
    """
    if not 1 <= rank <= core.rank:
        raise ValueError(f"this core has ranks 1…{core.rank}; got {rank}.")
    return replace(core, basis=core.basis[:, :rank])


def carry(basis: Float[np.ndarray, "D r"], to_B: Alignment) -> Float[np.ndarray, "D r"]:
    r"""The subspace in the other model's stream: an orthonormal basis of :math:`R^\top Q`.

    Raises:
        ValueError: a basis of another width, or a map that takes part of the subspace to nothing.
    """
    if np.shape(basis)[0] != len(to_B.mean_x):
        raise ValueError(
            f"the map takes activations of width {len(to_B.mean_x)}; got a basis "
            f"{np.shape(basis)}. Take both from one site."
        )
    carried = to_B.direction(basis.T).T
    sizes = np.linalg.svd(carried, compute_uv=False)
    if sizes[-1] <= 1e-10 * sizes[0]:
        raise ValueError(
            f"this map takes part of the {basis.shape[1]}-dimensional core to nothing: its "
            "activations fill too few dimensions. Fit a rotation, or add a ridge."
        )
    return np.linalg.qr(carried)[0]


def judge(basis: Float[np.ndarray, "D r"], B: Side) -> Judged:
    """A subspace of B's stream against B's own core, and at work in B.

    What is ablated goes to the mean of the rows on which B's core was fitted.
    """
    changed = {
        mode: B.score(project(B.held_out, basis, B.core.mean, mode))
        for mode in ("keep", "remove", "flip")
    }
    return Judged(principal_angles(basis, B.core.basis), B.base, **changed, limit=B.limit)


def transplanted(A: Side, B: Side, to_B: Alignment) -> float:
    r"""B's accuracy where its stream holds nothing but A's core, carried.

    With Q an orthonormal basis of the carried core and m the mean of the rows that B was fitted
    on, B goes on from :math:`m + (\hat y - m) Q Q^\top` with ŷ A's activation, mapped.  Angles ask
    for the same subspace; this asks for the same *coordinates* in it, input by input.
    """
    basis = carry(A.core.basis, to_B)
    return B.score(project(to_B.apply(A.held_out), basis, B.core.mean, "keep"))


def random_angles(
    D: int, r: int, s: int, n: int, generator: np.random.Generator
) -> Float[np.ndarray, "n m"]:
    """Principal angles (degrees, m = min(r, s)) of a core of rank r, carried by a Haar draw, with
    one of rank s.

    A Haar draw takes every core to a uniform subspace, so neither core matters.
    """
    own = np.eye(D)[:, :s]
    return np.array([principal_angles(random_subspace(generator, D, r), own) for _ in range(n)])


def haar_alignment(A: Side, B: Side, generator: np.random.Generator) -> Alignment:
    """A Haar draw from O(D) between the two models' means."""
    D = A.fit.shape[1]
    return Alignment(haar(generator, D, 1)[0], A.fit.mean(axis=0), B.fit.mean(axis=0))


def active_share(
    basis: Float[np.ndarray, "D r"], X: Float[np.ndarray, "N D"], keep: float = 0.99
) -> float:
    r"""Share :math:`\|V^\top Q\|_F^2 / r` of a core inside the active subspace V of activations.

    V spans the fewest principal axes that hold the share ``keep`` of the variance.  Outside it a
    fitted rotation is arbitrary, and so is where it carries what lies there.
    """
    return float(np.sum((active_subspace(X, keep).T @ basis) ** 2) / basis.shape[1])


def sample_curve(
    A: Side,
    B: Side,
    sizes: Sequence[int],
    generator: np.random.Generator,
    groups: Int[np.ndarray, " N"] | None = None,
) -> Float[np.ndarray, " sizes"]:
    """:func:`transplanted` minus B's base by the number of samples that R is fitted on.

    A sample is a row, or with ``groups`` a whole group of rows, such as a sequence: positions of
    one sequence are not independent.  Samples are drawn without replacement, smaller sets are part
    of larger ones, and both cores stay as they are.

    Raises:
        ValueError: a size below 2 or above the number of samples.
    """
    labels = np.arange(len(A.fit)) if groups is None else groups
    names = np.unique(labels)
    order, base, found = generator.permutation(names), B.base, []
    for size in sizes:
        if not 2 <= size <= len(names):
            raise ValueError(f"there are {len(names)} samples to fit on; got a size of {size}.")
        rows = np.isin(labels, order[:size])
        to_B = fit_rotation(A.fit[rows], B.fit[rows], generator=generator)
        found.append(transplanted(A, B, to_B) - base)
    return np.array(found)


def row_jacobian(
    forward: Callable[[Tensor], Tensor], H: Float[np.ndarray, "N D"]
) -> Float[np.ndarray, "N K D"]:
    """Jacobian of K outputs, centred over them, with respect to each row, by K backward passes.

    Args:
        forward: takes (N, D) to (N, K); no row may see another one.
        H: activations.
    """
    x = torch.from_numpy(np.ascontiguousarray(H)).float().requires_grad_()
    out = forward(x)
    out = out - out.mean(dim=1, keepdim=True)
    rows = [
        torch.autograd.grad(out[:, k].sum(), x, retain_graph=k + 1 < out.shape[1])[0]
        for k in range(out.shape[1])
    ]
    return torch.stack(rows, dim=1).double().numpy()
