"""The bracket task as the trainer sees it: fresh rows, the fast step, three accuracies."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from helpers.dyck.model import FRAMES, N_LOGITS, OUTPUTS, DyckTransformer
from helpers.fast import ragged_kernels
from helpers.fast.adamw import AdamW
from helpers.fast.ragged import Ragged, Tokens
from helpers.models import ModelConfig
from helpers.tasks import dyck
from helpers.training import TrainConfig

BOUNDARY = ("tok_embed.weight", "head.weight")  # what a donor gives
ENDS = np.array([part.start for part in OUTPUTS.values()] + [N_LOGITS])
BLOCK = 1024  # rows that are drawn at a time: drawing fewer costs more a row


class Batch(NamedTuple):
    """Rows without their padding, and the right answers of copy, depth and sticky."""

    tokens: Tokens
    answers: Int[np.ndarray, "n 3"]

    @staticmethod
    def of(rows: Int[np.ndarray, "sequences pos"], labels: dyck.Labels, part: slice) -> Batch:
        """The part of these rows."""
        mask = labels.mask[part]
        answers = [getattr(labels, name)[part][mask] for name in OUTPUTS]
        return Batch(Tokens.of(rows[part], mask), np.stack(answers, 1))


@dataclass(frozen=True)
class Dyck:
    """Copy, depth and sticky flag of :func:`helpers.tasks.dyck.train_rows`.

    Batches are of :func:`helpers.tasks.dyck.thinned_rows`, which holds as much at half the cost.
    The loss is the sum of the three mean cross-entropies over the real positions.  Evaluation takes
    ``n_eval`` whole rows of ``train_rows``, which the seed draws apart from those that train.

    Args:
        position_frame: where positions are written: see :func:`helpers.dyck.position_frame`.
        n_eval: rows to evaluate on.

    Raises:
        ValueError: an unknown frame, or no row to evaluate on.
    """

    position_frame: str = "shared"
    n_eval: int = 2048

    def __post_init__(self) -> None:
        if self.position_frame not in FRAMES or self.n_eval < 1:
            raise ValueError(
                f"position_frame is one of {', '.join(FRAMES)}, and n_eval 1 or more; got "
                f"{self.position_frame!r} and {self.n_eval}."
            )

    @property
    def donated(self) -> tuple[str, ...]:
        """The weights that a run takes over from its donor and never changes."""
        return BOUNDARY

    def spec(self) -> dict[str, Any]:
        """The task as plain values."""
        return {"kind": "dyck", **asdict(self)}

    def learner(self, model: ModelConfig, config: TrainConfig, seed: int) -> DyckLearner:
        """A model at its start, with its rows to evaluate on.

        Raises:
            ValueError: a model that the task does not fit, dropout, or another device.
        """
        if model.n_ctx != dyck.N_CTX:
            raise ValueError(f"rows have {dyck.N_CTX} places; the model's n_ctx is {model.n_ctx}.")
        if config.dropout or config.device != "cpu":
            raise ValueError(
                "the fast step has no dropout and works on the CPU: leave dropout at 0 and device "
                "at 'cpu'."
            )
        return DyckLearner(self, model, config, seed)

    def batches(self, model: ModelConfig, config: TrainConfig, seed: int) -> RowStream:
        """Fresh rows without end.

        Raises:
            ValueError: the recipe asks for a fixed set.
        """
        if config.n_sequences:
            raise ValueError("this task draws fresh rows: leave n_sequences at 0.")
        return RowStream(config.batch_size, seed)

    def evaluate(self, learner: DyckLearner) -> dict[str, float]:
        """Accuracy over real positions of every output, and the least of the three."""
        right = np.concatenate([learner.right(batch) for batch in learner.held_out]).mean(axis=0)
        named = {f"{name}_accuracy": float(r) for name, r in zip(OUTPUTS, right, strict=True)}
        return {**named, "least_accuracy": float(right.min())}


class DyckLearner:
    """The fast passes with AdamW.  Every parameter decays, gains included."""

    def __init__(self, task: Dyck, model: ModelConfig, config: TrainConfig, seed: int) -> None:
        module = DyckTransformer(model, seed, task.position_frame)
        self.config, self.n_heads, self.features = config, model.n_heads, module.features
        self._start(module.state_dict(), ())
        rows = dyck.train_rows(np.random.default_rng([seed, 2]), task.n_eval)
        labels, size = dyck.label(rows), config.batch_size
        self.held_out = [
            Batch.of(rows, labels, slice(i, i + size)) for i in range(0, task.n_eval, size)
        ]

    def _start(self, state: dict[str, Tensor], frozen: tuple[str, ...]) -> None:
        self.net = Ragged(state, self.n_heads, self.features, last=frozen)
        n = sum(v.numel() for name, v in self.net.values.items() if name not in frozen)
        self._grad = self.net.grad[:n]
        how = (self.config.betas, self.config.eps, self.config.weight_decay)
        self.optimizer = AdamW(self.net.flat[:n], self._grad, *how)

    def freeze(self, given: dict[str, Tensor]) -> None:
        """Take these weights, and leave them as they are in every step.

        Raises:
            ValueError: steps were taken already, or a weight that the model does not have.
        """
        state = self.net.weights()
        wrong = [n for n, v in given.items() if n not in state or v.shape != state[n].shape]
        if self.optimizer.steps or wrong:
            raise ValueError(
                f"{wrong[0]} {tuple(given[wrong[0]].shape)} is no weight of this model."
                if wrong
                else "freeze weights before the first step: their moments are no longer zero."
            )
        self._start({**state, **given}, tuple(given))

    def step(self, batch: Batch, lr: float) -> Tensor:
        """One step; the loss before it, in nats."""
        logits = self.net.forward(batch.tokens)
        loss = ragged_kernels.cross_entropies(logits, batch.answers, ENDS)
        self.net.backward(logits)
        if self.config.clip:
            self._grad.mul_((self.config.clip / (self._grad.norm() + 1e-6)).clamp(max=1.0))
        self.optimizer.step(lr)
        return torch.tensor(loss, dtype=torch.float32)

    def right(self, batch: Batch) -> np.ndarray:
        """Which answers are right, (n, 3) of bool."""
        logits = self.net.forward(batch.tokens)
        found = [logits[:, part].argmax(axis=1) for part in OUTPUTS.values()]
        return np.stack(found, axis=1) == batch.answers

    def weights(self) -> dict[str, Tensor]:
        """Copies of the weights under ``DyckTransformer``'s names."""
        return self.net.weights()

    def state(self) -> dict[str, Tensor]:
        """All that a later start needs to go on with the same numbers."""
        return {"flat": self.net.flat.clone(), **self.optimizer.state()}

    def load(self, state: dict[str, Tensor]) -> None:
        """Go on from :meth:`state`.

        Raises:
            ValueError: the state belongs to a model of another size, or with other weights frozen.
        """
        moments = state.get("exp_avg", self._grad)
        if state["flat"].shape != self.net.flat.shape or moments.shape != self._grad.shape:
            raise ValueError(
                f"this state has {len(state['flat'])} parameters and {len(moments)} moments, the "
                f"model {len(self.net.flat)} and {len(self._grad)}; start from a run of the same "
                "model with the same weights frozen."
            )
        self.net.flat.copy_(state["flat"])
        self.optimizer.load(state)


