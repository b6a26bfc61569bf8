"""The book's one training loop."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from helpers.models import ModelConfig
from helpers.tasks.hmm import HiddenMarkov
from helpers.tasks.markov import Chain
from helpers.training.config import TrainConfig
from helpers.training.journal import Journal
from helpers.training.next_token import NextToken
from helpers.training.protocols import Learner, Position, Stream, Task
from helpers.training.resume import Snapshots

LOOK_EVERY = 50  # steps between two looks at the losses: is any not finite?


@dataclass(frozen=True)
class Trained:
    """One finished run.  Steps count from the very first one, also in a run that went on.

    Args:
        seed: the run's seed.
        state: final weights.
        kept: kept weights by step.
        loss: training loss of each step after ``start``, in nats.
        history: ``"step"`` and every metric at the evaluations, as arrays of one length.
        start: the step that it set out from; 0 unless it went on from another run.
        stopped_at: the step that it ended after.
        reached: whether ``TrainConfig.stop_at`` was met.
        final: where another run can go on; results from :mod:`helpers.runs` leave it in the cache.
    """

    seed: int
    state: dict[str, Tensor]
    kept: dict[int, dict[str, Tensor]]
    loss: np.ndarray
    history: dict[str, np.ndarray] = field(default_factory=dict)
    start: int = 0
    stopped_at: int = 0
    reached: bool = False
    final: Position | None = None


def train(
    source: Chain | HiddenMarkov | Task,
    model: ModelConfig,
    config: TrainConfig,
    seed: int,
    *,
    start: Position | None = None,
    frozen: dict[str, Tensor] | None = None,
    snapshots: Snapshots | None = None,
    progress: bool = True,
) -> Trained:
    """Train one seed; a bare source stands for next-token prediction on it.

    Args:
        source: what to learn.
        model: the model's sizes.
        config: the recipe.
        seed: decides weights, data, order and dropout.
        start: where another run of this source, model and seed ended, to go on from there.
        frozen: weights that the run takes and never changes, for a learner with ``freeze``.
        snapshots: where to leave snapshots, and to take up the run if there is one.
        progress: show a bar; never under the book's runner, where it would stand on the page.

    Raises:
        ValueError: task, model and recipe do not fit.
        FloatingPointError: the loss is not finite; says at which step, and what to change.
    """
    task = NextToken(source) if isinstance(source, Chain | HiddenMarkov) else source
    torch.manual_seed(seed)  # dropout draws from the global generator
    learner, stream = task.learner(model, config, seed), task.batches(model, config, seed)
    if frozen:
        learner.freeze(frozen)
    journal = Journal(start.step if start else 0)
    found = snapshots.read() if snapshots else None
    if found:
        values, kept = found
        journal = Journal.from_values(values["journal"], kept)
        start = Position(**values["position"])
    if start:
        _go_to(start, learner, stream)
    if config.eval_every and not found:
        journal.evaluated(task.evaluate(learner), learner, config)
    with _bar(journal, config, seed, progress) as bar:
        while journal.done < journal.end(config):
            lr = config.lr * config.lr_factor(journal.done)
            journal.recent.append(learner.step(next(stream), lr))
            journal.done += 1
            if journal.done in config.keep_at:
                journal.keep(learner)
            if _evaluation_due(journal, config):
                journal.settle(seed, config)
                journal.evaluated(task.evaluate(learner), learner, config)
                _say(bar, journal)
            elif journal.done % LOOK_EVERY == 1:
                journal.settle(seed, config)
                _say(bar, journal)
            if snapshots and snapshots.due():
                journal.settle(seed, config)
                position = _here(journal, learner, stream)
                values = {"journal": journal.values(), "position": vars(position)}
                snapshots.write(values, journal.kept)
            bar.update()
    journal.settle(seed, config)
    weights = learner.weights()
    if not all(value.isfinite().all() for value in weights.values()):
        raise FloatingPointError(  # the last step's loss was still that of the weights before it
            f"seed {seed} diverged at its last step, {journal.start + journal.done}; lower lr = "
            f"{config.lr} or lengthen the warm-up."
        )
    return Trained(
        seed,
        weights,
        journal.kept,
        np.array(journal.loss, dtype=np.float32),
        {name: np.array(values) for name, values in journal.history.items()},
        journal.start,
        journal.start + journal.done,
        journal.reached is not None,
        _here(journal, learner, stream),
    )


def _evaluation_due(journal: Journal, config: TrainConfig) -> bool:
    if not config.eval_every:
        return False
    return journal.done % config.eval_every == 0 or journal.done == journal.end(config)


def _here(journal: Journal, learner: Learner, stream: Stream) -> Position:
    rng = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        rng["cuda"] = torch.cuda.get_rng_state()
    return Position(journal.start + journal.done, learner.state(), stream.state(), rng)


def _go_to(position: Position, learner: Learner, stream: Stream) -> None:
    learner.load(position.learner)
    stream.load(position.stream)
    torch.set_rng_state(position.rng["cpu"])
    if "cuda" in position.rng and torch.cuda.is_available():
        torch.cuda.set_rng_state(position.rng["cuda"])


def _bar(journal: Journal, config: TrainConfig, seed: int, progress: bool) -> tqdm:
    quiet = not progress or "BOOK_RECORDS" in os.environ
    return tqdm(total=config.steps, initial=journal.done, desc=f"seed {seed}", disable=quiet)


def _say(bar: tqdm, journal: Journal) -> None:
    """Put the newest loss and accuracies behind the bar."""
    if bar.disable:
        return
    said = [f"loss {journal.loss[-1]:.3g}"] if journal.loss else []
    for name, values in journal.history.items():
        if name.endswith("_accuracy"):
            said.append(f"{name.removesuffix('_accuracy')} {values[-1]:.3f}")
    bar.set_postfix_str(", ".join(said), refresh=False)
