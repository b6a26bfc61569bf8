r"""Roles as hypotheses, with the evidence: a statistic, what its nulls reach, what ablation costs.

No role is bound to a head.  For each, its statistic is computed for every head (or MLP), and a
component *carries* the role if all of this holds:

1. the statistic is at least ``floor``: the role is most of what the component does;
2. it is above the largest value of every null: the same statistic in untrained models, with
   shuffled labels, and under equal attention;
3. replaced by its mean, the component costs the role's output at least 1 % of what the costliest
   component of its kind does.  Attention that nothing depends on is no mechanism.

Perhaps several components carry a role, perhaps none does.

========================= ========================================================== =============
role                      statistic, by component                                    output
========================= ========================================================== =============
``depth counter``         :func:`~.head_statistics.depth_counter`                    depth
``family matcher``        :func:`~.head_statistics.family_matcher`                   sticky
``sticky OR``             :func:`~.head_statistics.sticky_or`                        sticky
``local invalidity``      R² gained by the MLP / R² missing before it                sticky
``depth quantiser``       the same for the depth in one-hot form                     depth
``clean-up``              share of right answers that stay right without the MLP     all
========================= ========================================================== =============

Source: McCann 2026 (small scale, roles of the constructive specification).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from helpers.dyck.model import OUTPUTS
from helpers.specification import head_statistics
from helpers.specification.components import Component, Effect
from helpers.specification.mlp_statistics import closed_share
from helpers.tasks.dyck import label

if TYPE_CHECKING:
    from helpers.dyck.hooked import HookedDyck

HEAD_ROLES = {
    "depth counter": (head_statistics.depth_counter, "depth"),
    "family matcher": (head_statistics.family_matcher, "sticky"),
    "sticky OR": (head_statistics.sticky_or, "sticky"),
}
MLP_ROLES = {
    "local invalidity": ("local_invalidity", "sticky"),
    "depth quantiser": ("depth_levels", "depth"),
}
CLEAN_UP, ALL = "clean-up", "all"
FLOOR = 0.5
"""A role is what a component does mostly."""
FLOOR_KEPT = 0.95
"""Who only cleans up leaves nearly every right answer right when it is gone."""
SHARE = 0.01


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
    needed = SHARE * max(losses[component] for component in values)
    carriers = tuple(
        component
        for component, value in values.items()
        if value >= floor
        and all(value > null for null in nulls.values())
        and losses[component] > 0
        and losses[component] >= needed
    )
    return Evidence(role, values, nulls, floor, output, losses, carriers)


def find_roles(
    hooked: HookedDyck,
    untrained: Sequence[HookedDyck],
    rows: Int[np.ndarray, "n pos"],
    effects: Sequence[Effect],
    generator: np.random.Generator,
) -> tuple[Evidence, ...]:
    """Evidence on every role of the table.

    Args:
        hooked: the trained model, folded or not: patterns and streams are the same.
        untrained: models of the same sizes at their start, for the null.
        rows: a few hundred of the training distribution, other than those behind ``effects``.
        effects: mean-ablation effects of every component.
        generator: shuffles.

    Raises:
        ValueError: no untrained model, or effects that lack a component.
    """
    if not untrained:
        raise ValueError("give at least one untrained model: the statistics need their null.")
    return (
        *_head_roles(hooked, untrained, rows, effects, generator),
        *_mlp_roles(hooked, untrained, rows, effects, generator),
        _clean_up(rows, effects),
    )


def _head_roles(
    hooked: HookedDyck,
    untrained: Sequence[HookedDyck],
    rows: np.ndarray,
    effects: Sequence[Effect],
    generator: np.random.Generator,
) -> list[Evidence]:
    own = head_statistics.heads_on(hooked, rows)
    others = [head_statistics.heads_on(model, rows) for model in untrained]
    found = []
    for role, (statistic, output) in HEAD_ROLES.items():
        mine = statistic(own, generator)
        nulls = {
            "untrained": max(float(statistic(heads, generator).value.max()) for heads in others),
            "shuffled": float(mine.shuffled.max()),
        }
        if np.isfinite(mine.chance):
            nulls["equal attention"] = mine.chance
        values = {Component(*place): float(v) for place, v in np.ndenumerate(mine.value)}
        losses = _losses(effects, output)
        found.append(judge(role, values, nulls, losses, output=output))
    return found


def _mlp_roles(
    hooked: HookedDyck,
    untrained: Sequence[HookedDyck],
    rows: np.ndarray,
    effects: Sequence[Effect],
    generator: np.random.Generator,
) -> list[Evidence]:
    def both(model: HookedDyck) -> dict[str, dict[str, Float[np.ndarray, " layer"]]]:
        return closed_share(model, rows, [name for name, _ in MLP_ROLES.values()], generator)

    mine, others, found = both(hooked), [both(model) for model in untrained], []
    for role, (feature, output) in MLP_ROLES.items():
        values = {Component(i): float(v) for i, v in enumerate(mine[feature]["value"])}
        nulls = {
            "untrained": max(float(other[feature]["value"].max()) for other in others),
            "shuffled": float(mine[feature]["shuffled"].max()),
        }
        losses = _losses(effects, output)
        found.append(judge(role, values, nulls, losses, output=output))
    return found


def _clean_up(rows: np.ndarray, effects: Sequence[Effect]) -> Evidence:
    labels = label(rows)
    answers = [getattr(labels, name)[labels.mask] for name in OUTPUTS]
    constant = max(float(np.bincount(a).max() / len(a)) for a in answers)
    mlps = [effect for effect in effects if effect.component.head is None]
    values = {effect.component: min(effect.kept.values()) for effect in mlps}
    losses = _losses(effects, ALL)
    nulls = {"commonest answer": constant}
    return judge(CLEAN_UP, values, nulls, losses, output=ALL, floor=FLOOR_KEPT)


def _losses(effects: Sequence[Effect], output: str) -> dict[Component, float]:
    """What an output loses without each component; all outputs for ``"all"``."""
    return {e.component: e.total if output == ALL else e.loss[output] for e in effects}
