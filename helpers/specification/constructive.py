r"""The second specification: the trained model itself, without what it does not need.

RMSNorm's gains go into the maps that read them, which is exact.  Then every component with under
1 % of the largest mean-ablation effect is replaced by its mean, and nothing else changes.  Where no
component is that small, specification and model are one function and KL is zero: an identity, and
no evidence.

Source: McCann 2026 (small scale, constructive specification).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from helpers.dyck.model import OUTPUTS, SMALL
from helpers.dyck.symmetry import fold_norms
from helpers.models import ModelConfig
from helpers.specification.components import (
    Component,
    Effect,
    ReplacedDyck,
    ablation_effects,
    component_means,
    dead_components,
)
from helpers.specification.exact import check_logits
from helpers.specification.streaming import module_logits
from helpers.tasks.dyck import Labels, label


@dataclass(frozen=True, eq=False)
class Constructive:
    """A folded model with the ``dead`` components replaced; see :func:`constructive`.

    Args:
        state: the folded weights of the intact model.
        means: what every component writes on average over the calibration batch.
        effects: what each costs when it is replaced alone.
        module: the specification as a module, tokens to logits.
    """

    state: dict[str, Tensor]
    means: dict[Component, Tensor]
    effects: tuple[Effect, ...]
    module: ReplacedDyck

    @property
    def dead(self) -> tuple[Component, ...]:
        """The components that were replaced."""
        return self.module.dead

    def targets(self, rows: Int[np.ndarray, "n pos"]) -> Labels:
        """The answers that it holds likeliest; the mask is that of the rows."""
        logits = self.log_probs(rows)
        answers = {name: logits[..., part].argmax(axis=-1) for name, part in OUTPUTS.items()}
        return Labels(**answers, mask=label(rows).mask)

    @torch.no_grad()
    def log_probs(self, rows: Int[np.ndarray, "n pos"]) -> Float[np.ndarray, "n pos 51"]:
        """Log-probabilities of every output, side by side."""
        logits = torch.cat([self.module(part) for part in torch.from_numpy(rows).split(64)])
        parts = [logits[..., part].double().log_softmax(-1) for part in OUTPUTS.values()]
        return torch.cat(parts, dim=-1).numpy()

    def kl(
        self,
        rows: Int[np.ndarray, "n pos"],
        labels: Labels,
        logits: Float[np.ndarray, "positions 51"],
    ) -> Float[np.ndarray, "positions 3"]:
        """KL(specification ‖ model) in nats at every real position, by output.

        Raises:
            ValueError: logits of another number of positions, NaN or infinity.
        """
        check_logits(logits, labels)
        own = torch.from_numpy(module_logits(self.module)(rows, labels.mask)).double()
        other, found = torch.from_numpy(logits).double(), []
        for part in OUTPUTS.values():
            p, q = own[:, part].log_softmax(1), other[:, part].log_softmax(1)
            found.append((p.exp() * (p - q)).sum(dim=1).clamp(min=0))
        return torch.stack(found, dim=1).numpy()


def constructive(
    state: dict[str, Tensor],
    calibration: Int[np.ndarray, "n pos"],
    scored: Int[np.ndarray, "m pos"],
    *,
    share: float = 0.01,
    config: ModelConfig = SMALL,
) -> Constructive:
    """Fold, score, and replace what is under ``share`` of the largest effect.

    Args:
        state: the trained weights.
        calibration: rows that the means are taken over.
        scored: other rows, on which effects are measured.
        share: of the largest effect.
        config: the sizes.

    Raises:
        ValueError: an untrained model, in which nothing raises the loss.
    """
    folded = fold_norms(state)
    means = component_means(folded, calibration, config)
    effects = ablation_effects(folded, means, scored, config)
    dead = dead_components(effects, share)
    module = ReplacedDyck(folded, {component: means[component] for component in dead}, config)
    return Constructive(folded, means, effects, module)
