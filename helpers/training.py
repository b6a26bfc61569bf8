"""Train one seed of one small transformer on next-token prediction.

A seed fixes everything that is random in a run: the initial weights, the data and their order,
dropout.  :mod:`helpers.runs` trains many, side by side, and keeps the results.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.models import ModelConfig, SmallTransformer
from helpers.tasks.hmm import HiddenMarkov
from helpers.tasks.markov import Chain


@dataclass(frozen=True)
class TrainConfig:
    """How to train: AdamW, linear warm-up, then a cosine to zero.

    ``n_sequences = 0`` draws fresh sequences at every step; otherwise a fixed set of that many
    is shuffled anew each epoch.  ``keep_at`` lists steps after which weights are kept as well.
    """

    steps: int = 400
    batch_size: int = 32
    lr: float = 3e-3
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.98)
    warmup: int = 20
    decay: bool = True
    dropout: float = 0.0
    n_sequences: int = 0
    keep_at: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch_size < 1:
            raise ValueError(
                f"need at least one step and one sequence a batch; got {self.steps} and "
                f"{self.batch_size}."
            )
        if not self.lr > 0:
            raise ValueError(f"lr must be above 0; got {self.lr}.")
        late = [step for step in self.keep_at if not 0 < step <= self.steps]
        if late:
            raise ValueError(f"keep_at must lie in 1…{self.steps}; got {late}.")

    def lr_factor(self, step: int) -> float:
        """Learning rate at ``step`` (from 0), as a fraction of ``lr``."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        if not self.decay:
            return 1.0
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return 0.5 * (1 + math.cos(math.pi * done))


@dataclass(frozen=True)
class Trained:
    """One finished run: final weights, kept weights by step, and the training loss by step."""

    seed: int
    state: dict[str, Tensor]
    kept: dict[int, dict[str, Tensor]]
    loss: np.ndarray


def next_token_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Mean cross-entropy of token t + 1 given the logits at t, in nats."""
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def batches(source: Chain | HiddenMarkov, config: TrainConfig, n_ctx: int, seed: int):
    """Yield ``config.steps`` batches of tokens; the stream depends on ``seed`` alone.

    With a fixed set, what is left of an epoch and fills no batch is left out.
    """
    rng = np.random.default_rng([seed, 1])
    if not config.n_sequences:
        for _ in range(config.steps):
            yield source.sample(rng, config.batch_size, n_ctx)
        return
    if config.n_sequences < config.batch_size:
        raise ValueError(
            f"n_sequences = {config.n_sequences} is less than one batch of {config.batch_size}."
        )
    data, order = source.sample(rng, config.n_sequences, n_ctx), np.empty(0, dtype=int)
    for _ in range(config.steps):
        if len(order) < config.batch_size:
            order = rng.permutation(config.n_sequences)
        yield data[order[: config.batch_size]]
        order = order[config.batch_size :]


def train(
    source: Chain | HiddenMarkov, model: ModelConfig, config: TrainConfig, seed: int
) -> Trained:
    """Train one seed on next-token prediction.

    Raises:
        ValueError: the model's vocabulary is not the source's.
        FloatingPointError: the loss is not finite; says at which step, and what to change.
    """
    if model.d_vocab != source.d_vocab:
        raise ValueError(f"d_vocab = {model.d_vocab}, but the source has {source.d_vocab} tokens.")
    torch.manual_seed(seed)  # dropout draws from the global generator
    net = SmallTransformer(model, seed, config.dropout).train()
    optimizer = torch.optim.AdamW(
        net.parameters(), config.lr, config.betas, weight_decay=config.weight_decay, fused=True
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, config.lr_factor)
    losses, kept = torch.empty(config.steps), {}
    for step, batch in enumerate(batches(source, config, model.n_ctx, seed)):
        tokens = torch.from_numpy(batch)
        loss = next_token_loss(net(tokens), tokens)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        losses[step] = loss.detach()
        if step + 1 in config.keep_at:
            kept[step + 1] = {k: v.detach().clone() for k, v in net.state_dict().items()}
        if step % 50 == 0 and not math.isfinite(losses[step]):
            break
    if not torch.isfinite(losses[: step + 1]).all():
        bad = int((~torch.isfinite(losses[: step + 1])).nonzero()[0])
        raise FloatingPointError(
            f"seed {seed} diverged at step {bad} of {config.steps}; lower lr = {config.lr} or "
            "lengthen the warm-up."
        )
    state = {k: v.detach().clone() for k, v in net.state_dict().items()}
    return Trained(seed, state, kept, losses.numpy())
