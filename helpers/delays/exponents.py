r"""How does the delay scale with a setting? Exponents, over seeds and seed by seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Real

from helpers.delays.table import Censored, Delays, DelayTable, Interval, Settings


@dataclass(frozen=True)
class Exponent:
    r"""A power law τ = ``scale`` · x^``value``, and whether one exponent is enough.

    ``curvature`` is c in log τ = a + b u + c u² with u = log x minus its mean: zero for a power
    law.  Both intervals are over seeds; ``sigma`` is the spread of log τ around the line.
    """

    value: float
    interval: Interval
    curvature: float
    curvature_interval: Interval
    scale: float
    sigma: float
    n_seeds: int
    n_censored: int

    def predict(self, x: Real[np.ndarray, " n"] | Sequence[float]) -> np.ndarray:
        """The median delay at ``x``, in steps."""
        return self.scale * np.asarray(x, float) ** self.value


@dataclass(frozen=True)
class Fall:
    """How steeply delays fall with x: ``value`` = −d log τ / d log x, each seed against itself.

    ``per_seed`` are the slopes of single seeds, NaN where one of a seed's runs is censored.
    """

    value: float
    interval: Interval
    per_seed: np.ndarray
    n_seeds: int
    n_censored: int


def exponent(
    x: Settings,
    delays: Delays,
    censored: Censored,
    generator: np.random.Generator,
    *,
    resamples: int = 4999,
) -> Exponent:
    r"""The exponent b of τ ∝ x^b: log τ = a + b log x + ε, by censored maximum likelihood.

    Args:
        x: S settings, such as weight decays.
        delays: steps from memorising to grokking (S, seeds), column s being seed s everywhere; of
            a censored run, the steps from memorising to its end.
        censored: True where a run ended before it grokked.
        generator: draws the resamples of seeds.
        resamples: their number.

    Raises:
        ValueError: fewer than 3 settings or 2 seeds, a setting or seed without a finished run,
            delays or settings that are not positive, shapes that differ.
    """
    table = DelayTable(x, delays, censored, least=3)
    centre = np.log(table.x).mean()
    bent = np.vander(np.log(table.x) - centre, 3, increasing=True)
    line = bent[:, :2]

    def measure(counts: np.ndarray) -> np.ndarray:
        bend = table.fit(bent, counts).beta[:, 2]
        return np.column_stack([table.fit(line, counts).beta[:, 1], bend])

    fit = table.fit(line, table.once)
    a, b = fit.beta[0]
    values, intervals = table.intervals(measure, generator, resamples)
    return Exponent(
        value=values[0],
        interval=intervals[0],
        curvature=values[1],
        curvature_interval=intervals[1],
        scale=float(np.exp(a - b * centre)),
        sigma=float(fit.sigma[0]),
        n_seeds=table.n_seeds,
        n_censored=table.n_censored,
    )


def paired_fall(
    x: Settings,
    delays: Delays,
    censored: Censored,
    generator: np.random.Generator,
    *,
    resamples: int = 4999,
) -> Fall:
    r"""How steeply delays fall with x, each seed against itself: log τ = a_seed − f log x + ε.

    f > 0 where more x (say, more available modes) means a shorter wait.  Without censoring f is the
    mean of the seeds' own slopes.  Arguments and errors as in :func:`exponent`, from 2 settings on.
    """
    table = DelayTable(x, delays, censored, least=2)
    log_x = np.log(table.x)
    own_level = np.tile(np.eye(table.n_seeds), (len(log_x), 1))
    design = np.column_stack([table.spread(log_x.mean() - log_x), own_level])
    values, intervals = table.intervals(
        lambda counts: table.fit(design, counts).beta[:, :1], generator, resamples
    )
    slopes = np.polyfit(log_x, table.log_delays.reshape(-1, table.n_seeds), 1)[0]
    complete = ~table.censored.reshape(-1, table.n_seeds).any(axis=0)
    return Fall(
        value=values[0],
        interval=intervals[0],
        per_seed=np.where(complete, -slopes, np.nan),
        n_seeds=table.n_seeds,
        n_censored=table.n_censored,
    )
