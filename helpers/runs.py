"""Train many seeds and settings side by side; results are kept and never computed twice.

Runs are independent, so they go through joblib: one process a run, one thread each, which uses two
cores as well as anything we measured.  A joblib backend for a cluster takes over without a change
here: pass ``n_jobs=-1`` inside ``joblib.parallel_config("dask")``.

A run that was killed goes on from its last snapshot (:mod:`helpers.training.resume`).
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from tqdm import tqdm

from helpers.models import ModelConfig
from helpers.more_kinds import KINDS, finish_in_worker
from helpers.tasks.hmm import HiddenMarkov
from helpers.tasks.markov import Chain
from helpers.training import Task, TrainConfig, Trained


@dataclass(frozen=True)
class Run:
    """What to train: a task, a model, a recipe, a seed.

    A bare source stands for next-token prediction on it.  With a ``parent`` the run goes on from
    that run's end, with its weights, moments and place in the data; the parent is trained first
    where the cache does not have it.  Steps of the recipe count from there, steps of the result
    from the parent's first.  With a ``donor`` the run takes that run's final weights under the
    names in its task's ``donated``, and never changes them; the donor is trained first as well.

    Raises:
        ValueError: a kind of task that :data:`KINDS` lacks, a negative seed, a parent with
            another task, model, seed, set of sequences or donor, or a donor with another task or
            model, or whose task donates nothing.
    """

    source: Chain | HiddenMarkov | Task
    model: ModelConfig
    config: TrainConfig
    seed: int
    parent: Run | None = None
    donor: Run | None = None

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"a seed is a whole number from 0 on; got {self.seed}.")
        # numpy's integers would have a key of their own in the cache, and torch takes none
        object.__setattr__(self, "seed", operator.index(self.seed))
        kind = self.source.spec()["kind"]
        if kind not in KINDS:
            raise ValueError(f"unknown kind of task {kind!r}; known: {', '.join(KINDS)}.")
        if self.donor and not getattr(self.source, "donated", ()):
            raise ValueError(f"the task {kind!r} donates no weights: leave donor at None.")
        if self.donor and _learns(self.donor) != _learns(self):
            raise ValueError(
                "a donor must have learnt the same task with a model of the same sizes."
            )
        mine, parents = _inherited(self), _inherited(self.parent or self)
        for name, value in mine.items():
            if value != parents[name]:
                raise ValueError(
                    f"a run keeps its parent's {name}: {parents[name]}, and not {value}."
                )


def _learns(run: Run) -> dict[str, object]:
    return {"task": run.source.spec(), "model": run.model}


def _inherited(run: Run) -> dict[str, object]:
    return {
        **_learns(run),
        "n_sequences": run.config.n_sequences,
        "seed": run.seed,
        "donor": run.donor,
    }


def _arguments(run: Run) -> dict:
    """A run in plain types, as the cache's key wants it."""
    arguments = {
        "source": run.source.spec(),
        "model": asdict(run.model),
        "config": asdict(run.config),
        "seed": run.seed,
        "parent": _arguments(run.parent) if run.parent else None,
    }
    if run.donor:
        arguments["donor"] = _arguments(run.donor)
    return arguments


def _trained(result: dict) -> Trained:
    return Trained(**{**result, "kept": {int(k): v for k, v in result["kept"].items()}})


def available_cores() -> int:
    """Cores this process may use: ``BOOK_CORES`` if the book's runner set it, else all."""
    return int(os.environ.get("BOOK_CORES") or os.cpu_count() or 1)


def _start(runs: Sequence[Run], n_jobs: int) -> Iterator[Trained]:
    """Start every run in worker processes; the results come in order, each when it is asked for."""
    jobs = (delayed(finish_in_worker)(_arguments(run)) for run in runs)
    return map(_trained, Parallel(n_jobs=n_jobs, return_as="generator", batch_size=1)(jobs))


class Groups:
    """Named groups of runs that train in the background, in the order of the groups.

    ``groups["name"]`` waits until that group is done.  Finished runs come from the cache, and an
    interrupted training keeps what is done.  An error in one run ends them all: start them
    again without it.
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
                self._done[group] = self._next(size, name)
        if len(self._done) == len(self._sizes) and self._parallel:
            get_reusable_executor().shutdown(wait=False)  # idle workers would keep their memory
            self._parallel = False
        return self._done[name]

    def _next(self, size: int, name: str) -> list[Trained]:
        """The next ``size`` results.  After an error there are none: what is half fetched would
        else be handed out under the next group's name."""
        try:
            return [next(self._results) for _ in range(size)]
        except StopIteration:
            raise RuntimeError(
                f"group {name!r} was not trained: an earlier error, or an interruption, ended all "
                "of these runs. Start them again; those that were done come from the cache."
            ) from None
        except BaseException:
            self._results = iter(())
            raise


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
