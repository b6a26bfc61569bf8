r"""LEACE: the least change to activations after which no linear classifier can tell number.

For a concept z with :math:`\Sigma_{xz} = \mathrm{cov}(x, z)`,
:math:`W = (\Sigma_{xx}^{+})^{1/2}` and P the orthogonal projector on the columns of
:math:`W \Sigma_{xz}`, the eraser is

.. math:: r(x) = x - W^{+} P W (x - \mathrm{E}\,x).

Number is one bit, so :math:`\Sigma_{xz}` is one column s and the product collapses:

.. math:: W^{+} P W = \frac{s\, s^\top \Sigma^{+}}{s^\top \Sigma^{+} s}.

LEACE *writes* along s, the difference of the class means, and *reads* along Σ⁺s, the direction of
linear discriminant analysis.  It is an oblique projection: an :class:`~helpers.axes.Axis` with
two different vectors.

Source: Belrose et al. 2023, "LEACE: Perfect linear concept erasure in closed form"
(arXiv:2306.03819), theorem 4.3.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Shaped

from helpers.axes import Axis, check_number, unit
from helpers.cores import check_activations


def leace(
    H: Float[np.ndarray, "N D"], number: Shaped[np.ndarray, " N"], shrinkage: float = 0.0
) -> Axis:
    """The axis whose ``remove`` is LEACE's eraser; the unit vector ``write`` points to plural.

    ``flip`` reflects what the eraser removes: h − 2 u (w·(h − mean)).

    ``shrinkage`` s in [0, 1) reads through (1 − s) Σ + s (tr Σ / D) I in place of Σ: steadier where
    N is not far above D.  Erasure stays exact on these rows, since read · write = 1 and the writing
    vector does not move; the change is then no longer the least one.

    Raises:
        ValueError: bad activations or numbers, equal class means (nothing to erase), or a
            shrinkage outside [0, 1).
    """
    H = check_activations(H)
    plural = check_number(number, len(H))
    if not 0 <= shrinkage < 1:
        raise ValueError(f"shrinkage is a share in [0, 1); got {shrinkage}.")
    mean = H.mean(axis=0)
    X = H - mean
    s = X.T @ (plural - plural.mean()) / len(H)
    if not np.linalg.norm(s) > 1e-12 * np.abs(X).max():
        raise ValueError("plural and singular have equal means: there is nothing to erase.")
    covariance = X.T @ X / len(H)
    if shrinkage:
        spread = np.trace(covariance) / len(covariance)
        covariance = (1 - shrinkage) * covariance + shrinkage * spread * np.eye(len(covariance))
    write = unit(s)
    read = np.linalg.pinv(covariance, rcond=1e-10, hermitian=True) @ write
    return Axis(read / (read @ write), write, mean)
