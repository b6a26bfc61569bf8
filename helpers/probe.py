"""A linear probe for number: logistic regression, as a direction in activation space.

Source: Alain & Bengio 2016 (arXiv:1610.01644).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Shaped

from helpers.axes import check_number, unit
from helpers.cores import check_activations

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)


def probe_axis(
    H: Float[np.ndarray, "N D"],
    number: Shaped[np.ndarray, " N"],
    H_validation: Float[np.ndarray, "M D"],
    number_validation: Shaped[np.ndarray, " M"],
    inverse_penalties: Sequence[float] = PENALTIES,
) -> tuple[Float[np.ndarray, " D"], float]:
    """Unit vector (D,) along which a logistic regression tells plural, and the penalty chosen.

    The regression sees each dimension scaled to variance 1, so that one L2 penalty suits all; the
    direction is scaled back, so that it reads activations as they are.  Of the
    ``inverse_penalties`` (scikit-learn's C) the one with the smallest log loss on the validation
    rows is taken; of equal ones the first.

    Raises:
        ValueError: bad activations or numbers, no penalty, or activations of two layers.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss
    from sklearn.preprocessing import StandardScaler

    H, held_out = check_activations(H), check_activations(H_validation)
    if H.shape[1] != held_out.shape[1]:
        raise ValueError(
            f"training rows have D = {H.shape[1]}, validation rows {held_out.shape[1]}: take "
            "both from one layer."
        )
    if not len(inverse_penalties):
        raise ValueError("give at least one inverse penalty.")
    y, y_held_out = check_number(number, len(H)), check_number(number_validation, len(held_out))
    scaler = StandardScaler().fit(H)
    X, X_held_out = scaler.transform(H), scaler.transform(held_out)
    losses, directions = [], []
    for C in inverse_penalties:
        fit = LogisticRegression(C=C, max_iter=2000).fit(X, y)
        losses.append(log_loss(y_held_out, fit.predict_proba(X_held_out)[:, 1]))
        directions.append(fit.coef_[0] / scaler.scale_)
    best = int(np.argmin(losses))
    return unit(directions[best]), float(inverse_penalties[best])
