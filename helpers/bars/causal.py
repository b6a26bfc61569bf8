"""Bars C and Pr: do the specification's parts do in the model what they do in the specification?

- C, causal: effects of single components.  Predicted: the specification's.  Measured: the loss when
  the matched component of the model is replaced by its mean.
- Pr, predictive: the loss with the first k components ablated together, k = 1 … m, in the order of
  the specification's single effects.

These are two measurements.  Ablations do not add up, so a model can pass one and fail the other.
Where specification and model are one function with the same parts, both must pass: for C by
completeness of integrated gradients, for Pr by identity.  :attr:`Causal.same_function` says so.

r saturates where one effect is larger than all others, so Σ|error| / Σ|effect| stands beside it.
A cumulative curve rises in almost any order: see :func:`random_match` for the null.

Source: McCann 2026 (arXiv:2605.24577), whose two bars were one measurement across seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from helpers.attribution import (
    Attribution,
    Component,
    Effects,
    Objective,
    cumulative_ablation,
    find_components,
    integrated_gradients,
    mean_ablation,
)
from helpers.attribution.interpolate import AT_ONCE

Match = Mapping[str, str]
"""The specification's components to the model's, by name."""
KINDS = ("head", "mlp")


@dataclass(frozen=True, eq=False)
class Causal(Attribution):
    """Effects that the specification predicts, and what was measured in the model.

    ``same_function``: the two gave the same logits on these rows, so the bar could not fail.
    """

    same_function: bool = False


def causal(
    spec: torch.nn.Module,
    model: torch.nn.Module,
    objective: Objective,
    *,
    match: Match | None = None,
    kinds: tuple[str, ...] = KINDS,
    predict: Callable[..., Effects] = integrated_gradients,
    positions: str = "pooled",
) -> Causal:
    """Bar C: effects of single components.

    Args:
        spec, model: bridges, or any ``HookedRootModule``.
        objective: rows and their loss; both sides get the same.
        match: which component of the model stands for each of the specification's, such as the
            head permutation of an alignment; the same names if None.
        kinds: of components.
        predict: the method on the specification's side.
        positions: of the means: see :func:`helpers.attribution.component_means`.

    Raises:
        ValueError: a match that is no pairing of all components.
    """
    ours, theirs = _paired(spec, model, match, kinds)
    predicted = predict(spec, objective, ours, positions=positions)
    measured = mean_ablation(model, objective, theirs, positions=positions)
    return Causal("C", predicted, measured, same_function(spec, model, objective))


def predictive(
    spec: torch.nn.Module,
    model: torch.nn.Module,
    objective: Objective,
    *,
    match: Match | None = None,
    kinds: tuple[str, ...] = KINDS,
    positions: str = "pooled",
) -> Causal:
    """Bar Pr: cumulative ablation of the first k components, largest single effect first.

    The order is the specification's, measured on it.  Arguments and errors as in :func:`causal`.
    """
    ours, theirs = _paired(spec, model, match, kinds)
    single = mean_ablation(spec, objective, ours, positions=positions).mean
    order = np.argsort(-single, kind="stable")
    curve = partial(cumulative_ablation, objective=objective, positions=positions)
    return Causal(
        "Pr",
        curve(spec, components=[ours[i] for i in order]),
        curve(model, components=[theirs[i] for i in order]),
        same_function(spec, model, objective),
    )


def random_match(
    spec: torch.nn.Module,
    model: torch.nn.Module,
    generator: np.random.Generator,
    kinds: tuple[str, ...] = KINDS,
) -> dict[str, str]:
    """The null of both bars: components paired at random within their kind, over all layers."""
    ours, theirs = find_components(spec, kinds), find_components(model, kinds)
    found = {}
    for kind in kinds:
        names = [c.name for c in theirs if c.kind == kind]
        mine = [c.name for c in ours if c.kind == kind]
        shuffled = [names[i] for i in generator.permutation(len(names))]
        found.update(zip(mine, shuffled, strict=True))
    return found


@torch.no_grad()
def same_function(
    spec: torch.nn.Module,
    model: torch.nn.Module,
    objective: Objective,
    tolerance: float = 1e-3,
) -> bool:
    """Whether both give the same logits: largest gap within ``tolerance``.

    Looked at where the objective's first rows ask; logits of another shape are another function.
    """
    rows, seen = objective.tokens[:AT_ONCE], objective.asked[:AT_ONCE]
    one, other = spec(rows)[seen].double(), model(rows)[seen].double()
    return one.shape == other.shape and bool((one - other).abs().max() <= tolerance)


def _paired(
    spec: torch.nn.Module,
    model: torch.nn.Module,
    match: Match | None,
    kinds: tuple[str, ...],
) -> tuple[list[Component], list[Component]]:
    """Components of both sides in matched order."""
    ours = list(find_components(spec, kinds))
    theirs = {c.name: c for c in find_components(model, kinds)}
    match = {c.name: c.name for c in ours} if match is None else match
    names = [match.get(c.name, "") for c in ours]
    if sorted(names) != sorted(theirs) or len(match) != len(ours):
        wrong = next((c.name for c in ours if match.get(c.name) not in theirs), None)
        raise ValueError(
            f"match must pair {', '.join(c.name for c in ours)} one to one with "
            f"{', '.join(theirs)}" + (f"; look at {wrong}." if wrong else ".")
        )
    return ours, [theirs[name] for name in names]
