r"""Integrated gradients of one component at a time.

With L_i(α) the loss of row i when this component, and no other, is moved a share α towards its mean
(:mod:`helpers.attribution.interpolate`), the predicted effect is

.. math:: \sum_q w_q\,L_i'(\alpha_q) \approx \int_0^1 L_i'(\alpha)\,d\alpha = L_i(1) - L_i(0).

The integral *is* the measured effect (completeness).  So the error is one of quadrature and says
nothing about the model, and n points cost more than n ablations.

A confident model's L_i' is 0 over most of the path and steep on a short stretch, which differs from
row to row: even points miss it.  Two rules run the loss at a few points first, without gradients:

- ``adaptive`` puts each row's points where its loss changes; every row and component gets as many.
- ``pooled`` also decides how many: all rows and components share the points.  Most of the error is
  that of a few components with large effects, on long rows.

Source: Sundararajan, Taly & Yan 2017 (arXiv:1703.01365); McCann 2026 (arXiv:2605.24577), by
component with 32 points.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from helpers.attribution.components import Component
from helpers.attribution.effects import Effects, Passes
from helpers.attribution.interpolate import AT_ONCE, Means
from helpers.attribution.methods import by_row, effects_of, prepared
from helpers.attribution.objective import Objective
from helpers.attribution.quadrature import RULES, adaptive, pooled, quadrature
from helpers.attribution.replay import Replay

ADAPTIVE, POOLED = "adaptive", "pooled"
PILOT = 16
"""Stretches of the path whose growth decides where the points of these two rules lie."""
ROWS = 64
"""Rows whose points are stacked into one batch of AT_ONCE."""


def integrated_gradients(
    model: torch.nn.Module,
    objective: Objective,
    components: Sequence[Component] | None = None,
    *,
    rule: str = POOLED,
    points: int = 32,
    means: Means | None = None,
    positions: str = "pooled",
) -> Effects:
    """The slope of the loss along the path to the ablation, integrated with a rule.

    Points are stacked in the batch, and what stands before the component runs once.

    Args:
        rule: ``"pooled"`` or ``"adaptive"``, which run PILOT forward passes more, or one of
            :data:`helpers.attribution.quadrature.RULES`.
        points: for each row and component, 1 or more, an even number for the first two; with
            ``"pooled"`` on average.  Each costs a forward and a backward pass of one row.
        model, objective, components, means, positions: as in
            :func:`helpers.attribution.mean_ablation`.

    Raises:
        ValueError: an unknown rule, no point, or as :func:`helpers.attribution.mean_ablation`.
    """
    known = (*RULES, ADAPTIVE, POOLED)
    if rule not in known or points < 1:
        raise ValueError(
            f"a rule is one of {', '.join(known)}, with 1 point or more; got {rule!r} with "
            f"{points}."
        )
    components, means = prepared(model, objective, components, means, positions)
    n, m, pilot = len(objective.tokens), len(components), 0
    if rule in RULES:
        plan = [quadrature(rule, points)] * (n * m)
    else:
        values, pilot = _pilot(model, objective, components, means), PILOT - 1
        place = pooled if rule == POOLED else adaptive
        plan = place(values, points)

    def of(replay: Replay) -> Tensor:
        rows = replay.rows.tolist()
        found = [
            _integral(replay, c, [plan[i * m + k] for i in rows]) for k, c in enumerate(components)
        ]
        return torch.stack(found, dim=1)

    rows, clean = by_row(model, objective, components, means, ROWS, of)
    passes = Passes((2 if pilot else 1) + m * (points + pilot), m * points)
    return effects_of(objective, components, rows, clean, passes)


def _pilot(
    model: torch.nn.Module,
    objective: Objective,
    components: Sequence[Component],
    means: Means,
) -> Float[np.ndarray, "pilot nm"]:
    """L_i at 0, 1/PILOT … (PILOT − 1)/PILOT, of every row and, the faster axis, component."""
    places = torch.arange(1, PILOT, dtype=torch.float64)[:, None] / PILOT

    @torch.no_grad()
    def of(replay: Replay) -> Tensor:
        b = len(replay.rows)
        parts = places.to(replay.tokens.device).expand(-1, b).split(max(1, AT_ONCE // b))
        found = [torch.cat([replay(c, part) for part in parts]) for c in components]
        return torch.stack(found).flatten(0, 1).T

    rows, clean = by_row(model, objective, components, means, ROWS, of)
    values = rows.reshape(-1, PILOT - 1)
    return np.column_stack([clean.repeat(len(components)), values]).T


def _integral(
    replay: Replay, component: Component, plan: Sequence[tuple[np.ndarray, np.ndarray]]
) -> Float[Tensor, " b"]:
    """∫ L_i' of every row, each with points and weights of its own."""
    device = replay.tokens.device
    where, weights = (np.concatenate(part) for part in zip(*plan, strict=True))
    which = torch.arange(len(plan)).repeat_interleave(torch.tensor([len(p) for p, _ in plan]))
    total = torch.zeros(len(plan), dtype=torch.float64, device=device)
    parts = (torch.as_tensor(part).to(device).split(AT_ONCE) for part in (where, weights, which))
    with torch.enable_grad():
        for shares, w, i in zip(*parts, strict=True):
            shares = shares.clone().requires_grad_()
            (slope,) = torch.autograd.grad(replay.at(component, shares, i).sum(), shares)
            total.index_add_(0, i, w * slope)
    return total
