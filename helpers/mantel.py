"""Are two matrices over pairs of models associated?  Mantel's test, which permutes the models.

Fifteen pairs of six models are no fifteen independent points: each model is in five of them.  So
the models are relabelled in one matrix, rows and columns together, and the correlation over pairs
is computed anew.

Source: Mantel 1967, "The detection of disease clustering and a generalized regression approach".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.stats
from jaxtyping import Float

EXACT_UP_TO = 7
"""With so many models all relabellings are tried; 7! = 5040."""


@dataclass(frozen=True)
class Mantel:
    """Pearson's ``correlation`` over pairs, one-sided ``p_value``, and the least that it can be.

    ``floor`` is 1 / (number of relabellings tried): 1/720 for 6 models.
    """

    correlation: float
    p_value: float
    floor: float


def mantel(
    first: Float[np.ndarray, "s s"],
    second: Float[np.ndarray, "s s"],
    *,
    generator: np.random.Generator | None = None,
    permutations: int = 4999,
) -> Mantel:
    r"""One-sided Mantel test: do pairs that are high in one matrix tend to be high in the other?

    The p-value is the share of relabellings :math:`\pi` of the s models with
    :math:`r(X, Y_{\pi\pi}) \ge r(X, Y)`, r being Pearson's correlation over the s(s − 1)/2 pairs.
    Up to 7 models it runs over all s! of them, the identity included, and is exact; above, over so
    many ``permutations`` from ``generator``, with the identity added.

    Where one matrix has equal entries nothing can be associated: the correlation is NaN and
    p is 1.

    Args:
        first, second: symmetric; the diagonals are not read.
        generator: only for more than 7 models.

    Raises:
        ValueError: matrices that are not square, finite, symmetric and of one size; fewer than 3
            models; or more than 7 without a generator.
    """
    X, Y = _checked(first), _checked(second)
    s = len(X)
    if X.shape != Y.shape:
        raise ValueError(f"both matrices must be over the same models; got {s} and {len(Y)}.")
    exact = s <= EXACT_UP_TO
    if not exact and generator is None:
        raise ValueError(f"{s}! relabellings are too many: give a generator that draws some.")
    floor = 1 / math.factorial(s) if exact else 1 / (1 + permutations)
    upper = np.triu_indices(s, 1)
    x, y = X[upper], Y[upper]
    if _flat(x) or _flat(y):
        return Mantel(math.nan, 1.0, floor)
    x = (x - x.mean()) / x.std()
    Y = (Y - y.mean()) / y.std()  # a relabelling changes neither the mean nor the spread

    def correlation(order, axis):
        order = np.moveaxis(order, axis, -1).astype(int)
        return np.mean(Y[order[..., upper[0]], order[..., upper[1]]] * x, axis=-1)

    test = scipy.stats.permutation_test(
        (np.arange(s),),
        correlation,
        permutation_type="pairings",
        vectorized=True,
        n_resamples=math.factorial(s) if exact else permutations,
        alternative="greater",
        rng=generator,
    )
    return Mantel(float(test.statistic), float(test.pvalue), floor)


def _flat(values: np.ndarray) -> bool:
    return bool(np.ptp(values) <= 1e-12 * np.abs(values).max())


def _checked(matrix: np.ndarray) -> np.ndarray:
    M = np.array(matrix, dtype=np.float64)
    if M.ndim != 2 or M.shape[0] != M.shape[1] or len(M) < 3:
        raise ValueError(
            f"a matrix over pairs of models is square, of at least 3; got shape {M.shape}."
        )
    np.fill_diagonal(M, 0)
    if not np.isfinite(M).all():
        raise ValueError("a matrix over pairs holds NaN or infinity off its diagonal.")
    if np.abs(M - M.T).max() > 1e-9 * max(np.abs(M).max(), 1e-300):
        raise ValueError(
            "Mantel's test is for symmetric matrices: take the mean of both directions, "
            "(M + M.T) / 2."
        )
    return M
