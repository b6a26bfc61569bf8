r"""Heads and MLPs replaced by their means: what that costs, and the model without the idle ones.

A component writes a vector c(t) into the residual stream: a head z_h W_O[h], an MLP its output.
Replaced, it writes its mean over the real positions of a calibration batch, everywhere,

.. math:: c(t) \to \bar c = \frac1N \sum_t c(t), \qquad
          \text{effect} = L(\text{replaced}) - L(\text{intact}),

L being the sum of the three mean cross-entropies.  All means are those of the intact model.
Replacing takes no hook: the weights that write are set to zero, and the mean is added instead.
Without a replaced component the model stays as it was, bit for bit.

Source: McCann 2026 (small scale, components alive or dead).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from helpers.dyck.model import OUTPUTS, SMALL, DyckTransformer
from helpers.models import ModelConfig
from helpers.specification.exact import cross_entropy
from helpers.specification.streaming import module_logits
from helpers.tasks.dyck import label


class Component(NamedTuple):
    """A head of a layer, or the layer's MLP where ``head`` is None."""

    layer: int
    head: int | None = None

    def __str__(self) -> str:
        return f"MLP {self.layer}" if self.head is None else f"head {self.layer}.{self.head}"


def components(config: ModelConfig = SMALL) -> tuple[Component, ...]:
    """Every head and MLP, in the order of the computation."""
    return tuple(
        Component(layer, head)
        for layer in range(config.n_layers)
        for head in (*range(config.n_heads), None)
    )


class ReplacedDyck(nn.Module):
    """The bracket model with some components replaced by constant vectors.

    Args:
        state: weights of :class:`helpers.dyck.DyckTransformer`.
        constants: what a replaced component writes (d_model,), by component.
        config: the sizes.

    Raises:
        ValueError: a component that the model does not have, or a vector of another width.
    """

    def __init__(
        self,
        state: dict[str, Tensor],
        constants: Mapping[Component, Float[Tensor, " d_model"]],
        config: ModelConfig = SMALL,
    ) -> None:
        super().__init__()
        known = components(config)
        wrong = [c for c, v in constants.items() if c not in known or v.shape != (config.d_model,)]
        if wrong:
            raise ValueError(
                f"{wrong[0]} of {tuple(constants[wrong[0]].shape)} is none of this model's "
                f"components ({', '.join(map(str, known))}), or no vector of ({config.d_model},)."
            )
        self.dead, self.module = tuple(constants), DyckTransformer(config)
        self.module.to(state["head.weight"].dtype).load_state_dict(state)
        write = torch.zeros(config.n_layers, 2, config.d_model, dtype=state["head.weight"].dtype)
        with torch.no_grad():
            for (layer, head), vector in constants.items():
                write[layer, int(head is None)] += vector
                block = self.module.layers[layer]
                if head is None:
                    block.mlp.fc_out.weight.zero_()
                else:
                    columns = slice(head * config.d_head, (head + 1) * config.d_head)
                    block.attn.o.weight[:, columns] = 0
        self.register_buffer("write", write)  # layer, behind attention or MLP, d_model
        self.eval().requires_grad_(False)

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos 51"]:
        """Logits at every position."""
        x = self.module.embed(tokens)
        for block, (mid, out) in zip(self.module.layers, self.write, strict=True):
            x = x + block.attn(block.ln1(x)) + mid
            x = x + block.mlp(block.ln2(x)) + out
        return self.module.head(self.module.ln_out(x))


@torch.no_grad()
def component_means(
    state: dict[str, Tensor], rows: Int[np.ndarray, "n pos"], config: ModelConfig = SMALL
) -> dict[Component, Float[Tensor, " d_model"]]:
    """What each component of the intact model writes on average over the rows' real positions."""
    module = DyckTransformer(config).to(state["head.weight"].dtype)
    module.load_state_dict(state)
    sums = {c: torch.zeros(config.d_model, dtype=torch.float64) for c in components(config)}
    tokens, real = torch.from_numpy(rows), torch.from_numpy(label(rows).mask)
    for part, kept in zip(tokens.split(128), real.split(128), strict=True):
        x = module.embed(part)
        for layer, block in enumerate(module.layers):
            read = block.ln1(x)
            q, k, v = (
                m(read).unflatten(-1, (config.n_heads, -1)).transpose(1, 2)
                for m in (block.attn.q, block.attn.k, block.attn.v)
            )
            z = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # batch head pos d_head
            totals = (z * kept[:, None, :, None]).sum(dim=(0, 2)).double()
            W_O = block.attn.o.weight.double().T.unflatten(0, (config.n_heads, -1))
            for head in range(config.n_heads):
                sums[Component(layer, head)] += totals[head] @ W_O[head]
            x = x + block.attn.o(z.transpose(1, 2).flatten(-2))
            write = block.mlp(block.ln2(x))
            sums[Component(layer)] += write[kept].double().sum(dim=0)
            x = x + write
    n = int(real.sum())
    return {c: (total / n).to(state["head.weight"].dtype) for c, total in sums.items()}


@dataclass(frozen=True)
class Effect:
    """What one replacement costs: loss (nats) and accuracy lost, by output; ``total`` sums losses.

    ``kept`` is the share of the intact model's right answers that stay right, by output.
    """

    component: Component
    loss: Mapping[str, float]
    kept: Mapping[str, float]

    @property
    def total(self) -> float:
        """The effect on the loss that training minimises."""
        return sum(self.loss.values())


def ablation_effects(
    state: dict[str, Tensor],
    means: Mapping[Component, Float[Tensor, " d_model"]],
    rows: Int[np.ndarray, "n pos"],
    config: ModelConfig = SMALL,
) -> tuple[Effect, ...]:
    """Every component of ``means`` replaced alone, scored on rows other than the calibration's.

    Each costs one forward pass.
    """
    labels = label(rows)
    answers = {name: getattr(labels, name)[labels.mask] for name in OUTPUTS}

    def outcome(constants: Mapping[Component, Tensor]) -> tuple[dict, dict]:
        logits = module_logits(ReplacedDyck(state, constants, config))(rows, labels.mask)
        parts = {name: logits[:, part] for name, part in OUTPUTS.items()}
        loss = {n: float(cross_entropy(x, answers[n]).mean()) for n, x in parts.items()}
        return loss, {n: x.argmax(axis=1) == answers[n] for n, x in parts.items()}

    loss, right = outcome({})
    effects = []
    for component, mean in means.items():
        now, still = outcome({component: mean})
        kept = {n: float(still[n][right[n]].mean()) if right[n].any() else 0.0 for n in OUTPUTS}
        effects.append(Effect(component, {n: now[n] - loss[n] for n in OUTPUTS}, kept))
    return tuple(effects)


def dead_components(effects: Iterable[Effect], share: float = 0.01) -> tuple[Component, ...]:
    """Components whose effect is under ``share`` of the largest; a negative effect is, too.

    Raises:
        ValueError: no effects, a share outside [0, 1], or no effect above zero to compare with.
    """
    effects = tuple(effects)
    largest = max((effect.total for effect in effects), default=0.0)
    if not (largest > 0 and 0 <= share <= 1):
        raise ValueError(
            f"needs effects of which one at least is positive (largest: {largest}), and a share in "
            f"[0, 1]; got {share}. Is the model trained?"
        )
    return tuple(effect.component for effect in effects if effect.total < share * largest)
