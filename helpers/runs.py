"""Train many seeds and settings side by side; results are kept and never computed twice.

Runs are independent, so they go through joblib: one process a run, one thread each, which uses two
cores as well as anything we measured.  A joblib backend for a cluster takes over without a change
here: pass ``n_jobs=-1`` inside ``joblib.parallel_config("dask")``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from tqdm import tqdm

from helpers import cache, models, training
from helpers.models import ModelConfig
from helpers.tasks import hmm, markov
from helpers.tasks.hmm import HiddenMarkov, from_spec
from helpers.tasks.markov import Chain
from helpers.training import TrainConfig, Trained, train


@cache.cached(uses=(training, models, markov, hmm), packages=("torch", "numpy"))
def _stored_run(source: dict, model: dict, config: dict, seed: int) -> dict:
    """A training run as flat arrays, which is what the cache keeps."""
    config = {**config, "betas": tuple(config["betas"]), "keep_at": tuple(config["keep_at"])}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # one thread a run, so that results do not depend on the machine
    try:
        run = train(from_spec(source), ModelConfig(**model), TrainConfig(**config), seed)
    finally:
        torch.set_num_threads(threads)
    flat = {f"state/{name}": value for name, value in run.state.items()}
    for step, state in run.kept.items():
        flat |= {f"kept/{step}/{name}": value for name, value in state.items()}
    return {**flat, "loss": run.loss}


def _unflatten(seed: int, flat: dict) -> Trained:
    state, kept = {}, {}
    for name, value in flat.items():
        group, _, rest = name.partition("/")
        if group == "state":
            state[rest] = torch.as_tensor(value)
        elif group == "kept":
            step, _, parameter = rest.partition("/")
            kept.setdefault(int(step), {})[parameter] = torch.as_tensor(value)
    return Trained(seed, state, kept, np.asarray(flat["loss"]))


@dataclass(frozen=True)
class Run:
    """What to train: a source, a model, a recipe, a seed."""

    source: Chain | HiddenMarkov
    model: ModelConfig
    config: TrainConfig
    seed: int


def available_cores() -> int:
    """Cores this process may use: ``BOOK_CORES`` if the book's runner set it, else all."""
    return int(os.environ.get("BOOK_CORES") or os.cpu_count() or 1)


def _start(runs: Sequence[Run], n_jobs: int) -> Iterator[Trained]:
    """Start every run in worker processes; the results come in order, each when it is asked for."""
    jobs = (
        delayed(_stored_run)(
            run.source.spec(),
            asdict(run.model),
            {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(run.config).items()},
            run.seed,
        )
        for run in runs
    )
    found = Parallel(n_jobs=n_jobs, return_as="generator", batch_size=1)(jobs)
    return (_unflatten(run.seed, flat) for run, flat in zip(runs, found, strict=True))


class Groups:
    """Named groups of runs that train in the background, in the order of the groups.

    ``groups["name"]`` waits until that group is done.  Finished runs come from the cache, and an
    interrupted training keeps what is done.
    """

    def __init__(self, groups: Mapping[str, Sequence[Run]], n_jobs: int, label: str) -> None:
        self._sizes = {name: len(runs) for name, runs in groups.items()}
        self._done: dict[str, list[Trained]] = {}
        self._parallel = n_jobs > 1
        runs = [run for group in groups.values() for run in group]
        # A bar is for a person who waits; under the book's runner it would end up on the page.
        quiet = "BOOK_RECORDS" in os.environ
        self._results = iter(tqdm(_start(runs, n_jobs), label, total=len(runs), disable=quiet))

    def __getitem__(self, name: str) -> list[Trained]:
        if name not in self._sizes:
            raise KeyError(f"no group {name!r}; there are {', '.join(map(repr, self._sizes))}.")
        for group, size in self._sizes.items():
            if name in self._done:
                break
            if group not in self._done:
                self._done[group] = [next(self._results) for _ in range(size)]
        if len(self._done) == len(self._sizes) and self._parallel:
            get_reusable_executor().shutdown(wait=False)  # idle workers would keep their memory
            self._parallel = False
        return self._done[name]


def train_groups(
    groups: Mapping[str, Sequence[Run]], *, n_jobs: int | None = None, label: str = "training"
) -> Groups:
    """Start training and return at once; see :class:`Groups`.  Put what you need first first.

    One set of groups at a time: use the last of one before you start another.
    """
    return Groups(groups, n_jobs or available_cores(), label)


def train_all(
    runs: Sequence[Run], *, n_jobs: int | None = None, label: str = "training"
) -> list[Trained]:
    """Train every run and wait for all of them; the results have the order of ``runs``."""
    return train_groups({"all": runs}, n_jobs=n_jobs, label=label)["all"]
