"""What a run notes while it trains: losses, evaluations, weights kept, and whether to stop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from helpers.training.config import TrainConfig
from helpers.training.protocols import Learner


@dataclass
class Journal:
    """``done`` counts this run's own steps; ``start`` is where it set out from.

    ``reached`` is the value of ``done`` where ``stop_at`` was first met.
    """

    start: int = 0
    done: int = 0
    loss: list[float] = field(default_factory=list)
    history: dict[str, list[int | float]] = field(default_factory=lambda: {"step": []})
    kept: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    last_kept: dict[str, float] | None = None
    reached: int | None = None
    recent: list[Tensor] = field(default_factory=list)  # losses that may still be on a GPU

    def end(self, config: TrainConfig) -> int:
        """The last of this run's own steps, as far as is known."""
        if self.reached is None:
            return config.steps
        return min(config.steps, self.reached + config.stop_after)

    def settle(self, seed: int, config: TrainConfig) -> None:
        """Note the recent losses.

        Raises:
            FloatingPointError: one of them is not finite.
        """
        if self.recent:
            losses = torch.stack(self.recent).float().cpu()
            self.loss += losses.tolist()
            self.recent = []
            if not losses.isfinite().all():
                bad = len(self.loss) - len(losses) + int((~losses.isfinite()).nonzero()[0])
                raise FloatingPointError(
                    f"seed {seed} diverged at step {self.start + bad} of "
                    f"{self.start + config.steps}; lower lr = {config.lr} or lengthen the warm-up."
                )

    def keep(self, learner: Learner) -> None:
        """Keep the weights as they are now."""
        self.kept[self.start + self.done] = learner.weights()

    def evaluated(self, metrics: dict[str, float], learner: Learner, config: TrainConfig) -> None:
        """Note an evaluation, and keep the weights where the settings say so.

        Raises:
            ValueError: the settings watch a metric that is not there.
        """
        metrics = {name: float(value) for name, value in metrics.items()}
        for name, value in {"step": self.start + self.done, **metrics}.items():
            self.history.setdefault(name, []).append(value)
        accuracies = {name: v for name, v in metrics.items() if name.endswith("accuracy")}
        wanted = [config.stop_at[0]] if config.stop_at else []
        if not set(wanted) <= metrics.keys() or (config.keep_on and not accuracies):
            raise ValueError(
                f"stop_at or keep_on watches {(wanted or ['an accuracy'])[0]}, but this task "
                f"evaluates {', '.join(metrics) or 'nothing'}."
            )
        keep = bool(config.keep_on) and (
            self.last_kept is None
            or any(abs(v - self.last_kept[n]) >= config.keep_on for n, v in accuracies.items())
        )
        if config.stop_at and self.reached is None and metrics[wanted[0]] >= config.stop_at[1]:
            self.reached, keep = self.done, True
        if keep:
            self.last_kept = accuracies
            self.keep(learner)

    def values(self) -> dict[str, Any]:
        """All but the kept weights, as a snapshot takes it; the recent losses must be settled."""
        return {
            "start": self.start,
            "done": self.done,
            "loss": np.array(self.loss, dtype=np.float32),
            "history": {name: list(values) for name, values in self.history.items()},
            "last_kept": self.last_kept,
            "reached": self.reached,
        }

    @staticmethod
    def from_values(values: dict[str, Any], kept: dict[int, dict[str, Tensor]]) -> Journal:
        """The inverse of :meth:`values`."""
        return Journal(**{**values, "loss": values["loss"].tolist()}, kept=kept)
