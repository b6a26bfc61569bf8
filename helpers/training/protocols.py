"""What the training loop asks of a task and of what learns it.

The loop knows nothing else, so a new task, or a faster step for an old one, needs no new loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from helpers.models import ModelConfig
from helpers.training.config import TrainConfig


@runtime_checkable
class Learner(Protocol):
    """A model with its optimiser."""

    def step(self, batch: Any, lr: float) -> Tensor:
        """Forward, backward, one step of the optimiser; the loss before it, 0-d and detached."""

    def weights(self) -> dict[str, Tensor]:
        """Copies of the weights on the CPU, named as in ``SmallTransformer.state_dict()``."""

    def state(self) -> dict[str, Tensor]:
        """Copies of all it takes to go on bit for bit: weights, moments, the optimiser's step."""

    def load(self, state: dict[str, Tensor]) -> None:
        """Go to where ``state()`` was taken."""


@runtime_checkable
class Stream(Protocol):
    """Endless batches."""

    def __next__(self) -> Any:
        """The next batch, as the task's learner takes it."""

    def state(self) -> dict[str, Any]:
        """The position: dicts of numbers, text and arrays.  Nothing in it changes later."""

    def load(self, state: dict[str, Any]) -> None:
        """Go to a position."""


@runtime_checkable
class Task(Protocol):
    """What is to be learnt; ``seed`` decides all that is random in a run."""

    def spec(self) -> dict:
        """A JSON-able description, with a ``"kind"``; :mod:`helpers.runs` rebuilds the task."""

    def learner(self, model: ModelConfig, config: TrainConfig, seed: int) -> Learner:
        """A learner at its start."""

    def batches(self, model: ModelConfig, config: TrainConfig, seed: int) -> Stream:
        """The stream of training data at its start."""

    def evaluate(self, learner: Learner) -> dict[str, float]:
        """Metrics such as ``train_accuracy``; draws nothing, and leaves the learner as it is."""


@dataclass(frozen=True)
class Position:
    """A place in a run from which it goes on bit for bit.

    ``rng`` holds the state of torch's global generators, from which dropout draws.
    """

    step: int
    learner: dict[str, Tensor]
    stream: dict[str, Any]
    rng: dict[str, Tensor]
