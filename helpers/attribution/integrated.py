r"""Integrated gradients of one component at a time.

With L_i(α) the loss of row i when this component, and no other, is moved a share α towards its mean
(:mod:`helpers.attribution.interpolate`), the predicted effect is

.. math:: \sum_q w_q\,L_i'(\alpha_q) \approx \int_0^1 L_i'(\alpha)\,d\alpha = L_i(1) - L_i(0).

The integral *is* the measured effect (completeness).  So the error is one of quadrature and says
nothing about the model, and n points cost more than n ablations.

A confident model's L_i' is 0 over most of the path and steep on a short stretch, which differs from
row to row: even points miss it.  The ``adaptive`` rule runs the loss at a few points first, without
gradients, and puts each row's points where its loss changes.

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
from helpers.attribution.quadrature import RULES, adaptive, quadrature
from helpers.attribution.replay import Replay

ADAPTIVE = "adaptive"
PILOT = 16
"""Stretches of the path whose growth decides where the adaptive rule's points lie."""
ROWS = 64
"""Rows whose points are stacked into one batch of AT_ONCE."""


def integrated_gradients(
    model: torch.nn.Module,
    objective: Objective,
    components: Sequence[Component] | None = None,
    *,
    rule: str = ADAPTIVE,
    points: int = 32,
    means: Means | None = None,
    positions: str = "pooled",
) -> Effects:
    """The slope of the loss along the path to the ablation, integrated with a rule.

    Points are stacked in the batch, and what stands before the component runs once.

    Args:
        rule: ``"adaptive"``, which runs PILOT − 1 forward passes more, or one of
            :data:`helpers.attribution.quadrature.RULES`.
        points: of the rule, 1 or more, for ``"adaptive"`` an even number; each costs a forward
            and a backward pass.
        model, objective, components, means, positions: as in
            :func:`helpers.attribution.mean_ablation`.

    Raises:
        ValueError: an unknown rule, no point, or as :func:`helpers.attribution.mean_ablation`.
    """
    if rule not in (*RULES, ADAPTIVE) or points < 1:
        raise ValueError(
            f"a rule is one of {', '.join((*RULES, ADAPTIVE))}, with 1 point or more; got {rule!r} "
            f"with {points}."
        )
    components, means = prepared(model, objective, components, means, positions)

    def of(replay: Replay) -> Tensor:
        return torch.stack([_integral(replay, c, rule, points) for c in components], dim=1)

    rows, clean = by_row(model, objective, components, means, ROWS, of)
    m, pilot = len(components), PILOT - 1 if rule == ADAPTIVE else 0
    passes = Passes(1 + m * (points + pilot), m * points)
    return effects_of(objective, components, rows, clean, passes)


def _integral(replay: Replay, component: Component, rule: str, points: int) -> Float[Tensor, " b"]:
    """∫ L_i' of every row."""
    b = len(replay.rows)
    at_once = max(1, AT_ONCE // b)
    if rule == ADAPTIVE:
        pilot = torch.arange(1, PILOT, dtype=torch.float64) / PILOT
        with torch.no_grad():
            found = [
                replay(component, part[:, None].expand(-1, b).to(replay.tokens.device))
                for part in pilot.split(at_once)
            ]
        values = torch.cat([replay.clean[None], *found]).cpu().numpy()
        where, weights = adaptive(values, points)
    else:
        where, weights = (np.tile(part[:, None], (1, b)) for part in quadrature(rule, points))
    total = torch.zeros(b, dtype=torch.float64, device=replay.tokens.device)
    parts = (torch.from_numpy(part).to(total).split(at_once) for part in (where, weights))
    with torch.enable_grad():
        for shares, w in zip(*parts, strict=True):
            shares = shares.clone().requires_grad_()
            (slope,) = torch.autograd.grad(replay(component, shares).sum(), shares)
            total += (w * slope).sum(dim=0)
    return total
