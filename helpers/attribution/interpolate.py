r"""A model whose components are moved towards their means, and its loss by row.

With share α of a component whose output is a and whose mean is ā,

.. math:: a \leftarrow a + \alpha\,(\bar a - a),

so that α = 0 is the clean model and α = 1 the ablated one.  Everything in this package is read off
L(α): its value at 1 (ablation), its slope at 0 (attribution patching), the integral of its slope
(integrated gradients).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from helpers.attribution.components import Component
from helpers.attribution.objective import Objective

AT_ONCE = 256
"""Sequences in one forward pass."""
POSITIONS = ("pooled", "each")

Means = dict[str, Tensor]
Hook = tuple[str, Callable[..., Any]]


@torch.no_grad()
def component_means(
    model: torch.nn.Module,
    objective: Objective,
    components: Sequence[Component],
    positions: str = "pooled",
) -> Means:
    """Mean outputs by the component's name, over the positions that the loss depends on.

    ``"pooled"``: one mean for all positions, (1, width).  ``"each"``: one for each position,
    (pos, width), over the rows that reach it.

    Raises:
        ValueError: another word for ``positions``.
    """
    if positions not in POSITIONS:
        raise ValueError(f"positions is one of {', '.join(POSITIONS)}; got {positions!r}.")
    sums: dict[str, Tensor] = {}
    number = objective.seen.sum(dim=0).double()
    for rows, length in objective.blocks(AT_ONCE):
        tokens, seen = objective.tokens[rows, :length], objective.seen[rows, :length].double()
        _, cache = read(model, tokens, components)
        for component in components:
            found = torch.einsum("bp,bp...->p...", seen, output(component, cache).double())
            total = sums.setdefault(component.name, found.new_zeros(len(number), *found.shape[1:]))
            total[:length] += found
    if positions == "pooled":
        return {name: total.sum(dim=0, keepdim=True) / number.sum() for name, total in sums.items()}
    return {name: total / number.clamp(min=1)[:, None] for name, total in sums.items()}


def read(
    model: torch.nn.Module,
    tokens: Int[Tensor, "b p"],
    components: Sequence[Component],
    also: Sequence[str] = (),
) -> tuple[Float[Tensor, "b p v"], Mapping[str, Tensor]]:
    """A clean run's logits, and its activations at the components' hook points and at others."""
    wanted = {c.hook for c in components} | {c.base for c in components if c.base} | set(also)
    logits, cache = model.run_with_cache(tokens, names_filter=list(wanted))
    # a bridge hands some of them out under a second name, which it finds when it is asked
    return logits, {name: cache[name] for name in wanted}


def output(component: Component, cache: Mapping[str, Tensor]) -> Float[Tensor, "b p width"]:
    """A component's output in a run."""
    value = cache[component.hook]
    if component.base:
        value = value - cache[component.base]
    return value if component.head is None else value[:, :, component.head]


def hooks(means: Means, shares: Mapping[Component, Tensor | float]) -> list[Hook]:
    """Hooks that move each component of ``shares`` by its share, a number or one a row (b,).

    All of them act in one run, so a component sees what those before it were moved to.
    """
    by_hook: dict[str, list[Component]] = defaultdict(list)
    for component in shares:
        by_hook[component.hook].append(component)
    found: list[Hook] = []
    for name, members in by_hook.items():
        bases: dict[str, Tensor] = {}
        for base in {c.base for c in members if c.base}:
            found.append((base, _keeper(bases, base)))
        found.append((name, _mover(members, means, shares, bases)))
    return found


def _keeper(bases: dict[str, Tensor], name: str) -> Callable[..., None]:
    def keep(value: Tensor, hook: Any) -> None:
        bases[name] = value

    return keep


def _mover(
    members: Sequence[Component],
    means: Means,
    shares: Mapping[Component, Tensor | float],
    bases: Mapping[str, Tensor],
) -> Callable[..., Tensor]:
    def move(value: Tensor, hook: Any) -> Tensor:
        for c in members:
            mean = means[c.name][: value.shape[1]].to(value)
            share = torch.as_tensor(shares[c]).to(value).reshape(-1, 1, 1)
            if c.head is None:
                a = value - bases[c.base] if c.base else value
                value = value + share * (mean - a)
            else:
                here = torch.zeros(value.shape[2], 1).to(value)
                here[c.head] = 1
                value = value + (share * (mean - value[:, :, c.head]))[:, :, None] * here
        return value

    return move


def run(
    model: torch.nn.Module,
    objective: Objective,
    rows: Int[Tensor, " b"],
    length: int,
    means: Means,
    shares: Mapping[Component, Tensor | float],
) -> Float[Tensor, " b"]:
    """Losses of rows (sums over their asked positions), from the tokens on; any shares together."""
    tokens = objective.tokens[rows, :length]
    logits = model.run_with_hooks(tokens, fwd_hooks=hooks(means, shares))
    return objective.row_losses(logits, rows)
