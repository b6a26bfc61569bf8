r"""Regression on values of which some are known only to be larger than what was seen.

A run that ends before it groks still says something: its delay is longer than the run.  With
:math:`y = X\beta + \sigma\varepsilon` and :math:`\varepsilon \sim N(0, 1)`, a value that was seen
has the likelihood :math:`\varphi\big((y - x\beta)/\sigma\big)/\sigma`, and one that is only known
to exceed y has :math:`\Phi\big((x\beta - y)/\sigma\big)`.

Source: Tobin 1958; in :math:`\gamma = \beta/\sigma` and :math:`\theta = 1/\sigma` the
log-likelihood is concave (Olsen 1978), so Newton's method finds the one maximum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import log_ndtr

# Holds the maximum at a finite place where the data do not: a perfect fit (σ → 0), or a mean of
# which all values are censored (it then stays some 6 σ above them). Elsewhere it changes nothing
# that can be seen.
RIDGE = 1e-8


@dataclass(frozen=True)
class CensoredFit:
    """Maximum likelihood, one fit for each entry of the batch.

    ``beta`` (*batch, k), ``sigma`` (*batch) and ``log_likelihood`` (*batch).
    """

    beta: np.ndarray
    sigma: np.ndarray
    log_likelihood: np.ndarray


def fit_censored(
    X: Float[np.ndarray, "n k"],
    y: Float[np.ndarray, "... n"],
    censored: Bool[np.ndarray, " n"],
    weights: Float[np.ndarray, "... n"] | None = None,
) -> CensoredFit:
    r"""Fit :math:`y = X\beta + \sigma\varepsilon`; where ``censored``, y is a lower bound.

    It maximises :math:`\sum_i w_i \log L_i`, with ``weights`` w such as how often a run was
    drawn.  Leading dimensions of ``y`` and ``weights`` are a batch of fits.  Without censoring β is
    the least-squares solution and σ² the mean squared residual.

    Raises:
        ValueError: shapes that do not fit, NaN or infinity, negative weights, or no value that was
            seen with a positive weight.
        RuntimeError: Newton's method has not arrived, which a concave function should not allow.
    """
    X, y, censored = np.asarray(X, float), np.asarray(y, float), np.asarray(censored, bool)
    w = np.ones(len(X)) if weights is None else np.asarray(weights, float)
    if X.ndim != 2 or not len(X) == y.shape[-1] == w.shape[-1] == len(censored):
        raise ValueError(
            "X (n, k), y, censored and weights need the same n; got shapes "
            f"{X.shape}, {y.shape}, {censored.shape}, {w.shape}."
        )
    if not all(np.isfinite(array).all() for array in (X, y, w)) or (w < 0).any():
        raise ValueError("X, y and weights must be finite, and weights not negative.")
    batch = np.broadcast_shapes(y.shape[:-1], w.shape[:-1])
    y, w = (np.broadcast_to(array, (*batch, len(X))).reshape(-1, len(X)) for array in (y, w))
    if not (w[:, ~censored].sum(axis=1) > 0).all():
        raise ValueError("every value is censored: nothing says how long it takes. Run longer.")
    unit = np.abs(X).max(axis=0)
    unit[unit == 0] = 1
    # r = θy − γx is linear in the parameters (γ, θ)
    V = np.concatenate([np.broadcast_to(-X / unit, (*y.shape, X.shape[1])), y[..., None]], axis=2)
    parameters = _maximise(_least_squares(V, w), V, w, censored)
    beta = parameters[:, :-1] / parameters[:, -1:] / unit
    value = _derivatives(parameters, V, w, censored, ridge=0.0)[0]
    shape = (*batch, X.shape[1])
    return CensoredFit(
        beta.reshape(shape), (1 / parameters[:, -1]).reshape(batch), value.reshape(batch)
    )


def _least_squares(V: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Where Newton starts: bounds taken for values; without censoring this is the answer."""
    k = V.shape[2] - 1
    X, y = -V[..., :k], V[..., k]
    XtW = (X * w[..., None]).swapaxes(1, 2)
    beta = np.linalg.solve(XtW @ X + RIDGE * np.eye(k), XtW @ y[..., None])[..., 0]
    residual = y - np.einsum("bnk,bk->bn", X, beta)
    sigma = np.sqrt((w * residual**2).sum(axis=1) / w.sum(axis=1))
    theta = 1 / np.maximum(sigma, 1e-3)
    return np.concatenate([beta * theta[:, None], theta[:, None]], axis=1)


def _derivatives(
    parameters: np.ndarray,
    V: np.ndarray,
    w: np.ndarray,
    censored: np.ndarray,
    ridge: float = RIDGE,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The log-likelihood (B,), its gradient (B, k + 1), and minus its Hessian."""
    theta = parameters[:, -1]
    r = (V @ parameters[..., None])[..., 0]
    log_density = -0.5 * r**2 - 0.5 * np.log(2 * np.pi)
    value, first, second = log_density.copy(), -r, np.ones_like(r)
    late = r[:, censored]
    log_tail = log_ndtr(-late)
    hazard = np.exp(log_density[:, censored] - log_tail)
    value[:, censored], first[:, censored] = log_tail, -hazard
    second[:, censored] = hazard * (hazard - late)
    seen = w[:, ~censored].sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):  # a step too far is halved
        value = (w * value).sum(axis=1) + seen * np.log(theta)
    value -= 0.5 * ridge * (parameters**2).sum(axis=1)
    gradient = ((w * first)[:, None] @ V)[:, 0] - ridge * parameters
    gradient[:, -1] += seen / theta
    curvature = (V * (w * second)[..., None]).swapaxes(1, 2) @ V
    curvature += ridge * np.eye(V.shape[2])
    curvature[:, -1, -1] += seen / theta**2
    return value, gradient, curvature


def _maximise(
    parameters: np.ndarray, V: np.ndarray, w: np.ndarray, censored: np.ndarray
) -> np.ndarray:
    """Newton's method with step halving; fits that have arrived are left alone."""
    parameters = parameters.copy()
    todo = np.arange(len(parameters))
    for _ in range(100):
        here, V_here, w_here = parameters[todo], V[todo], w[todo]
        value, gradient, curvature = _derivatives(here, V_here, w_here, censored)
        step = np.linalg.solve(curvature, gradient[..., None])[..., 0]
        gain = (gradient * step).sum(axis=1)  # twice what a full step would gain
        size = np.ones(len(todo))
        for _ in range(60):
            trial = here + size[:, None] * step
            new = _derivatives(trial, V_here, w_here, censored)[0]
            worse = ~(new >= value - 1e-12 * (1 + np.abs(value)))  # NaN beyond θ = 0 is worse
            if not worse.any():
                break
            size[worse] /= 2
        parameters[todo] = trial
        todo = todo[gain > 1e-13]
        if not len(todo):
            return parameters
    raise RuntimeError(
        f"{len(todo)} of {len(parameters)} fits have not arrived after 100 steps. Look for values "
        "that differ by many orders of magnitude."
    )
