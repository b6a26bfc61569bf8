r"""A linear law for coordinates over time, :math:`z_{t+1} \approx A z_t`, and its spectrum.

Source: Schiffman 2026 (identify).  It is dynamic mode decomposition on core coordinates: if z
holds the state of a Markov process, A's eigenvalues are the chain's non-trivial ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment


@dataclass(frozen=True)
class Operator:
    """A fitted operator: ``A`` (r, r) acts on z − ``mean`` (r,)."""

    A: np.ndarray
    mean: np.ndarray

    @property
    def eigenvalues(self) -> np.ndarray:
        """Eigenvalues of A."""
        return np.linalg.eigvals(self.A)

    def r2(self, now: Float[np.ndarray, "N r"], then: Float[np.ndarray, "N r"]) -> float:
        r"""Explained share of the variance, :math:`1-\|z'-\hat z'\|^2/\|z'-\bar z'\|^2`."""
        now, then = _pair(now, then, ("now", "then"))
        if now.shape[1:] != self.mean.shape:
            raise ValueError(
                f"this operator acts on {len(self.mean)} coordinates, so it needs (N, "
                f"{len(self.mean)}); got shape {now.shape}."
            )
        predicted = self.mean + (now - self.mean) @ self.A.T
        return r_squared(then, predicted)


def _pair(a: np.ndarray, b: np.ndarray, names: tuple[str, str]) -> tuple[np.ndarray, np.ndarray]:
    """Both as float64, after checking that their rows belong together one by one."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.shape != b.shape:
        raise ValueError(
            f"{names[0]} and {names[1]} must have one shape; got {a.shape} and {b.shape}. "
            "Give one row of the second for each row of the first."
        )
    if a.ndim == 0 or not a.size:
        raise ValueError(
            f"{names[0]} and {names[1]} must hold at least one row of numbers; got shape {a.shape}."
        )
    for name, values in zip(names, (a, b), strict=True):
        if not np.isfinite(values).all():
            raise ValueError(
                f"the values of {name} hold NaN or infinity (shape {values.shape}); "
                "leave those rows out."
            )
    return a, b


def r_squared(target: Float[np.ndarray, "N r"], predicted: Float[np.ndarray, "N r"]) -> float:
    """One minus squared error over total variance, pooled over dimensions.

    Raises:
        ValueError: shapes differ (nothing is broadcast), NaN or infinity, or a constant target.
    """
    target, predicted = _pair(target, predicted, ("target", "prediction"))
    # A power of two changes no digit, and squares of huge or tiny values stay in range.
    exponent = -np.frexp(np.abs(target).max())[1]
    target, predicted = np.ldexp(target, exponent), np.ldexp(predicted, exponent)
    total = np.sum((target - target.mean(axis=0)) ** 2)
    if not total > 1e-24 * np.sum(target**2):  # rounding alone leaves about 1e-32
        raise ValueError("the target is constant, so R² has no meaning.")
    return float(1 - np.sum((target - predicted) ** 2) / total)


def transitions(
    Z: Float[np.ndarray, "n length r"], first: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (z_t, z_{t+1}) of every sequence, from position ``first`` on: two arrays (N, r)."""
    if Z.ndim != 3 or Z.shape[1] < first + 2:
        raise ValueError(f"need (sequences, length ≥ {first + 2}, r); got shape {Z.shape}.")
    r = Z.shape[-1]
    return Z[:, first:-1].reshape(-1, r), Z[:, first + 1 :].reshape(-1, r)


def fit_operator(now: Float[np.ndarray, "N r"], then: Float[np.ndarray, "N r"]) -> Operator:
    r"""Least squares for :math:`z' - \bar z = A\,(z - \bar z)`.

    Raises:
        ValueError: shapes differ, NaN, fewer rows than dimensions, or coordinates of lower rank
            than r (A would not be determined).
    """
    now, then = _pair(now, then, ("now", "then"))
    if now.ndim != 2:
        raise ValueError(f"coordinates must be (N, r); got shape {now.shape}.")
    mean = now.mean(axis=0)
    solution, _, rank, _ = np.linalg.lstsq(now - mean, then - mean, rcond=1e-10)
    if rank < now.shape[1]:
        raise ValueError(
            f"the coordinates span {rank} of {now.shape[1]} dimensions, so the operator is not "
            "determined; lower the rank."
        )
    return Operator(solution.T, mean)


def match_eigenvalues(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """``found`` reordered so that its entries pair with ``wanted`` at least total distance."""
    if len(found) != len(wanted):
        raise ValueError(f"got {len(found)} eigenvalues to pair with {len(wanted)}.")
    distance = np.abs(np.asarray(wanted)[:, None] - np.asarray(found)[None])
    return np.asarray(found)[linear_sum_assignment(distance)[1]]


def oracle_r2(
    Z: Float[np.ndarray, "n length r"],
    tokens: Int[np.ndarray, "n length"],
    transition: Float[np.ndarray, "K K"],
    first: int = 0,
) -> float:
    r"""R² of the best guess of :math:`z_{t+1}` that knows the chain.

    It predicts :math:`\sum_j T_{x_t j}\,\mu_j` with :math:`\mu_j` the mean coordinate at token j,
    over the same positions that are predicted.  No linear operator can beat it by more than what
    z knows beyond the last token.

    Raises:
        ValueError: a token of the chain is missing at those positions, so its mean is unknown.
    """
    _, then = transitions(Z, first)
    arrived = tokens[:, first + 1 :].ravel()
    missing = np.setdiff1d(np.arange(len(transition)), arrived)
    if len(missing):
        raise ValueError(f"tokens {missing.tolist()} never occur; draw more or longer sequences.")
    means = np.array([then[arrived == k].mean(axis=0) for k in range(len(transition))])
    return r_squared(then, transition[tokens[:, first:-1].ravel()] @ means)
