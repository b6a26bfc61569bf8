"""Train many seeds and settings side by side; results are kept and never computed twice.

Runs are independent, so they go through joblib: one process a run, one thread each, which uses two
cores as well as anything we measured.  A joblib backend for a cluster takes over without a change
here: pass ``n_jobs=-1`` inside ``joblib.parallel_config("dask")``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
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

    @property
    def cost(self) -> int:
        """A rough count of multiplications, to order runs by length."""
        per_token = (
            self.model.n_layers
            * self.model.d_model
            * (4 * self.model.d_model + 2 * self.model.d_mlp)
        )
        return per_token * self.model.n_ctx * self.config.batch_size * self.config.steps


def available_cores() -> int:
    """Cores this process may use: ``BOOK_CORES`` if the book's runner set it, else all."""
    return int(os.environ.get("BOOK_CORES") or os.cpu_count() or 1)


def train_all(runs: Sequence[Run], *, n_jobs: int | None = None, label: str = "") -> list[Trained]:
    """Train every run, in parallel; finished runs come from the cache.

    The longest runs start first, so that no core waits for one at the end; the results have the
    order of ``runs``.  An interrupted call keeps what is done.
    """
    order = sorted(range(len(runs)), key=lambda k: -runs[k].cost)
    jobs = (
        delayed(_stored_run)(
            run.source.spec(),
            asdict(run.model),
            {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(run.config).items()},
            run.seed,
        )
        for run in (runs[k] for k in order)
    )
    n_jobs = n_jobs or available_cores()
    parallel = Parallel(n_jobs=n_jobs, return_as="generator", batch_size=1)
    # A bar is for a person who waits; under the book's runner it would end up on the page.
    quiet = "BOOK_RECORDS" in os.environ
    finished = tqdm(parallel(jobs), total=len(runs), desc=label or "training", disable=quiet)
    results: list[Trained | None] = [None] * len(runs)
    for k, flat in zip(order, finished, strict=True):
        results[k] = _unflatten(runs[k].seed, flat)
    if n_jobs > 1:
        get_reusable_executor().shutdown(wait=False)  # idle workers would hold on to their memory
    return results


def train_groups(
    groups: Mapping[str, Sequence[Run]], *, n_jobs: int | None = None, label: str = ""
) -> dict[str, list[Trained]]:
    """:func:`train_all` on several named lists of runs at once; results under the same names."""
    done = iter(
        train_all([run for runs in groups.values() for run in runs], n_jobs=n_jobs, label=label)
    )
    return {name: [next(done) for _ in runs] for name, runs in groups.items()}
