"""Markov chains: a process whose best predictor we can write down.

A chain over ``K`` states emits its own state as a token.  The next token depends on the last
one alone, ``P(x[t+1] = j | x[t] = i) = T[i, j]``, so the transition matrix says everything: the
Bayes-optimal prediction, its accuracy, and the spectrum that a linear model of the future has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from numbers import Integral

import numpy as np
from jaxtyping import Float, Int

ROW_TOLERANCE = 1e-6  # float32 rows and six printed digits pass; a forgotten state does not


def check_stochastic(matrix: np.ndarray, name: str, *, square: bool = True) -> np.ndarray:
    """Return ``matrix`` as float64 after checking that every row is a probability distribution.

    A row whose sum is off by at most 1e-6 is divided by it.

    Raises:
        ValueError: wrong shape, NaN, a negative entry, or a row whose sum is further from 1.
    """
    matrix = np.asarray(matrix, dtype=np.float64)
    if matrix.ndim != 2 or (square and matrix.shape[0] != matrix.shape[1]):
        shape = "square (K, K)" if square else "two-dimensional"
        raise ValueError(f"{name} must be {shape}; got shape {matrix.shape}.")
    if not matrix.size:
        raise ValueError(f"{name} is empty: shape {matrix.shape}; give at least one row.")
    if not np.isfinite(matrix).all():
        raise ValueError(f"{name} holds NaN or infinity; give finite probabilities.")
    if (matrix < 0).any():
        row, column = np.argwhere(matrix < 0)[0]
        raise ValueError(f"{name}[{row}, {column}] = {matrix[row, column]:.4g} is negative.")
    sums = matrix.sum(axis=1)
    off = np.abs(sums - 1)
    if off.max() > ROW_TOLERANCE * (1 + 1e-6):  # three times 0.333333 is off by 1e-6 and rounding
        row = int(off.argmax())
        raise ValueError(
            f"row {row} of {name} sums to {sums[row]:.10g}, not 1 (to {ROW_TOLERANCE:g}); "
            "each row holds probabilities of all that can come next, so divide it by its sum."
        )
    # Rows that are right to rounding stay as they are, bit for bit.
    rounding = matrix.shape[1] * np.finfo(np.float64).eps
    return matrix / np.where(off > rounding, sums, 1.0)[:, None]


def stationary_distribution(T: Float[np.ndarray, "K K"]) -> Float[np.ndarray, " K"]:
    r"""The row vector :math:`\pi` with :math:`\pi T = \pi` and :math:`\sum_i \pi_i = 1`.

    Raises:
        ValueError: the chain has more than one stationary distribution (it falls apart).
    """
    K = len(T)
    system = np.vstack([T.T - np.eye(K), np.ones(K)])
    if np.linalg.matrix_rank(system[:-1], tol=1e-10) < K - 1:
        raise ValueError(
            "the transition matrix has more than one stationary distribution: some states "
            "never reach others. Connect them with a small probability."
        )
    pi, *_ = np.linalg.lstsq(system, np.r_[np.zeros(K), 1.0], rcond=None)
    return np.clip(pi, 0, None) / np.clip(pi, 0, None).sum()


def sample_paths(
    rng: np.random.Generator,
    initial: Float[np.ndarray, " K"],
    T: Float[np.ndarray, "K K"],
    n_sequences: int,
    length: int,
) -> Int[np.ndarray, "n length"]:
    """Draw state paths by inverting the cumulative distribution of each row of ``T``."""
    if n_sequences < 1 or length < 1:
        raise ValueError(f"need at least one sequence and one step; got {n_sequences}, {length}.")
    cumulative = np.cumsum(T, axis=1)
    cumulative[:, -1] = 1.0  # rounding must never leave a gap at the top
    uniform = rng.random((n_sequences, length))
    states = np.empty((n_sequences, length), dtype=np.int64)
    states[:, 0] = np.searchsorted(np.cumsum(initial)[:-1], uniform[:, 0], side="right")
    for t in range(1, length):
        states[:, t] = (uniform[:, t, None] > cumulative[states[:, t - 1]]).sum(axis=1)
    return states


@dataclass(frozen=True, eq=False)
class Chain:
    """A Markov chain over ``K`` tokens, with row-stochastic ``transition`` (K, K).

    Source of the default in :func:`cyclic`: Schiffman 2026, the Markov experiment.
    """

    transition: np.ndarray

    def __post_init__(self) -> None:
        T = check_stochastic(self.transition, "the transition matrix")
        if not 2 <= len(T) <= 64:
            raise ValueError(f"a chain needs 2 to 64 states; got {len(T)}.")
        object.__setattr__(self, "transition", T)
        stationary_distribution(T)

    @property
    def d_vocab(self) -> int:
        """Number of tokens, which is the number of states K."""
        return len(self.transition)

    @cached_property
    def stationary(self) -> Float[np.ndarray, " K"]:
        """Stationary distribution; sequences start in it, so every position looks alike."""
        return stationary_distribution(self.transition)

    @property
    def dead_states(self) -> list[int]:
        """States that never occur in the long run: stationary probability below 1e-12.

        A transient state is one, and so is every state but an absorbing one.  Sequences start in
        the stationary distribution, so these tokens are never sampled.
        """
        return np.flatnonzero(self.stationary < 1e-12).tolist()

    @cached_property
    def eigenvalues(self) -> np.ndarray:
        """Eigenvalues of the transition matrix, largest modulus first (the first one is 1)."""
        values = np.linalg.eigvals(self.transition)
        return values[np.lexsort((-values.imag, -values.real, -np.abs(values).round(9)))]

    @property
    def bayes_accuracy(self) -> float:
        r"""Accuracy of the best possible guess, :math:`\sum_i \pi_i \max_j T_{ij}`."""
        return float(self.stationary @ self.transition.max(axis=1))

    @property
    def entropy_rate(self) -> float:
        r"""Lowest cross-entropy in nats, :math:`-\sum_i \pi_i \sum_j T_{ij}\ln T_{ij}`."""
        T = self.transition
        logs = np.log(np.where(T > 0, T, 1.0))
        return float(-(self.stationary @ (T * logs).sum(axis=1)))

    def sample(
        self, rng: np.random.Generator, n_sequences: int, length: int
    ) -> Int[np.ndarray, "n length"]:
        """Token sequences, started in the stationary distribution."""
        return sample_paths(rng, self.stationary, self.transition, n_sequences, length)

    def spec(self) -> dict:
        """A JSON-able description; :func:`helpers.tasks.hmm.from_spec` turns it back."""
        return {"kind": "chain", "transition": self.transition.tolist()}


def cyclic(n_states: int = 4, stay: float = 0.75) -> Chain:
    r"""Stay with probability ``stay``, else step to the next state on the ring.

    Eigenvalues :math:`s + (1 - s)\,e^{2\pi i k/K}`; for K = 4, s = 0.75: 1, 0.75 ± 0.25i, 0.5.

    Raises:
        ValueError: fewer than 2 or more than 64 states, or ``stay`` not strictly in (0, 1).
    """
    if isinstance(n_states, bool) or not isinstance(n_states, Integral) or not 2 <= n_states <= 64:
        raise ValueError(f"a ring needs a whole number of states, 2 to 64; got {n_states!r}.")
    if not 0 < stay < 1:
        raise ValueError(f"stay must lie strictly between 0 and 1; got {stay}.")
    shift = np.roll(np.eye(n_states), 1, axis=1)
    return Chain(stay * np.eye(n_states) + (1 - stay) * shift)
