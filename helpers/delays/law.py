r"""Is the delay of grokking over p, or over the number of modes, that of the law of redundancy?

The law is :math:`\tau(x) = -\Omega\log(1 - x_{crit}/x)`; its rival, a power law
:math:`\tau(x) = C\,x^{-k}`.  Both have two parameters, and the rival has no threshold.

Source: Schiffman 2026 (the inverse scaling law).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Real

from helpers.delays.censored import CensoredFit
from helpers.delays.table import Censored, Delays, DelayTable, Interval, Settings

# v = −log(1 − x_crit/x_min) at its borders: x_crit = 0.001 x_min and (1 − 2e-9) x_min
BORDERS = (1e-3, 20.0)


@dataclass(frozen=True)
class Law:
    r"""Two laws for τ(x): −``omega`` log(1 − ``critical``/x) and ``scale`` · x^(−``power``).

    ``aic_advantage`` is AIC(power) − AIC(log form): positive where the log form fits better.
    ``r2`` is that of the log form on the seeds' mean log delay at each setting (with censoring,
    the means of a censored fit with one mean a setting), ``r2_power`` the same for the power law,
    and ``r2_runs`` that of the log form on single runs: 1 − σ²/σ₀² with σ₀ of a constant delay.

    ``border`` is "zero" where ``critical`` went as low as it may (the log form is then C/x, and
    only ``omega`` · ``critical`` has a meaning), "smallest x" where it went up to that, else "".
    """

    omega: float
    omega_interval: Interval
    critical: float
    critical_interval: Interval
    scale: float
    power: float
    power_interval: Interval
    aic_advantage: float
    aic_advantage_interval: Interval
    r2: float
    r2_interval: Interval
    r2_power: float
    r2_runs: float
    border: str
    n_seeds: int
    n_censored: int

    def log_form(self, x: Real[np.ndarray, " n"] | Sequence[float]) -> np.ndarray:
        """Median delay by the log form, in steps; infinite at and below ``critical``."""
        share = np.minimum(self.critical / np.asarray(x, float), 1)
        with np.errstate(divide="ignore"):
            return -self.omega * np.log1p(-share)

    def power_law(self, x: Real[np.ndarray, " n"] | Sequence[float]) -> np.ndarray:
        """Median delay by the power law, in steps."""
        return self.scale * np.asarray(x, float) ** -self.power


def compare_laws(
    x: Settings,
    delays: Delays,
    censored: Censored,
    generator: np.random.Generator,
    *,
    resamples: int = 1999,
) -> Law:
    r"""Fit −Ω log(1 − x_crit/x) and C x^(−k) to log τ, by censored maximum likelihood.

    x is p, or the number K of available modes; ``delays`` (S, seeds) and ``censored`` as in
    :func:`helpers.delays.exponent`.  x_crit stays below the smallest x; where it ends at a border,
    ``border`` says so.  The log form falls at least as fast as 1/x, and where x ≫ x_crit it *is*
    1/x: then the two laws part only by k, and the AIC can tell little.

    AIC takes runs for independent, which runs of one seed are not; its interval is over seeds.

    Raises:
        ValueError: fewer than 3 settings or 2 seeds, a setting or seed without a finished run,
            delays or settings that are not positive, shapes that differ.
    """
    table = DelayTable(x, delays, censored, least=3)
    smallest = table.x.min()
    line = np.vander(-np.log(table.x), 2, increasing=True)
    constant, by_setting = np.ones((len(table.x), 1)), np.eye(len(table.x))

    def log_form(counts: np.ndarray) -> tuple[CensoredFit, np.ndarray, np.ndarray]:
        v = _best_border_distance(table, counts)
        shape = _shape(table.x, v)
        return table.fit(constant, counts, table.spread(shape)), shape, v

    def measure(counts: np.ndarray) -> np.ndarray:
        (form, shape, v), power = log_form(counts), table.fit(line, counts)
        means = table.fit(by_setting, counts).beta
        return np.column_stack(
            [
                np.exp(form.beta[:, 0]),
                -np.expm1(-v) * smallest,
                power.beta[:, 1],
                2 * (form.log_likelihood - power.log_likelihood),
                _r2(means, form.beta + shape),
            ]
        )

    values, intervals = table.intervals(measure, generator, resamples)
    (form, _, v), power = log_form(table.once), table.fit(line, table.once)
    means, flat = table.fit(by_setting, table.once).beta, table.fit(constant, table.once)
    names = ("omega", "critical", "power", "aic_advantage", "r2")
    return Law(
        **dict(zip(names, values, strict=True)),
        **{f"{name}_interval": ends for name, ends in zip(names, intervals, strict=True)},
        scale=float(np.exp(power.beta[0, 0])),
        r2_power=float(_r2(means, power.beta @ line.T)[0]),
        r2_runs=float(1 - (form.sigma[0] / flat.sigma[0]) ** 2),
        border=_border(v[0]),
        n_seeds=table.n_seeds,
        n_censored=table.n_censored,
    )


def _border(v: float) -> str:
    if v < 1.01 * BORDERS[0]:
        return "zero"
    return "smallest x" if v > 0.99 * BORDERS[1] else ""


def _shape(x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """log(−log(1 − x_crit/x)) for each v (...) = −log(1 − x_crit/x_min): (..., S)."""
    share = -np.expm1(-v)[..., None]
    return np.log(-np.log1p(-share * x.min() / x))


def _best_border_distance(table: DelayTable, counts: np.ndarray) -> np.ndarray:
    """v of highest likelihood for each row of counts: a grid in log v, refined around its best.

    Each round narrows the range sixfold; after six, log v is known to 5e-5, far below what any
    data tell.
    """
    constant = np.ones((len(table.x), 1))
    low, high = (np.full(len(counts), np.log(border)) for border in BORDERS)
    rows = np.arange(len(counts))
    for _ in range(6):
        grid = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, 13)
        offset = table.spread(_shape(table.x, np.exp(grid)))
        best = table.fit(constant, counts[:, None], offset).log_likelihood.argmax(axis=1)
        low, high = grid[rows, np.maximum(best - 1, 0)], grid[rows, np.minimum(best + 1, 12)]
    return np.exp(grid[rows, best])


def _r2(means: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    total = ((means - means.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return 1 - ((means - fitted) ** 2).sum(axis=1) / total
