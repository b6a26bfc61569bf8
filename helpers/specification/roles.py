r"""Roles as hypotheses: depth counter, family matcher, sticky OR, and what the MLPs are said to do.

No role is bound to a head.  For each, its statistic is computed for every head (or every MLP), and
:func:`helpers.specification.evidence.judge` says who carries it, if anyone does.

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

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from helpers.dyck.model import OUTPUTS
from helpers.specification import head_statistics
from helpers.specification.components import Component, Effect
from helpers.specification.evidence import Evidence, judge
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
FLOOR_KEPT = 0.95
"""Who only cleans up leaves nearly every right answer right when it is gone."""


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
