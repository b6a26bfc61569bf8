"""How to train."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class TrainConfig:
    """How to train: AdamW, linear warm-up, then a cosine to ``floor``.  Steps count from the run's
    own start, also in a run that goes on from another.

    Args:
        steps: steps of this run, at most.
        n_sequences: 0 draws fresh sequences at every step; otherwise a fixed set of that many is
            shuffled anew each epoch.
        keep_at: steps after which weights are kept as well.
        eval_every: steps from one evaluation to the next; 0 for none.  The first is before the
            first step, the last after the last step.
        stop_at: (metric, value): stop as soon as an evaluation finds the metric at this value or
            above.  The weights of that evaluation are kept.
        stop_after: steps to go on after that.
        keep_on: keep the weights of an evaluation where some accuracy (a metric whose name ends so)
            moved by this much or more since the last ones kept so.  The first evaluation's are
            kept.  0 for none.
        eps: added to the root of AdamW's second moment; where gradients are far smaller than this,
            weights hardly move.
        floor: where the cosine ends, as a fraction of ``lr``.
        clip: largest norm of the whole gradient; 0 for no limit.
        device: where a learner by autograd computes, as torch names it.

    Raises:
        ValueError: a setting out of range, or one that needs ``eval_every`` without it.
    """

    steps: int = 400
    batch_size: int = 32
    lr: float = 3e-3
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-8
    warmup: int = 20
    decay: bool = True
    dropout: float = 0.0
    n_sequences: int = 0
    keep_at: tuple[int, ...] = ()
    eval_every: int = 0
    stop_at: tuple[str, float] | None = None
    stop_after: int = 0
    keep_on: float = 0.0
    clip: float = 0.0
    floor: float = 0.0
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch_size < 1:
            raise ValueError(
                f"need at least one step and one sequence a batch; got {self.steps} and "
                f"{self.batch_size}."
            )
        for name in ("lr", "eps"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0; got {getattr(self, name)}.")
        late = [step for step in self.keep_at if not 0 < step <= self.steps]
        if late:
            raise ValueError(f"keep_at must lie in 1…{self.steps}; got {late}.")
        for name in ("eval_every", "stop_after", "keep_on", "clip"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be 0 or more; got {getattr(self, name)}.")
        if not 0 <= self.floor <= 1:
            raise ValueError(f"floor is a fraction of lr, from 0 to 1; got {self.floor}.")
        if self.stop_after and not self.stop_at:
            raise ValueError("stop_after counts from where stop_at is reached: set stop_at too.")
        if (self.stop_at or self.keep_on) and not self.eval_every:
            raise ValueError("stop_at and keep_on look at evaluations: set eval_every too.")

    def lr_factor(self, step: int) -> float:
        """Learning rate at ``step`` (from 0), as a fraction of ``lr``."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        if not self.decay:
            return 1.0
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * done))
