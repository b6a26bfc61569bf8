"""What a slider figure shows: eigenvalues and curves, one of each for every training step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Complex, Float, Int

from helpers.dynamics import match_eigenvalues
from helpers.plots.theme import CYCLE, DARK
from helpers.plots.values import need_finite

MAX_POINTS = 20_000  # about 300 KB on the page


@dataclass(frozen=True)
class Curve:
    """A quantity over the steps: ``values`` (n,) under a short ``name``.

    ``colour`` is one of `helpers.plots`, by its meaning; without it the curves take the colours of
    the cycle in turn. Marker and line style always follow the order.
    """

    name: str
    values: Float[np.ndarray, " n"]
    colour: str | None = None


@dataclass(frozen=True)
class Scene:
    """Checked data of a slider figure; the arguments are those of `helpers.plots.slider`."""

    steps: Int[np.ndarray, " n"]
    eigenvalues: Complex[np.ndarray, "frames r"]
    curves: Sequence[Curve]
    band: float | int = 0.0
    roots: int = 0
    events: Mapping[str, int] = field(default_factory=dict)
    axis: str = "training step"
    now: str = "step {}"

    def __post_init__(self) -> None:
        n = len(self.steps)
        if n < 2 or np.any(np.diff(self.steps) <= 0):
            raise ValueError(
                f"slider: the steps must be two or more, each above the last; got {self.steps!r}."
            )
        if len(self.eigenvalues) != n:
            raise ValueError(
                f"slider: {n} steps need one row of eigenvalues each; got shape "
                f"{self.eigenvalues.shape}."
            )
        need_finite("slider", self.eigenvalues)
        if self.eigenvalues.size > MAX_POINTS:
            raise ValueError(
                f"slider: {self.eigenvalues.size:,} points make the page heavy (the most is "
                f"{MAX_POINTS:,}). Show every second step, or fewer eigenvalues."
            )
        if not 1 <= len(self.curves) <= len(CYCLE):
            raise ValueError(f"slider: draw 1 to {len(CYCLE)} curves; got {len(self.curves)}.")
        for curve in self.curves:
            if curve.values.shape != (n,):
                raise ValueError(
                    f"slider: the curve {curve.name!r} needs a value for each of the {n} steps; "
                    f"got shape {curve.values.shape}."
                )
            need_finite(f"slider, curve {curve.name!r}", curve.values)
            if curve.colour is not None and curve.colour not in DARK:
                raise ValueError(
                    f"slider: the curve {curve.name!r} has the colour {curve.colour!r}, which has "
                    "no form for dark pages. Use a colour of helpers.plots."
                )
        names = [curve.name.strip() for curve in self.curves]
        if "" in names or len(set(names)) < len(names):
            raise ValueError(f"slider: each curve needs a name of its own; got {names}.")
        if not self.axis.strip() or self.now.count("{}") != 1:
            raise ValueError(
                "slider: axis names what the slider moves along, and now says where it stands with "
                f"one {{}}, as in 'step {{}}'; got {self.axis!r} and {self.now!r}."
            )
        if not 0 <= self.band < 1 or self.roots < 0:
            raise ValueError(
                f"slider: band is a distance from the circle in [0, 1), roots a count; got "
                f"{self.band} and {self.roots}."
            )
        for name, step in self.events.items():
            if not self.steps[0] <= step <= self.steps[-1]:
                raise ValueError(
                    f"slider: the event {name!r} at step {step} lies outside the steps "
                    f"{self.steps[0]} to {self.steps[-1]}."
                )

    def said(self, step: int | np.integer) -> str:
        """Where the slider stands, in words."""
        return self.now.replace("{}", f"{step:,}")

    @property
    def colours(self) -> list[str]:
        """The colour of each curve."""
        return [c.colour or colour for c, colour in zip(self.curves, CYCLE, strict=False)]

    @property
    def near(self) -> np.ndarray:
        r"""Where :math:`\big||\lambda|-1\big|` is at most ``band``; everywhere without one."""
        if not self.band:
            return np.ones(self.eigenvalues.shape, dtype=bool)
        return np.abs(np.abs(self.eigenvalues) - 1) <= self.band

    @property
    def reach(self) -> float:
        """Half the side of the square of the complex plane that holds the circle and all points."""
        extent = max(np.abs(self.eigenvalues.real).max(), np.abs(self.eigenvalues.imag).max())
        return max(1.12, 1.05 * float(extent))

    @property
    def limits(self) -> tuple[float, float]:
        """Lower and upper end of the curves' axis: 0 to 1, and further where a value lies there."""
        every = np.concatenate([curve.values for curve in self.curves])
        return min(0.0, float(every.min())), max(1.0, float(every.max()))

    def at(self, step: int) -> int:
        """The index of a step.

        Raises:
            ValueError: there is no such step; the message names the nearest one.
        """
        found = np.flatnonzero(self.steps == step)
        if not len(found):
            nearest = self.steps[np.abs(self.steps - step).argmin()]
            raise ValueError(f"slider: there is no step {step}; the nearest one is {nearest}.")
        return int(found[0])

    def matched(self) -> "Scene":
        """The same scene with each row of eigenvalues in the order that moves the points least
        from the row before, so that a point on the page glides to where it went."""
        rows = [self.eigenvalues[0]]
        for row in self.eigenvalues[1:]:
            rows.append(match_eigenvalues(row, rows[-1]))
        return replace(self, eigenvalues=np.array(rows))
