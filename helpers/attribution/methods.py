r"""Effects of components on the loss: measured by ablation, predicted by gradients.

With L_i(α) the loss of row i when one component is moved a share α towards its mean
(:mod:`helpers.attribution.interpolate`), row i's effect is

- mean ablation: :math:`L_i(1) - L_i(0)`, which is measured;
- attribution patching: :math:`L_i'(0)`, the gradient times (mean − activation), of all components
  with one backward pass;
- integrated gradients: :math:`\sum_q w_q L_i'(\alpha_q) \approx \int_0^1 L_i'(\alpha)\,d\alpha`,
  with this component moved and no other.

The integral *is* the measured effect (completeness).  So an error of integrated gradients is one of
quadrature and says nothing about the model, and n points cost more than n ablations.

Source: Nanda 2023, attribution patching; Sundararajan, Taly & Yan 2017 (arXiv:1703.01365),
integrated gradients; McCann 2026 (arXiv:2605.24577), by component.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from helpers.attribution.components import Component, find_components
from helpers.attribution.effects import Effects, Passes
from helpers.attribution.interpolate import AT_ONCE, Means, component_means, run
from helpers.attribution.objective import Objective
from helpers.attribution.quadrature import quadrature
from helpers.attribution.replay import Replay


def mean_ablation(
    model: torch.nn.Module,
    objective: Objective,
    components: Sequence[Component] | None = None,
    *,
    means: Means | None = None,
    positions: str = "pooled",
) -> Effects:
    """The loss with each component's output replaced by its mean, minus the clean loss.

    Args:
        model: a bridge, or any ``HookedRootModule``; small effects want it in double.
        objective: rows and their loss.
        components: heads and MLPs if None.
        means: of these or other rows; of these rows if None.
        positions: ``"pooled"`` or ``"each"``: see
            :func:`helpers.attribution.interpolate.component_means`.
    """
    components, means = _prepared(model, objective, components, means, positions)

    @torch.no_grad()
    def of(replay: Replay) -> Tensor:
        whole = torch.ones(1, len(replay.rows)).to(replay.tokens.device)
        return torch.stack([replay(c, whole)[0] for c in components], dim=1)

    rows, clean = _by_row(model, objective, components, means, AT_ONCE, of)
    rows -= clean[:, None]
    return _effects(objective, components, rows, clean, Passes(1 + len(components)))


def integrated_gradients(
    model: torch.nn.Module,
    objective: Objective,
    components: Sequence[Component] | None = None,
    *,
    rule: str = "gauss-legendre",
    points: int = 32,
    means: Means | None = None,
    positions: str = "pooled",
) -> Effects:
    """The slope of the loss along the path to the ablation, integrated with a rule.

    Points are stacked in the batch, and what stands before the component runs once.

    Args:
        rule: one of :data:`helpers.attribution.quadrature.RULES`.
        points: of the rule, 1 or more.
        model, objective, components, means, positions: as in :func:`mean_ablation`.
    """
    where, weights = (torch.from_numpy(part) for part in quadrature(rule, points))
    components, means = _prepared(model, objective, components, means, positions)

    @torch.enable_grad()
    def of(replay: Replay) -> Tensor:
        at_once = max(1, AT_ONCE // len(replay.rows))
        found = []
        for component in components:
            total = 0
            for alpha, w in zip(where.split(at_once), weights.split(at_once), strict=True):
                shares = alpha.to(replay.tokens.device)[:, None].repeat(1, len(replay.rows))
                shares.requires_grad_()
                (slope,) = torch.autograd.grad(replay(component, shares).sum(), shares)
                total = total + w.to(slope) @ slope
            found.append(total)
        return torch.stack(found, dim=1)

    rows, clean = _by_row(model, objective, components, means, AT_ONCE // 4, of)
    m = len(components) * points
    return _effects(objective, components, rows, clean, Passes(1 + m, m))


def attribution_patching(
    model: torch.nn.Module,
    objective: Objective,
    components: Sequence[Component] | None = None,
    *,
    means: Means | None = None,
    positions: str = "pooled",
) -> Effects:
    """Gradient × (mean − activation) at the clean run, summed over a row's positions and widths.

    One forward and one backward pass for all components.  Arguments as in :func:`mean_ablation`.
    """
    components, means = _prepared(model, objective, components, means, positions)
    rows = np.zeros((len(objective.tokens), len(components)))
    clean = np.zeros(len(rows))
    for chosen, length in objective.blocks(AT_ONCE):
        shares = torch.zeros(len(components), len(chosen), dtype=torch.float64)
        shares = shares.to(objective.tokens.device).requires_grad_()
        with torch.enable_grad():
            moved = dict(zip(components, shares, strict=True))
            losses = run(model, objective, chosen, length, means, moved)
            (slope,) = torch.autograd.grad(losses.sum(), shares)
        rows[chosen.cpu()] = slope.T.cpu().numpy()
        clean[chosen.cpu()] = losses.detach().cpu().numpy()
    return _effects(objective, components, rows, clean, Passes(1, 1))


@torch.no_grad()
def cumulative_ablation(
    model: torch.nn.Module,
    objective: Objective,
    components: Sequence[Component],
    *,
    means: Means | None = None,
    positions: str = "pooled",
) -> Effects:
    """The loss with the first k components ablated together, minus the clean loss; k = 1 … m.

    Components keep the order in which they are given.  Other arguments as in
    :func:`mean_ablation`.
    """
    components, means = _prepared(model, objective, components, means, positions)

    def of(replay: Replay) -> Tensor:
        length = replay.tokens.shape[1]
        sets = (dict.fromkeys(components[:k], 1.0) for k in range(1, len(components) + 1))
        losses = [run(model, objective, replay.rows, length, means, moved) for moved in sets]
        return torch.stack(losses, dim=1)

    rows, clean = _by_row(model, objective, (), means, AT_ONCE, of)
    names = tuple(f"top {k}" for k in range(1, len(components) + 1))
    rows -= clean[:, None]
    counts = objective.counts
    passes = Passes(1 + len(components))
    return Effects(names, rows, counts, clean.sum() / counts.sum(), passes)


def _prepared(
    model: torch.nn.Module,
    objective: Objective,
    components: Sequence[Component] | None,
    means: Means | None,
    positions: str,
) -> tuple[tuple[Component, ...], Means]:
    """Components and means, found where they are not given."""
    found = find_components(model) if components is None else tuple(components)
    if not found or len({c.name for c in found}) < len(found):
        raise ValueError(f"give different components, at least one; got {[c.name for c in found]}.")
    if means is None:
        means = component_means(model, objective, found, positions)
    missing = [c.name for c in found if c.name not in means]
    if missing:
        raise ValueError(f"means lack {missing[0]}: take component_means of these components.")
    return found, means


def _by_row(
    model: torch.nn.Module,
    objective: Objective,
    components: Sequence[Component],
    means: Means,
    size: int,
    of: Callable[[Replay], Tensor],
) -> tuple[np.ndarray, np.ndarray]:
    """``of`` by row, (n, m), and the clean losses by row, (n,)."""
    rows, clean = None, np.zeros(len(objective.tokens))
    for chosen, length in objective.blocks(size):
        replay = Replay(model, objective, chosen, length, components, means)
        found = of(replay).detach().cpu().numpy()
        rows = np.zeros((len(clean), found.shape[1])) if rows is None else rows
        rows[chosen.cpu()] = found
        clean[chosen.cpu()] = replay.clean.cpu().numpy()
    return rows, clean


def _effects(
    objective: Objective,
    components: Sequence[Component],
    rows: np.ndarray,
    clean: np.ndarray,
    passes: Passes,
) -> Effects:
    counts = objective.counts
    names = tuple(c.name for c in components)
    return Effects(names, rows, counts, float(clean.sum() / counts.sum()), passes)
