"""A learner for any module and loss: gradients by autograd, AdamW in its fused form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from helpers.training.config import TrainConfig


def _copy(value: Tensor) -> Tensor:
    return value.detach().to("cpu", copy=True)


class AutogradLearner:
    """``net`` with AdamW; ``loss(net, batch)`` is the 0-d loss that a step lowers.

    The module moves to ``config.device`` and is in training mode.
    """

    def __init__(
        self,
        net: nn.Module,
        loss: Callable[[nn.Module, Any], Tensor],
        config: TrainConfig,
    ) -> None:
        self.net, self.loss, self.clip = net.to(config.device).train(), loss, config.clip
        self.optimizer = torch.optim.AdamW(
            net.parameters(),
            config.lr,
            config.betas,
            config.eps,
            config.weight_decay,
            fused=True,
        )

    def step(self, batch: Any, lr: float) -> Tensor:
        """One step; the loss before it."""
        loss = self.loss(self.net, batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self.clip:
            nn.utils.clip_grad_norm_(self.net.parameters(), self.clip)
        self.optimizer.param_groups[0]["lr"] = lr
        self.optimizer.step()
        return loss.detach()

    def weights(self) -> dict[str, Tensor]:
        """Copies of the weights by name, on the CPU."""
        return {name: _copy(value) for name, value in self.net.state_dict().items()}

    def state(self) -> dict[str, Tensor]:
        """``weights/NAME``, and for each parameter ``step/NAME``, ``exp_avg/NAME`` and so on."""
        state = {f"weights/{name}": value for name, value in self.weights().items()}
        for name, parameter in self.net.named_parameters():
            for kind, value in self.optimizer.state.get(parameter, {}).items():
                state[f"{kind}/{name}"] = _copy(value)
        return state

    def load(self, state: dict[str, Tensor]) -> None:
        """Take up weights and moments."""
        by_kind: dict[str, dict[str, Tensor]] = {}
        for key, value in state.items():
            kind, _, name = key.partition("/")
            by_kind.setdefault(kind, {})[name] = value
        self.net.load_state_dict(by_kind.pop("weights"))
        moments = {
            i: {kind: values[name].clone() for kind, values in by_kind.items()}
            for i, (name, _) in enumerate(self.net.named_parameters())
            if by_kind
        }
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
