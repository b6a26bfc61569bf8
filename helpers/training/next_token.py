"""The task of chapter 1: predict the next token of sequences from a known source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor, nn

from helpers.models import ModelConfig, SmallTransformer
from helpers.tasks.hmm import HiddenMarkov
from helpers.tasks.markov import Chain
from helpers.tasks.streams import Shuffled
from helpers.training.autograd import AutogradLearner
from helpers.training.config import TrainConfig


def next_token_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Mean cross-entropy of token t + 1 given the logits at t, in nats."""
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


class Sequences:
    """Batches of token sequences: fresh ones, or those of a fixed set, shuffled each epoch.

    The stream depends on source, ``batch_size``, ``n_sequences``, ``n_ctx`` and seed alone.

    Raises:
        ValueError: a fixed set smaller than one batch.
    """

    def __init__(
        self, source: Chain | HiddenMarkov, config: TrainConfig, n_ctx: int, seed: int
    ) -> None:
        self.source, self.size = source, (config.batch_size, n_ctx)
        self.rng = np.random.default_rng([seed, 1])
        self.rows: Shuffled | None = None
        if not config.n_sequences:
            return
        if config.n_sequences < config.batch_size:
            raise ValueError(
                f"n_sequences = {config.n_sequences} is less than one batch of {config.batch_size}."
            )
        self.data = source.sample(self.rng, config.n_sequences, n_ctx)
        self.rows = Shuffled(config.n_sequences, config.batch_size, self.rng)

    def __next__(self) -> Int[np.ndarray, "batch n_ctx"]:
        if self.rows is None:
            return self.source.sample(self.rng, *self.size)
        return self.data[next(self.rows)]

    def state(self) -> dict[str, Any]:
        """The position."""
        return {"rng": self.rng.bit_generator.state} if self.rows is None else self.rows.state()

    def load(self, state: dict[str, Any]) -> None:
        """Go to a position; a fixed set is the same again, since the seed is."""
        if self.rows is None:
            self.rng.bit_generator.state = state["rng"]
        else:
            self.rows.load(state)


def _loss(net: nn.Module, batch: np.ndarray) -> Tensor:
    tokens = torch.from_numpy(batch).to(net.head.weight.device)
    return next_token_loss(net(tokens), tokens)


@dataclass(frozen=True)
class NextToken:
    """Next-token prediction on ``source``; a :class:`helpers.training.Task`."""

    source: Chain | HiddenMarkov

    def spec(self) -> dict:
        """The source's own."""
        return self.source.spec()

    def learner(self, model: ModelConfig, config: TrainConfig, seed: int) -> AutogradLearner:
        """A small transformer at its start.

        Raises:
            ValueError: the model's vocabulary is not the source's.
        """
        if model.d_vocab != self.source.d_vocab:
            raise ValueError(
                f"d_vocab = {model.d_vocab}, but the source has {self.source.d_vocab} tokens."
            )
        return AutogradLearner(SmallTransformer(model, seed, config.dropout), _loss, config)

    def batches(self, model: ModelConfig, config: TrainConfig, seed: int) -> Sequences:
        """The stream of sequences."""
        return Sequences(self.source, config, model.n_ctx, seed)

    def evaluate(self, learner: AutogradLearner) -> dict[str, float]:
        """Nothing: the loss on fresh sequences says it all."""
        return {}
