r"""ACE, algorithmic core extraction: which directions of a layer are active *and* relevant.

At one layer, ``H`` (N, D) holds activations and ``J`` (N, K, D) the Jacobian of the task's K
outputs with respect to each of them.  The covariance C = cov(H) says what is active, the Gramian
O = mean JᵀJ what the outputs can see.  The core is the subspace on which both are large: the
reachable and observable part of a system, as in balanced truncation.

Source: Schiffman 2026 (ACE: extract).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Core:
    """A core: orthonormal ``basis`` (D, r), the layer's ``mean`` (D,), balanced ``energy`` (m,).

    ``energy`` is sorted from high to low and holds every balanced direction, not only the r kept.
    """

    basis: np.ndarray
    mean: np.ndarray
    energy: np.ndarray

    @property
    def rank(self) -> int:
        """Dimension r of the core."""
        return self.basis.shape[1]

    def coordinates(self, H: Float[np.ndarray, "*batch D"]) -> Float[np.ndarray, "*batch r"]:
        """Core coordinates z = (h − mean) Q."""
        return (H - self.mean) @ self.basis


def _unit(X: np.ndarray) -> tuple[np.ndarray, int]:
    """``X`` as (entries in [−1, 1]) · 2^exponent: a power of two, so that no digit changes."""
    exponent = int(np.frexp(np.abs(X).max())[1])
    return np.ldexp(X, -exponent), exponent


def check_activations(H: np.ndarray) -> np.ndarray:
    """Return ``H`` (N, D) as float64.

    Raises:
        ValueError: not two-dimensional, fewer than two rows, no column, NaN or infinity, or all
            rows equal (to 1e-12 of their mean).
    """
    H = np.asarray(H, dtype=np.float64)
    if H.ndim != 2 or len(H) < 2 or not H.shape[1]:
        raise ValueError(
            f"activations must be (N, D) with N ≥ 2 and D ≥ 1; got shape {H.shape}. "
            "Flatten sequences with H.reshape(-1, D)."
        )
    if not np.isfinite(H).all():
        bad = int(np.argwhere(~np.isfinite(H).all(axis=1))[0, 0])
        raise ValueError(f"activations hold NaN or infinity, first in row {bad} of {len(H)}.")
    unit, _ = _unit(H)
    if np.ptp(unit, axis=0).max() <= 1e-12 * np.abs(unit.mean(axis=0)).max():
        raise ValueError("activations are constant: no direction is active. Use varied inputs.")
    return H


def check_jacobian(J: np.ndarray, H: np.ndarray) -> np.ndarray:
    """Return ``J`` as float64 (N or 1, K, D); a (K, D) matrix is one Jacobian for all inputs."""
    J = np.asarray(J, dtype=np.float64)
    if J.ndim == 2:
        J = J[None]
    if not J.size:
        raise ValueError(f"the Jacobian is empty: shape {J.shape}; give at least one output.")
    if J.ndim != 3 or J.shape[2] != H.shape[1] or J.shape[0] not in (1, len(H)):
        raise ValueError(
            f"the Jacobian must be (K, D) or (N, K, D) for activations (N, D) = {H.shape}; "
            f"got shape {J.shape}."
        )
    if not np.isfinite(J).all():
        raise ValueError("the Jacobian holds NaN or infinity.")
    if not np.abs(J).max() > 0:
        raise ValueError("the Jacobian is zero: these outputs do not depend on this layer.")
    return J


def rank_of(energy: Float[np.ndarray, " m"], threshold: float) -> int:
    """Smallest r whose leading energies hold at least ``threshold`` of the total."""
    if not 0 < threshold <= 1:
        raise ValueError(f"an energy threshold lies in (0, 1]; got {threshold}.")
    energy, _ = _unit(np.asarray(energy))
    share = np.cumsum(energy) / np.sum(energy)
    return int(np.searchsorted(share, threshold - 1e-12) + 1)


def _core(
    balanced: np.ndarray, energy: np.ndarray, H: np.ndarray, J: np.ndarray, rank: Real, units: tuple
) -> Core:
    """Cut to ``rank`` (an int) or to an energy share (a float), orthonormalise, scale back.

    All arrays are in units of 2^e, with ``units`` the two exponents e of H and J.
    """
    if isinstance(rank, bool | np.bool_) or not isinstance(rank, Real):
        raise TypeError(f"rank = {rank!r}: an int is the rank, a float in (0, 1] the energy share.")
    D = H.shape[1]
    # Rounding leaves energies near eps² · tr C · tr O where there should be none.
    scale = H.var(axis=0, ddof=1).sum() * np.sum(J**2) / len(J)
    positive = int((energy > max(energy[0] * 1e-24, scale * 1e-29)).sum())
    if not positive:
        raise ValueError(
            "no direction is both active and relevant: the activations do not vary where the "
            "outputs look. Check that both come from the same layer."
        )
    if not isinstance(rank, Integral) and not 0 < rank <= 1:
        raise ValueError(
            f"rank = {rank!r}: an int is the rank, a float in (0, 1] the energy share."
        )
    r = int(rank) if isinstance(rank, Integral) else rank_of(energy, float(rank))
    if not 1 <= r <= D:
        raise ValueError(f"the core's rank must lie in 1…{D} (D = {D}); got {r}.")
    if r > positive:
        raise ValueError(
            f"rank {r} is above the {positive} directions that are active and relevant; "
            f"ask for at most {positive}."
        )
    basis, _ = np.linalg.qr(balanced[:, :r])
    with np.errstate(over="ignore", under="ignore"):
        energy = np.ldexp(energy, 2 * sum(units))
    if not (np.isfinite(energy[0]) and energy[0] >= np.finfo(np.float64).tiny):
        raise ValueError(
            f"the energies leave the range of float64: activations reach 2^{units[0]}, the "
            f"Jacobian 2^{units[1]}. Rescale one of them; the basis does not depend on it."
        )
    return Core(basis, np.ldexp(H.mean(axis=0), units[0]), energy)


def _prepare(H: np.ndarray, J: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """Checked activations and Jacobian in units of 2^e, so that no product leaves float64."""
    H = check_activations(H)
    J = check_jacobian(J, H)
    (H, unit_h), (J, unit_j) = _unit(H), _unit(J)
    return H, J, (unit_h, unit_j)


def ace(H: Float[np.ndarray, "N D"], J: np.ndarray, rank: Real = 0.99) -> Core:
    r"""Extract a core by the SVD of :math:`H_c J^\top`, the cheaper form when K·N is small.

    With H_c the centred activations over :math:`\sqrt{N-1}` (N, D) and J all Jacobian rows over
    :math:`\sqrt N` (NK, D): SVD :math:`H_c J^\top = U \Sigma V^\top`; energies are
    :math:`\Sigma^2` and the core is :math:`\mathrm{orth}(H_c^\top U_r)`.

    Args:
        H: activations (N, D).
        J: Jacobian (K, D), one for all inputs, or (N, K, D).
        rank: an int is the rank itself; a float the energy share that sets it.

    Raises:
        ValueError: bad activations or Jacobian (see the checks), a rank that cannot be had, or
            energies beyond float64.
        TypeError: a rank that is no number.
    """
    H, J, units = _prepare(H, J)
    Hc = (H - H.mean(axis=0)) / np.sqrt(len(H) - 1)
    rows = J.reshape(-1, H.shape[1]) / np.sqrt(len(J))
    # Triangular factors carry the same SVD: R_HᵀR_H = C and R_JᵀR_J = O, never squared.
    R_H = np.linalg.qr(Hc, mode="r") if len(Hc) > H.shape[1] else Hc
    R_J = np.linalg.qr(rows, mode="r") if len(rows) > H.shape[1] else rows
    U, sigma, _ = np.linalg.svd(R_H @ R_J.T, full_matrices=False)
    return _core(R_H.T @ U, sigma**2, H, J, rank, units)


def _factor(M: Float[np.ndarray, "D D"]) -> Float[np.ndarray, "D D"]:
    """A square factor L with L Lᵀ = M, for a positive semidefinite M of any rank."""
    values, vectors = np.linalg.eigh(M)
    noise = values[-1] * len(M) * np.finfo(M.dtype).eps  # its root would pass for a direction
    return vectors * np.sqrt(np.where(values > noise, values, 0))


def ace_balanced(H: Float[np.ndarray, "N D"], J: np.ndarray, rank: Real = 0.99) -> Core:
    r"""Extract a core from the two Gramians, as the paper states it.

    :math:`C = L_c L_c^\top`, :math:`O = L_o L_o^\top`, SVD :math:`L_c^\top L_o = U \Sigma V^\top`,
    core :math:`\mathrm{orth}(L_c U_r)`, energies :math:`\Sigma^2`.  Arguments and errors as in
    :func:`ace`, which it equals; this form needs only C and O, so they can be streamed.
    """
    H, J, units = _prepare(H, J)
    C = np.atleast_2d(np.cov(H, rowvar=False))
    gramian = np.einsum("nkd,nke->de", J, J) / len(J)
    L_c, L_o = _factor(C), _factor(gramian)
    U, sigma, _ = np.linalg.svd(L_c.T @ L_o)
    return _core(L_c @ U, sigma**2, H, J, rank, units)
