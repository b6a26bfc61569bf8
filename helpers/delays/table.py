"""Checked delays, and fits and intervals of them when whole seeds are resampled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Bool, Real

from helpers.delays.censored import CensoredFit, fit_censored
from helpers.stats import interval

Settings = Real[np.ndarray, " S"] | Sequence[float]
Delays = Real[np.ndarray, "S seeds"]
Censored = Bool[np.ndarray, "S seeds"]
Interval = tuple[float, float]


class DelayTable:
    """Checked delays (S, seeds), and fits to them when every seed counts so and so often.

    ``counts`` (B, seeds) is a batch: ``once`` counts every seed once, a resample some twice.

    Arguments and errors as in :func:`helpers.delays.exponent`; ``least`` is the smallest number of
    settings that will do.
    """

    def __init__(self, x: Settings, delays: Delays, censored: Censored, least: int) -> None:
        x, delays, mask = np.asarray(x, float), np.asarray(delays, float), np.asarray(censored)
        if x.ndim != 1 or delays.ndim != 2 or len(x) != len(delays) or mask.shape != delays.shape:
            raise ValueError(
                "x (S,), delays (S, seeds) and censored (S, seeds) have one row a setting and one "
                f"column a seed; got shapes {x.shape}, {delays.shape}, {mask.shape}."
            )
        if mask.dtype != bool:
            raise ValueError(f"censored is a mask of booleans (True: not seen), not {mask.dtype}.")
        if len(np.unique(x)) != len(x) or len(x) < least:
            raise ValueError(
                f"this fit needs at least {least} different settings, each once; got {x.tolist()}."
            )
        if not (np.isfinite(x).all() and (x > 0).all()):
            raise ValueError(f"settings must be positive, for their logarithm; got {x.tolist()}.")
        for s, seed in np.argwhere(~(np.isfinite(delays) & (delays > 0)))[:1]:
            raise ValueError(
                f"the delay of seed {seed} at x = {x[s]:g} is {delays[s, seed]}; delays are "
                "positive steps. Evaluate more often if it is 0. A censored run counts the steps "
                "from memorising to its end; one that did not memorise has no delay."
            )
        lost = [f"x = {x[s]:g}" for s in np.flatnonzero(mask.all(axis=1))]
        lost += [f"seed {seed}" for seed in np.flatnonzero(mask.all(axis=0))]
        if lost:
            raise ValueError(
                f"all runs of {', '.join(lost)} are censored, so nothing says how long they take. "
                "Train them longer, or leave them out and say so."
            )
        self.x, self.n_seeds, self.n_censored = x, mask.shape[1], int(mask.sum())
        self.censored, self.log_delays = mask.ravel(), np.log(delays).ravel()
        self.once = np.ones((1, self.n_seeds))

    def spread(self, values: np.ndarray, axis: int = -1) -> np.ndarray:
        """What belongs to settings, repeated for their runs."""
        return np.repeat(values, self.n_seeds, axis=axis)

    def fit(self, X: np.ndarray, counts: np.ndarray, offset: np.ndarray | float = 0) -> CensoredFit:
        """Fit log τ − ``offset`` on ``X``, (S, k) by settings or (S · seeds, k) by runs."""
        X = X if len(X) == len(self.censored) else self.spread(X, axis=0)
        weights = np.tile(counts, len(self.x))
        return fit_censored(X, self.log_delays - offset, self.censored, weights)

    def intervals(
        self,
        measure: Callable[[np.ndarray], np.ndarray],
        generator: np.random.Generator,
        resamples: int,
    ) -> tuple[list[float], list[Interval]]:
        """What ``measure`` finds, and `helpers.stats.interval` over seeds for each quantity.

        ``measure`` takes counts (B, seeds) to quantities (B, m).  All share one set of resamples.
        """
        known: dict[bytes, np.ndarray] = {}

        def quantity(drawn: np.ndarray, axis: int, which: int) -> np.ndarray:
            drawn = np.moveaxis(drawn, axis, -1)
            counts = (drawn[..., None] == np.arange(self.n_seeds)).sum(axis=-2).astype(float)
            rows = counts.reshape(-1, self.n_seeds)
            # few seeds give few different resamples; each is measured once, in small batches
            new = [row for row in np.unique(rows, axis=0) if row.tobytes() not in known]
            for start in range(0, len(new), 256):
                batch = np.array(new[start : start + 256])
                known.update(zip(map(np.ndarray.tobytes, batch), measure(batch), strict=True))
            found = np.array([known[row.tobytes()][which] for row in rows])
            return found.reshape(drawn.shape[:-1])

        seed = generator.integers(2**63)
        values = [float(value) for value in measure(self.once)[0]]
        return values, [
            interval(
                np.arange(self.n_seeds),
                lambda drawn, axis=-1, which=which: quantity(drawn, axis, which),
                generator=np.random.default_rng(seed),
                resamples=resamples,
            )
            for which in range(len(values))
        ]
