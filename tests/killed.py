"""Trainings that are killed: ``python -m tests.killed FOLDER`` leaves what is left of each there.

The process imports once and forks for each training, which kills itself by SIGKILL, at a moment
that no clock decides.  ``FOLDER/log`` tells after which steps snapshots came into place.
"""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import torch

from helpers.dyck.training import Dyck, DyckLearner
from helpers.fast import PairLearner
from helpers.models import ModelConfig
from helpers.runs import Run, train_all
from helpers.tasks.addition import ModularAddition
from helpers.tasks.markov import cyclic
from helpers.training import AutogradLearner, TrainConfig, resume, train
from helpers.training.resume import Snapshots
from tests.toy import Toy, ToyLearner

MODEL = ModelConfig(d_vocab=4, n_ctx=8, d_model=8, n_heads=2, d_mlp=16)
CHAIN = dict(steps=24, batch_size=8, lr=1e-2, warmup=3, keep_at=(4, 9), dropout=0.2)
WATCHED = dict(eval_every=3, keep_on=0.4, stop_at=("test_accuracy", 1.0), stop_after=10)
TASKS = {
    "fresh": (cyclic(), MODEL, TrainConfig(**CHAIN)),
    "fixed": (cyclic(), MODEL, TrainConfig(**CHAIN, n_sequences=20)),
    "toy": (Toy(grok=11), MODEL, TrainConfig(24, 4, **WATCHED)),
    "addition": (
        ModularAddition(7),
        replace(MODEL, d_vocab=7, n_ctx=2),
        TrainConfig(24, 8, lr=1e-2, eval_every=3, keep_on=0.05, keep_at=(4, 9), clip=0.5),
    ),
    "dyck": (
        Dyck(n_eval=4),
        replace(MODEL, d_vocab=40, n_ctx=64, n_heads=1),
        TrainConfig(24, 4, lr=1e-2, eval_every=8, keep_at=(4, 9), clip=0.5, floor=0.02),
    ),
}
# The n-th time: half of a file is written; a file is whole but not in its place; it is just there;
# a step has changed weights and moments.
MOMENTS = [("writing", 4), ("writing", 9), ("replacing", 9), ("replaced", 9), ("stepped", 16)]
RUN = Run(cyclic(), MODEL, TrainConfig(**CHAIN), 3)


class Sometimes(Snapshots):
    """Due after every third step, whatever the clock says."""

    steps = 0

    def due(self) -> bool:
        self.steps += 1
        return self.steps % 3 == 0


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Counter:
    """Counts how often each moment came, and dies at the one that was chosen."""

    def __init__(self, moment: str, number: int, log: Path) -> None:
        self.moment, self.number, self.log = moment, number, log
        self.times = dict.fromkeys(("writing", "replacing", "replaced", "stepped"), 0)

    def now(self, moment: str) -> bool:
        self.times[moment] += 1
        return moment == self.moment and self.times[moment] == self.number

    def watch(self) -> None:
        """Put the counter into files and steps."""
        real_open, real_replace = Path.open, os.replace

        def open_(path, mode="r", *args, **kwargs):
            file = real_open(path, mode, *args, **kwargs)
            if "w" in mode and self.now("writing"):
                return Half(file)
            return file

        def replace(source, target):
            if self.now("replacing"):
                die()
            real_replace(source, target)
            if Path(target).name == "now.safetensors":
                with real_open(self.log, "a") as log:
                    log.write(f"{self.times['stepped']}\n")
            if self.now("replaced"):
                die()

        Path.open, resume.os.replace = open_, replace
        for learner in (AutogradLearner, PairLearner, DyckLearner, ToyLearner):
            learner.step = self.watched(learner.step)

    def watched(self, real_step):
        def step(learner, batch, lr):
            loss = real_step(learner, batch, lr)
            if self.now("stepped"):
                die()
            return loss

        return step


class Half:
    """A file that gets half of what is written to it."""

    def __init__(self, file) -> None:
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None:
        raise AssertionError("it should be dead")

    def write(self, content: bytes) -> None:
        self.file.write(content[: len(content) // 2])
        self.file.flush()
        die()


def through_runs(folder: Path) -> None:
    """The same by way of the cache, where a snapshot is due at every step."""
    os.environ["HELPERS_CACHE"] = str(folder / "cache")
    resume.SNAPSHOT_SECONDS = 0
    train_all([RUN], n_jobs=1)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    train(cyclic(), MODEL, TrainConfig(steps=1), 0, progress=False)  # what loads late, loads once
    for name, (task, model, config) in TASKS.items():
        for moment, number in MOMENTS:
            place = folder / f"{name}-{moment}-{number}"
            place.mkdir()

            def one(task=task, model=model, config=config, place=place):
                train(task, model, config, 3, snapshots=Sometimes(place / "key"), progress=False)

            killed(one, Counter(moment, number, place / "log"))
    (folder / "runs").mkdir()
    killed(lambda: through_runs(folder / "runs"), Counter("stepped", 11, folder / "runs" / "log"))


def killed(work, counter: Counter) -> None:
    child = os.fork()
    if not child:
        try:
            counter.watch()
            work()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
        raise SystemExit(f"{counter.log.parent}: not killed at {counter.moment}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
