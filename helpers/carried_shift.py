r"""One addition model's shift operator at work in another: does B's core obey A's law?

In A's core coordinates z the class means obey :math:`z_{c+1} \approx A z_c` (mod p), see
:mod:`helpers.cyclic`.  A rotation R carries the operator into B's stream,
:math:`x - m \mapsto Q A Q^\top (x - m)` with :math:`Q = R^\top Q_A`, and there it predicts the next
class mean.  A model whose core turns at other frequencies has an operator of the same *kind*, all
eigenvalues on the unit circle, and another law.

Source: Schiffman 2026 (identify), carried by the rotation of McCann 2026.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from helpers.alignment.haar import check_orthogonal
from helpers.alignment.maps import Alignment
from helpers.cores import Core
from helpers.dynamics import fit_operator, r_squared


def carried_shift(
    core_A: Core,
    means_A: Float[np.ndarray, "p D"],
    core_B: Core,
    means_B: Float[np.ndarray, "q D"],
    to_B: Alignment,
) -> float:
    r"""R² in B's core coordinates of A's shift operator, carried by a rotation.

    With m the mean of B's class means :math:`M_c`, B's core basis :math:`Q_B` and Q as above, the
    prediction of :math:`(M_{c+1} - m) Q_B` is :math:`(M_c - m) Q A^\top Q^\top Q_B`, pooled over
    all p edges.  No edge of B was fitted.

    Raises:
        ValueError: a map that is not orthogonal, class means of different numbers, or a core of so
            high a rank that A's operator is not determined.
    """
    if np.shape(means_A) != np.shape(means_B):
        raise ValueError(
            f"both models need the means of the same classes in one width; got "
            f"{np.shape(means_A)} and {np.shape(means_B)}."
        )
    z = (means_A - means_A.mean(axis=0)) @ core_A.basis
    operator = fit_operator(z, np.roll(z, -1, axis=0)).A
    Q = check_orthogonal(to_B.R).T @ core_A.basis
    centred = means_B - means_B.mean(axis=0)
    then = np.roll(centred, -1, axis=0) @ core_B.basis
    return r_squared(then, centred @ Q @ operator.T @ Q.T @ core_B.basis)


def frequencies_of(eigenvalues: np.ndarray, p: int) -> list[int]:
    r"""The steps k in 1 … ⌊p/2⌋ nearest to the angles of eigenvalues :math:`e^{\pm 2\pi i k/p}`.

    Only eigenvalues within :math:`\sin(\pi/p)` of the unit circle count, each pair once.
    """
    near = np.abs(np.abs(eigenvalues) - 1) <= np.sin(np.pi / p)
    steps = np.rint(np.abs(np.angle(eigenvalues[near])) * p / (2 * np.pi)).astype(int)
    return sorted(set(steps.tolist()) - {0})