class RowStream:
    """Batches of fresh rows, drawn a block at a time.

    The stream depends on ``batch_size`` and seed alone.
    """

    def __init__(self, batch_size: int, seed: int) -> None:
        self.size, self.block = batch_size, -(-BLOCK // batch_size) * batch_size
        self.rng = np.random.default_rng([seed, 1])
        self._draw()

    def _draw(self, done: int = 0) -> None:
        self.before, self.done = self.rng.bit_generator.state, done
        self.rows = dyck.thinned_rows(self.rng, self.block)
        self.labels = dyck.label(self.rows)

    def __next__(self) -> Batch:
        if self.done == self.block:
            self._draw()
        part = slice(self.done, self.done + self.size)
        self.done += self.size
        return Batch.of(self.rows, self.labels, part)

    def state(self) -> dict[str, Any]:
        """The position: the generator before this block, and how many of its rows are done."""
        return {"rng": self.before, "done": self.done}

    def load(self, state: dict[str, Any]) -> None:
        """Go to a position."""
        self.rng.bit_generator.state = state["rng"]
        self._draw(state["done"])


def from_spec(spec: dict[str, Any]) -> Dyck:
    """Rebuild a task from :meth:`Dyck.spec`."""
    return Dyck(**{name: value for name, value in spec.items() if name != "kind"})
