r"""Evidence on a role: a statistic by component, what its nulls reach, what ablation costs.

A component *carries* a role if all of this holds:

1. the statistic is at least ``floor``: the role is most of what the component does;
2. it is above the largest value of every null: the same statistic in untrained models, with
   shuffled labels, and under equal attention;
3. replaced by its mean, the component costs the role's output at least 1 % of what the costliest
   component does, heads and MLPs alike.  Attention that nothing depends on is no mechanism.

Perhaps several components carry a role, perhaps none does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from helpers.specification.components import Component

FLOOR = 0.5
"""A role is what a component does mostly."""
SHARE = 0.01
"""Of the largest loss: who costs less is idle."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """One hypothesis.  ``values`` is its statistic by component, ``nulls`` the largest that each
    null reaches, ``losses`` (nats) what ``output`` loses without the component, ``carriers`` who
    passes; the rules are at the module's head."""

    role: str
    values: Mapping[Component, float]
    nulls: Mapping[str, float]
    floor: float
    output: str
    losses: Mapping[Component, float]
    carriers: tuple[Component, ...]

    @property
    def supported(self) -> bool:
        """Whether any component carries the role."""
        return bool(self.carriers)

    @property
    def best(self) -> Component:
        """The component with the largest statistic, whether or not it carries the role."""
        return max(self.values, key=lambda component: self.values[component])

    @property
    def others(self) -> float:
        """Median statistic of all components but the best; NaN if it is the only one."""
        rest = [value for component, value in self.values.items() if component != self.best]
        return float(np.median(rest)) if rest else float("nan")

    @property
    def shown(self) -> Component:
        """The carrier with the largest statistic; where there is none, the best."""
        return max(self.carriers or self.values, key=lambda component: self.values[component])

    def row(self) -> dict[str, object]:
        """A row of a table; statistic and loss are those of the component that is shown."""
        return {
            "role": self.role,
            "carried by": ", ".join(map(str, self.carriers)) or "none",
            "shown": str(self.shown),
            "statistic": self.values[self.shown],
            "best": self.values[self.best],
            "others": self.others,
            **{f"null: {name}": value for name, value in self.nulls.items()},
            "output": self.output,
            "loss": self.losses[self.shown],
        }


def judge(
    role: str,
    values: Mapping[Component, float],
    nulls: Mapping[str, float],
    losses: Mapping[Component, float],
    *,
    output: str,
    floor: float = FLOOR,
) -> Evidence:
    """Apply the three rules.

    Raises:
        ValueError: a component without a loss, or a null that is not finite.
    """
    if values.keys() - losses.keys() or not np.isfinite(list(nulls.values())).all():
        raise ValueError(
            f"{role}: every component needs an ablation loss, and every null a finite value; got "
            f"{len(values)} values, {len(losses)} losses, nulls {dict(nulls)}."
        )
    needed = SHARE * max(losses.values())
    carriers = tuple(
        component
        for component, value in values.items()
        if value >= floor
        and all(value > null for null in nulls.values())
        and losses[component] > 0
        and losses[component] >= needed
    )
    return Evidence(role, values, nulls, floor, output, losses, carriers)
