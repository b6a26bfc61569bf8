"""Trainings that are kept: each is computed once, and goes on from a snapshot if it was killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch

from helpers import cache, fast, models, training
from helpers.dyck import model as dyck_model
from helpers.dyck import training as dyck_training
from helpers.models import ModelConfig
from helpers.neox import model as neox_model
from helpers.neox import text as neox_text
from helpers.neox import training as neox_training
from helpers.tasks import addition, dyck, hmm, markov, prose, streams
from helpers.tasks.hmm import HiddenMarkov
from helpers.tasks.markov import Chain
from helpers.training import Position, Task, TrainConfig, train
from helpers.training.resume import Snapshots, alone


def _train(
    source: dict,
    model: dict,
    config: dict,
    seed: int,
    parent: dict | None,
    donor: dict | None = None,
) -> dict:
    """A training run, as the cache keeps it."""
    run = {"source": source, "model": model, "config": config, "seed": seed, "parent": parent}
    task, frozen = KINDS[source["kind"]].from_spec(source), None
    if donor:
        run["donor"], given = donor, finish(donor)["state"]
        frozen = {name: given[name] for name in task.donated}
    start = Position(**finish(parent)["final"]) if parent else None
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # one thread a run, so that results do not depend on the machine
    try:
        done = train(
            task,
            ModelConfig(**model),
            TrainConfig(**config),
            seed,
            start=start,
            frozen=frozen,
            snapshots=Snapshots(_snapshot_folder(run)),
            progress=False,
        )
    finally:
        torch.set_num_threads(threads)
    kept = {str(step): weights for step, weights in done.kept.items()}
    return {**vars(done), "kept": kept, "final": vars(done.final)}


class Kind:
    """One kind of task: how a spec becomes a task again, and which code decides its runs.

    A change in ``uses``, in the trainer or in the models trains these runs anew, and no others.
    """

    def __init__(
        self, from_spec: Callable[[dict], Chain | HiddenMarkov | Task], *uses: ModuleType
    ) -> None:
        self.from_spec = from_spec
        deciding = (training, models, streams, *uses)
        self.stored = cache.cached(uses=deciding, packages=("torch", "numpy", "numba"))(_train)


KINDS = {
    "chain": Kind(hmm.from_spec, markov, hmm),
    "hmm": Kind(hmm.from_spec, markov, hmm),
    "addition": Kind(addition.from_spec, addition, fast),
    "dyck": Kind(dyck_training.from_spec, dyck_training, dyck, dyck_model, fast),
    "prose": Kind(neox_training.from_spec, neox_training, neox_text, neox_model, prose),
}


def _snapshot_folder(run: dict) -> Path:
    key = KINDS[run["source"]["kind"]].stored.entry(**run).name
    return cache.cache_folder() / ".snapshots" / key


def finish(run: dict) -> dict:
    """A run's result: from the cache, or trained, from its snapshot on where there is one.

    A process that wants a run which another one is training waits for it.
    """
    stored, folder = KINDS[run["source"]["kind"]].stored, _snapshot_folder(run)
    if stored.entry(**run).exists():
        return stored(**run)
    with alone(folder.with_suffix(".lock")):
        try:
            result = stored(**run)
        except FloatingPointError:  # it would diverge again
            Snapshots(folder).remove()
            raise
        Snapshots(folder).remove()
        return result


def finish_in_worker(run: dict) -> dict:
    """The result without its end: memory for what only a branch needs, and finds in the cache."""
    return {**finish(run), "final": None}
