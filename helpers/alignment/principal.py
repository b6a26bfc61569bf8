"""Principal axes of activations, and the subspace that holds nearly all of their variance.

Activations fill a small part of their d dimensions.  Outside that part nothing fixes a rotation
between two models, so whatever is said of all d dimensions is said mostly of arbitrary ones.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from helpers.cores import check_activations, rank_of


def check_pair(X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two models' activations on the same inputs in float64: as many rows and as many columns.

    Raises:
        ValueError: shapes that differ, or what :func:`helpers.cores.check_activations` refuses.
    """
    X, Y = check_activations(X), check_activations(Y)
    if len(X) != len(Y):
        raise ValueError(
            f"both models must see the same inputs, row for row; got {len(X)} and {len(Y)} rows."
        )
    if X.shape[1] != Y.shape[1]:
        raise ValueError(
            f"a rotation needs two models of one width; got {X.shape[1]} and {Y.shape[1]} columns. "
            "For different widths compare with helpers.alignment.cka or helpers.comparison.cca."
        )
    return X, Y


def principal_axes(
    X: Float[np.ndarray, "N d"],
) -> tuple[Float[np.ndarray, "d d"], Float[np.ndarray, " d"]]:
    """Principal axes of X as orthonormal columns, and the variances (N in the divisor) along them.

    Largest variance first.  Where X fills fewer than d dimensions, the last axes are arbitrary.

    Raises:
        ValueError: bad activations, see :func:`helpers.cores.check_activations`.
    """
    X = check_activations(X)
    centred = X - X.mean(axis=0)
    # by the Gram matrix: d is small, N is large, and the weakest axes are arbitrary anyway
    values, axes = np.linalg.eigh(centred.T @ centred / len(X))
    return axes[:, ::-1], np.clip(values[::-1], 0, None)


def active_subspace(X: Float[np.ndarray, "N d"], keep: float = 0.99) -> Float[np.ndarray, "d r"]:
    """Orthonormal basis of the fewest principal axes that hold the share ``keep`` of the variance.

    Raises:
        ValueError: bad activations, or a share outside (0, 1].
    """
    axes, variances = principal_axes(X)
    return axes[:, : rank_of(variances, keep)]
