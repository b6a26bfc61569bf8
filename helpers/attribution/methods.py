r"""Effects of components on the loss: measured by ablation, predicted by gradients.

With L_i(α) the loss of row i when one component is moved a share α towards its mean
(:mod:`helpers.attribution.interpolate`), row i's effect is

- mean ablation: :math:`L_i(1) - L_i(0)`, which is measured;
- attribution patching: :math:`L_i'(0)`, the gradient times (mean − activation), of all components
  with one backward pass;
- integrated gradients: :mod:`helpers.attribution.integrated`.

Source: Nanda 2023, attribution patching; McCann 2026 (arXiv:2605.24577), by component.
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
    components, means = prepared(model, objective, components, means, positions)

    @torch.no_grad()
    def of(replay: Replay) -> Tensor:
        whole = torch.ones(1, len(replay.rows)).to(replay.tokens.device)
        return torch.stack([replay(c, whole)[0] for c in components], dim=1)

    rows, clean = by_row(model, objective, components, means, AT_ONCE, of)
    rows -= clean[:, None]
    return effects_of(objective, components, rows, clean, Passes(1 + len(components)))


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
    components, means = prepared(model, objective, components, means, positions)
    rows = np.zeros((len(objective.tokens), len(components)))
    clean = np.zeros(len(rows))
    for chosen, length in objective.blocks(AT_ONCE):
        where = chosen.cpu().numpy()
        shares = torch.zeros(len(components), len(chosen), dtype=torch.float64)
        shares = shares.to(objective.tokens.device).requires_grad_()
        with torch.enable_grad():
            moved = dict(zip(components, shares, strict=True))
            losses = run(model, objective, chosen, length, means, moved)
            (slope,) = torch.autograd.grad(losses.sum(), shares)
        rows[where] = slope.T.cpu().numpy()
        clean[where] = losses.detach().cpu().numpy()
    return effects_of(objective, components, rows, clean, Passes(1, 1))


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
    components, means = prepared(model, objective, components, means, positions)

    def of(replay: Replay) -> Tensor:
        length = replay.tokens.shape[1]
        sets = (dict.fromkeys(components[:k], 1.0) for k in range(1, len(components) + 1))
        losses = [run(model, objective, replay.rows, length, means, moved) for moved in sets]
        return torch.stack(losses, dim=1)

    rows, clean = by_row(model, objective, (), means, AT_ONCE, of)
    names = tuple(f"top {k}" for k in range(1, len(components) + 1))
    rows -= clean[:, None]
    counts = objective.counts
    passes = Passes(1 + len(components))
    return Effects(names, rows, counts, clean.sum() / counts.sum(), passes)


def prepared(
    model: torch.nn.Module,
    objective: Objective,
    components: Sequence[Component] | None,
    means: Means | None,
    positions: str,
) -> tuple[tuple[Component, ...], Means]:
    """Components and means, found where they are not given.

    Raises:
        ValueError: no component, one that is given twice, or means that lack one.
    """
    found = find_components(model) if components is None else tuple(components)
    if not found or len({c.name for c in found}) < len(found):
        raise ValueError(f"give different components, at least one; got {[c.name for c in found]}.")
    if means is None:
        means = component_means(model, objective, found, positions)
    missing = [c.name for c in found if c.name not in means]
    if missing:
        raise ValueError(f"means lack {missing[0]}: take component_means of these components.")
    return found, means


def by_row(
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
        where = chosen.cpu().numpy()
        rows[where], clean[where] = found, replay.clean.cpu().numpy()
    return rows, clean


def effects_of(
    objective: Objective,
    components: Sequence[Component],
    rows: np.ndarray,
    clean: np.ndarray,
    passes: Passes,
) -> Effects:
    """Effects from their sums by row (n, m), and clean losses (n,)."""
    counts = objective.counts
    names = tuple(c.name for c in components)
    return Effects(names, rows, counts, float(clean.sum() / counts.sum()), passes)
