r"""Linear CKA: similarity of two sets of activations that no rotation and no scale can change.

.. math:: \mathrm{CKA} = \frac{\mathrm{HSIC}(X, Y)}{\sqrt{\mathrm{HSIC}(X, X)\,\mathrm{HSIC}(Y, Y)}}

The plain estimate of HSIC is biased upwards, and CKA with it: for unrelated activations with as
many dimensions as rows it is 1/2.  Here HSIC is Song et al.'s unbiased estimate, so that unrelated
activations score about 0.

Sources: Kornblith et al. 2019 (arXiv:1905.00414); Song et al. 2012, equation 5 (the estimate);
Nguyen, Raghu & Kornblith 2021 (arXiv:2010.15327, its use for CKA).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from helpers.cores import check_activations


def unbiased_hsic(X: Float[np.ndarray, "N d"], Y: Float[np.ndarray, "N e"]) -> float:
    r"""Unbiased HSIC of linear kernels, without an N × N matrix.

    With K = XXᵀ and L = YYᵀ, K̃ and L̃ the same with zeros on the diagonal,

    .. math:: \frac{1}{N(N-3)}\Big[\mathrm{tr}(\tilde K\tilde L)
        + \frac{1^\top\tilde K 1\;1^\top\tilde L 1}{(N-1)(N-2)}
        - \frac{2}{N-2} 1^\top\tilde K\tilde L 1\Big].

    Here tr K̃L̃ = ‖XᵀY‖² − Σ k_nn l_nn and K̃1 = X(Xᵀ1) − diag K.  It equals ‖cov(X, Y)‖_F² in
    expectation, so it may be negative where nothing is shared.

    Raises:
        ValueError: bad activations, a different number of rows, or fewer than 4.
    """
    X, Y = check_activations(X), check_activations(Y)
    N = len(X)
    if len(Y) != N or N < 4:
        raise ValueError(
            f"both models must see the same inputs, 4 or more; got {N} and {len(Y)} rows."
        )
    # the estimate does not depend on the means; without them no large numbers cancel
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    k, l = np.sum(X**2, axis=1), np.sum(Y**2, axis=1)  # noqa: E741
    trace = np.sum((X.T @ Y) ** 2) - k @ l
    K1, L1 = X @ X.sum(axis=0) - k, Y @ Y.sum(axis=0) - l
    terms = trace + K1.sum() * L1.sum() / ((N - 1) * (N - 2)) - 2 / (N - 2) * (K1 @ L1)
    return float(terms / (N * (N - 3)))


def linear_cka(X: Float[np.ndarray, "N d"], Y: Float[np.ndarray, "N e"]) -> float:
    """Debiased linear CKA: 1 for one geometry in two bases, about 0 for unrelated activations.

    Rotations, scales and shifts of either side leave it as it is; other linear maps do not.  It can
    be slightly negative.

    Raises:
        ValueError: as :func:`unbiased_hsic`, or so few rows that a side's own HSIC is not positive.
    """
    own = unbiased_hsic(X, X), unbiased_hsic(Y, Y)
    if min(own) <= 0:
        raise ValueError(
            f"{len(X)} rows are too few: the unbiased variance of a side is not positive. "
            "Use more inputs."
        )
    return float(unbiased_hsic(X, Y) / np.sqrt(own[0] * own[1]))
