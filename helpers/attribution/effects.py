r"""Effects of components on the loss, predicted and measured, row by row.

An effect is L(component replaced) − L(clean), in nats: positive where the component helps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from helpers import stats


@dataclass(frozen=True)
class Passes:
    """Cost, in passes over the data; one that starts behind a component counts as a whole one."""

    forward: int
    backward: int = 0


@dataclass(frozen=True, eq=False)
class Effects:
    """Loss changes of m components (or sets of them) on n rows.

    ``rows`` (n, m): Σ over a row's asked positions, in nats.  ``counts`` (n,): how many there are.
    ``clean``: the loss before anything was replaced.
    """

    names: tuple[str, ...]
    rows: Float[np.ndarray, "n m"]
    counts: Int[np.ndarray, " n"]
    clean: float
    passes: Passes

    @property
    def mean(self) -> Float[np.ndarray, " m"]:
        """L(replaced) − L(clean) over all rows, in nats a position."""
        return self.over(slice(None))

    def over(self, chosen: Int[np.ndarray, " b"] | slice) -> Float[np.ndarray, " m"]:
        """The same over a batch: the rows ``chosen``, which may repeat."""
        return self.rows[chosen].sum(axis=0) / self.counts[chosen].sum()


@dataclass(frozen=True, eq=False)
class Attribution:
    """What was predicted of each component, and what was measured, in nats (m,).

    Raises:
        ValueError: effects on different rows, of different numbers of components, or of fewer than
            two.
    """

    method: str
    predictions: Effects
    measurements: Effects

    def __post_init__(self) -> None:
        m = len(self.predictions.names)
        if m != len(self.measurements.names) or m < 2:
            raise ValueError(
                f"a comparison needs two components or more on both sides; got {m} predictions "
                f"and {len(self.measurements.names)} measurements."
            )
        if not np.array_equal(self.predictions.counts, self.measurements.counts):
            raise ValueError(
                "predictions and measurements are of different rows: take both with one objective."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The components, as the predictions call them."""
        return self.predictions.names

    @property
    def predicted(self) -> Float[np.ndarray, " m"]:
        """Predicted effects."""
        return self.predictions.mean

    @property
    def measured(self) -> Float[np.ndarray, " m"]:
        """Measured effects."""
        return self.measurements.mean

    @property
    def errors(self) -> Float[np.ndarray, " m"]:
        """Predicted − measured."""
        return self.predicted - self.measured

    @property
    def completeness(self) -> Float[np.ndarray, " m"]:
        """|predicted − measured| / |measured| of every component; ∞ or NaN for an effect of 0.

        For integrated gradients this is the error of the quadrature.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.abs(self.errors) / np.abs(self.measured)

    @property
    def r(self) -> float:
        """Pearson's correlation of predicted and measured; NaN where either is constant."""
        return pearson(self.predicted, self.measured)

    @property
    def relative_error(self) -> float:
        """Σ |predicted − measured| / Σ |measured|: unlike r, it sees a wrong scale and offset."""
        return relative_error(self.predicted, self.measured)

    def interval(
        self,
        statistic: Callable[[np.ndarray, np.ndarray], float],
        generator: np.random.Generator,
        *,
        resamples: int = 999,
    ) -> tuple[float, float]:
        """The 95 % interval of ``statistic(predicted, measured)``, resampling rows.

        A row that is drawn comes with both sides: they were taken on the same rows.

        Raises:
            ValueError: fewer than two rows, or a statistic that is not finite.
        """

        def of(rows: np.ndarray) -> float:
            chosen = rows.astype(np.int64)
            return statistic(self.predictions.over(chosen), self.measurements.over(chosen))

        return stats.interval(
            np.arange(len(self.predictions.rows)), of, generator=generator, resamples=resamples
        )


def pearson(x: Float[np.ndarray, " m"], y: Float[np.ndarray, " m"]) -> float:
    """Pearson's r; NaN where x or y is constant."""
    x, y = x - x.mean(), y - y.mean()
    scale = np.linalg.norm(x) * np.linalg.norm(y)
    return float(x @ y / scale) if scale > 0 else float("nan")


def relative_error(predicted: Float[np.ndarray, " m"], measured: Float[np.ndarray, " m"]) -> float:
    """Σ |predicted − measured| / Σ |measured|.

    Raises:
        ValueError: every measured effect is 0, so that there is nothing to predict.
    """
    total = float(np.abs(measured).sum())
    if total == 0:
        raise ValueError(
            "every measured effect is 0: these components do nothing on these rows, and no error "
            "can be measured against them. Look at other components or data."
        )
    return float(np.abs(predicted - measured).sum()) / total
