"""Are two subspaces, two sets of coordinates, two sets of weights alike?

Each number has a baseline that is not zero, and the functions here come with it: random
subspaces overlap, and permuted inputs correlate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.linalg import subspace_angles
from torch import Tensor


def _check(one: np.ndarray, two: np.ndarray, what: str, letters: str) -> None:
    """Refuse what is not two finite matrices with as many rows and at least one column each."""
    shapes = f"got shapes {np.shape(one)} and {np.shape(two)}"
    if np.ndim(one) != 2 or np.ndim(two) != 2 or not (np.size(one) and np.size(two)):
        raise ValueError(f"{what} must be two non-empty matrices, {letters}; {shapes}.")
    if len(one) != len(two):
        raise ValueError(f"{what} must have as many rows, {letters}; {shapes}.")
    for which, matrix in (("first", one), ("second", two)):
        if not np.isfinite(matrix).all():
            raise ValueError(
                f"{what}: the {which} one holds NaN or infinity; {shapes}. "
                "Find the step that made them, or leave those rows out on both sides."
            )


def principal_angles(Q1: Float[np.ndarray, "D r"], Q2: Float[np.ndarray, "D s"]) -> np.ndarray:
    """Principal angles between two subspaces in degrees, smallest first (min(r, s) of them).

    Raises:
        ValueError: bases of different spaces, an empty one, NaN or infinity.
    """
    _check(Q1, Q2, "bases of one space", "(D, r) and (D, s)")
    return np.degrees(subspace_angles(Q1, Q2))[::-1]


def projector_overlap(Q1: Float[np.ndarray, "D r"], Q2: Float[np.ndarray, "D s"]) -> float:
    r"""Overlap :math:`\|Q_1^\top Q_2\|_F^2 / \sqrt{rs}` of two orthonormal bases, in [0, 1].

    Two independent random r-dimensional subspaces of R^D have expectation r/D.

    Raises:
        ValueError: bases of different spaces, an empty one, NaN or infinity.
    """
    _check(Q1, Q2, "bases of one space", "(D, r) and (D, s)")
    return float(np.sum((Q1.T @ Q2) ** 2) / np.sqrt(Q1.shape[1] * Q2.shape[1]))


def random_subspace(rng: np.random.Generator, D: int, r: int) -> Float[np.ndarray, "D r"]:
    """Orthonormal basis of a uniformly distributed r-dimensional subspace of R^D."""
    if not 1 <= r <= D:
        raise ValueError(f"the rank must lie in 1…{D}; got {r}.")
    return np.linalg.qr(rng.standard_normal((D, r)))[0]


def _orthonormal(Z: np.ndarray) -> np.ndarray:
    """Orthonormal basis of the column space of the centred ``Z`` (N, r)."""
    U, sigma, _ = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)
    if not sigma[0] > 0:
        raise ValueError("these coordinates are constant; nothing can correlate with them.")
    return U[:, sigma > sigma[0] * 1e-10]


def cca(Z1: Float[np.ndarray, "N r"], Z2: Float[np.ndarray, "N s"]) -> np.ndarray:
    """Canonical correlations of two sets of coordinates on the same N inputs, largest first.

    They are the cosines of the angles between the two column spaces (after centring), so any
    invertible affine change of either side leaves them as they are.

    Raises:
        ValueError: different N, an empty side, NaN or infinity, or constant coordinates.
    """
    _check(Z1, Z2, "coordinates of the same inputs", "(N, r) and (N, s)")
    sigma = np.linalg.svd(_orthonormal(Z1).T @ _orthonormal(Z2), compute_uv=False)
    return np.clip(sigma, 0, 1)


def consensus(
    activations: Sequence[Float[np.ndarray, "N D"]],
    rank: int,
    keep: float = 0.999,
    *,
    basis: str = "weights",
) -> list[np.ndarray]:
    r"""Consensus subspaces of several models by generalised CCA (MAXVAR), one basis a model.

    Every model's centred activations are reduced to the principal components that hold ``keep``
    of their variance and whitened to :math:`U_m`; the leading ``rank`` left singular vectors G of
    :math:`[U_1 \dots U_M]` are the shared components.  No Jacobian enters.  Model m *reads* G with
    the weights :math:`W_m = H_m^+ G` and *carries* it in the patterns :math:`P_m = H_m^\top G`
    (Haufe et al. 2014); ``basis`` says which of the two is orthonormalised and returned.

    Raises:
        ValueError: different numbers of inputs, a rank above what is shared, or an unknown basis.
    """
    if basis not in ("weights", "patterns"):
        raise ValueError(f"basis must be 'weights' or 'patterns'; got {basis!r}.")
    if len({len(H) for H in activations}) != 1:
        raise ValueError("every model must see the same inputs, row for row.")
    whitened, maps = [], []
    for H in activations:
        U, sigma, Vt = np.linalg.svd(H - H.mean(axis=0), full_matrices=False)
        r = int(np.searchsorted(np.cumsum(sigma**2) / np.sum(sigma**2), keep) + 1)
        r = min(r, int((sigma > sigma[0] * 1e-10).sum()))  # rounding noise must not be whitened
        whitened.append(U[:, :r])
        maps.append(Vt[:r].T / sigma[:r] if basis == "weights" else Vt[:r].T * sigma[:r])
    stacked = np.hstack(whitened)
    if not 1 <= rank <= stacked.shape[1]:
        raise ValueError(f"the rank must lie in 1…{stacked.shape[1]}; got {rank}.")
    # Left singular vectors by way of the small Gram matrix: its leading values lie between 1 and
    # the number of models, so nothing is lost by squaring, and N may be large.
    values, vectors = np.linalg.eigh(stacked.T @ stacked)
    leading = slice(-1, -rank - 1, -1)
    G = stacked @ vectors[:, leading] / np.sqrt(values[leading])
    return [np.linalg.qr(M @ (U.T @ G))[0] for M, U in zip(maps, whitened, strict=True)]


def weight_cosine(
    state1: dict[str, Tensor], state2: dict[str, Tensor], *, skip_fixed: bool = True
) -> float:
    """Cosine of two models' flattened weights.

    ``skip_fixed`` leaves out what starts alike in every run, norm gains (1) and biases (0):
    they would make any two models look similar.
    """
    names = [
        name
        for name, value in state1.items()
        if not (skip_fixed and (value.ndim == 1 or name.endswith("bias")))
    ]
    a = np.concatenate([state1[name].double().numpy().ravel() for name in names])
    b = np.concatenate([state2[name].double().numpy().ravel() for name in names])
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))
