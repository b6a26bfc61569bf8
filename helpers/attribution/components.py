"""A model's components, found by their hook points.

Every component writes something to the residual stream: a head (``hook_z``, or ``hook_result``
where that runs), an attention layer (``hook_attn_out``), an MLP (``hook_mlp_out``), or a whole
block, whose output is what it adds: ``hook_resid_post`` − ``hook_resid_pre``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

KINDS = ("head", "attn", "mlp", "block")
_HOOKS = {
    "head": ("attn.hook_z", "attn.hook_result"),
    "attn": ("hook_attn_out",),
    "mlp": ("hook_mlp_out",),
    "block": ("hook_resid_post",),
}


@dataclass(frozen=True)
class Component:
    """One part of a model.

    ``hook`` is where its output is replaced.  ``head`` is its index on the hook's third axis, None
    for what is not a head.  ``base`` is the hook point whose value is taken off to get the output,
    None for all but blocks.
    """

    name: str
    kind: str
    layer: int
    hook: str
    head: int | None = None
    base: str | None = None


def find_components(
    model: torch.nn.Module, kinds: Sequence[str] = ("head", "mlp")
) -> tuple[Component, ...]:
    """Components of these kinds, in the order of the computation: ``L0H0`` … ``MLP0``, ``L1H0`` …

    The model runs on one token, so that hook points which exist but never run are passed over
    (bridges have such a ``hook_result``).

    Args:
        model: a bridge, or any ``HookedRootModule`` that takes tokens (batch, pos).
        kinds: some of ``head``, ``attn``, ``mlp``, ``block``.

    Raises:
        ValueError: an unknown kind, or a kind that the model has no hook point for.
    """
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise ValueError(f"kinds are some of {', '.join(KINDS)}; got {list(kinds)}.")
    shapes = _shapes(model)
    layers = {int(m[1]) for name in shapes if (m := re.match(r"blocks\.(\d+)\.", name))}
    found = []
    for layer in sorted(layers):
        for kind in sorted(set(kinds), key=KINDS.index):
            found += _of_layer(kind, layer, shapes)
    missing = [kind for kind in kinds if not any(c.kind == kind for c in found)]
    if missing:
        wanted = " or ".join(f"blocks.i.{hook}" for hook in _HOOKS[missing[0]])
        raise ValueError(
            f"{type(model).__name__} has no component of kind {missing[0]!r}: no {wanted} runs in "
            "it (for heads, split by head). Ask for other kinds, or add the hook point."
        )
    return tuple(found)


def _of_layer(kind: str, layer: int, shapes: dict[str, torch.Size]) -> list[Component]:
    """The components of one kind in one layer."""
    prefix = f"blocks.{layer}."
    for name in (prefix + hook for hook in _HOOKS[kind]):
        if name not in shapes:
            continue
        if kind == "head" and len(shapes[name]) == 4:
            heads = range(shapes[name][2])
            return [Component(f"L{layer}H{h}", kind, layer, name, head=h) for h in heads]
        if kind == "block" and prefix + "hook_resid_pre" in shapes:
            base = prefix + "hook_resid_pre"
            return [Component(f"block{layer}", kind, layer, name, base=base)]
        if kind in ("attn", "mlp"):
            label = {"attn": "attn", "mlp": "MLP"}[kind]
            return [Component(f"{label}{layer}", kind, layer, name)]
    return []


@torch.no_grad()
def _shapes(model: torch.nn.Module) -> dict[str, torch.Size]:
    """Shapes at the hook points that run."""
    token = torch.zeros(1, 1, dtype=torch.long, device=next(model.parameters()).device)
    _, cache = model.run_with_cache(token)
    return {name: value.shape for name, value in cache.items() if isinstance(value, Tensor)}
