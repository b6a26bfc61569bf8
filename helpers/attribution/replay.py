"""One component at a time: what stands before it runs once, and only what follows runs again.

- The bracket model starts at any site of its residual stream: one step behind the component's
  write, which is moved by hand.
- A bridge starts at the component's layer.
- Any other hooked model starts at the tokens.

All three give the same losses; tests hold them to each other.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from helpers.attribution.components import Component
from helpers.attribution.interpolate import Means, hooks, output, read
from helpers.attribution.objective import Objective

_BEHIND = {"head": "mid", "attn": "mid", "mlp": "post", "block": "post"}


class Replay:
    """A block of rows, ready to run from each component on; ``clean`` (b,) are their losses.

    Args:
        model: a bridge, or any ``HookedRootModule``.
        objective: the rows and their loss.
        rows: which of its rows.
        length: how many positions of them.
        components: those that will be moved.
        means: where to, see :func:`helpers.attribution.interpolate.component_means`.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        objective: Objective,
        rows: Int[Tensor, " b"],
        length: int,
        components: Sequence[Component],
        means: Means,
    ) -> None:
        self.model, self.objective, self.rows, self.means = model, objective, rows, means
        self.tokens, self.start = objective.tokens[rows, :length], start_of(model)
        sites = {c: self._site(c) for c in components}
        with torch.no_grad():
            also = [site for site in sites.values() if site]
            logits, self.cache = read(model, self.tokens, components, also)
            self.clean = objective.row_losses(logits, rows)
        self.sites = sites

    def _site(self, component: Component) -> str | None:
        """Where a run for this component starts: None for the tokens."""
        place = {"site": _BEHIND[component.kind], "layer": "pre"}.get(self.start)
        return place and f"blocks.{component.layer}.hook_resid_{place}"

    def __call__(self, component: Component, shares: Float[Tensor, "k b"]) -> Float[Tensor, "k b"]:
        """Losses of the rows with the component moved by each of k shares a row."""
        which = torch.arange(len(self.rows), device=self.tokens.device).repeat(len(shares))
        return self.at(component, shares.flatten(), which).unflatten(0, shares.shape)

    def at(
        self, component: Component, shares: Float[Tensor, " j"], which: Int[Tensor, " j"]
    ) -> Float[Tensor, " j"]:
        """Losses of the block's rows ``which``, which may repeat, each with its own share."""
        site = self.sites[component]
        if self.start == "site":
            move = shares.to(self.cache[site])[:, None, None] * self._write(component)[which]
            logits = self.model(start_at=site, resid=self.cache[site][which] + move)
        else:
            moves, how = hooks(self.means, {component: shares}), {}
            given = self.tokens
            if self.start == "layer":
                given, how = self.cache[site], {"start_at_layer": component.layer}
            logits = self.model.run_with_hooks(given[which], fwd_hooks=moves, **how)
        return self.objective.row_losses(logits, self.rows[which])

    def _write(self, component: Component) -> Float[Tensor, "b p d_model"]:
        """What the residual stream gains when the component goes all the way to its mean."""
        a = output(component, self.cache)
        change = self.means[component.name][: a.shape[1]].to(a) - a
        if component.head is None:
            return change
        return change @ self.model.W_O[component.layer, component.head].detach()


def start_of(model: torch.nn.Module) -> str:
    """Where the model's runs can start: ``site``, ``layer`` or ``tokens``."""
    keywords = inspect.signature(model.forward).parameters
    if hasattr(model, "sites") and {"start_at", "resid"} <= keywords.keys():
        return "site"
    return "layer" if "start_at_layer" in keywords else "tokens"
