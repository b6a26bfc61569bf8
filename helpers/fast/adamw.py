"""AdamW over one vector, in one pass.

Decoupled decay and corrected moments (Loshchilov & Hutter 2019), as ``torch.optim.AdamW`` has
them: equal to it but for rounding, and without its cost a call.
"""

from __future__ import annotations

import math
from typing import no_type_check

import numpy as np
import torch
from torch import Tensor

from helpers.fast.compiled import compiled


@compiled
@no_type_check
def _update(x, grad, first, second, settings):
    """x ← keep · x − size · m / (root · √v + eps), with both moments moved towards grad."""
    # In float32, but counted in float64: 1 − β₂ would else be off by as much as 1e-4 of itself.
    keep, size, eps = np.float32(settings[0]), np.float32(settings[1]), np.float32(settings[2])
    to_first, beta2 = np.float32(settings[3]), np.float32(settings[4])
    to_second, root = np.float32(settings[5]), np.float32(settings[6])
    for i in range(len(x)):
        g = grad[i]
        m = first[i] + to_first * (g - first[i])
        v = beta2 * second[i] + to_second * g * g
        first[i] = m
        second[i] = v
        x[i] = keep * x[i] - size * m / (np.sqrt(v) * root + eps)


class AdamW:
    """The optimiser of the vector ``x``, whose gradient is found in ``grad``."""

    def __init__(
        self,
        x: Tensor,
        grad: Tensor,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
    ) -> None:
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay
        self.steps, self.moments = 0, (torch.zeros_like(x), torch.zeros_like(x))
        self._arrays = [tensor.numpy() for tensor in (x, grad, *self.moments)]

    def step(self, lr: float) -> None:
        """Move x."""
        self.steps += 1
        beta1, beta2 = self.betas
        size = lr / (1 - beta1**self.steps)
        root = 1 / math.sqrt(1 - beta2**self.steps)
        decay = 1 - lr * self.weight_decay
        _update(*self._arrays, (decay, size, float(self.eps), 1 - beta1, beta2, 1 - beta2, root))

    def state(self) -> dict[str, Tensor]:
        """Copies of what a later start needs; nothing before the first step."""
        if not self.steps:
            return {}
        first, second = (moment.clone() for moment in self.moments)
        step = torch.tensor(float(self.steps))
        return {"step": step, "exp_avg": first, "exp_avg_sq": second}

    def load(self, state: dict[str, Tensor]) -> None:
        """Go on from :meth:`state`."""
        self.steps = int(state.get("step", 0))
        for name, moment in zip(("exp_avg", "exp_avg_sq"), self.moments, strict=True):
            moment.copy_(state[name]) if name in state else moment.zero_()
