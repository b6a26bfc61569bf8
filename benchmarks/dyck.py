"""Cost of a sequence in the bracket model's training, our step against the plain loop.

All train one model (104,448 parameters, three outputs at every position) with AdamW, in one process
with one thread, and draw and label their rows in the time that is counted:

plain    the lean module, autograd, batches of 512 rows of 64 with their padding, fused AdamW
ours     helpers.fast's passes over the same rows without padding, in the book's small batches
book     the same with the rows that the book trains on, which end behind their first error

plain / ours is what the implementation gains on one and the same distribution; the goal is about
it.  ours / book is what thinning the rows gains.  Before they are timed, both sides are given the
same weights, and their logits compared at every real position.  As many sequences of each are
timed in turn; ratios are taken between neighbours, so that a slow moment of the machine hits all.
"""

from __future__ import annotations

import argparse
import os
import platform
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.pairs import timed
from benchmarks.report import finish, one_thread, shortfalls
from helpers.dyck import SMALL, DyckTransformer
from helpers.dyck.model import OUTPUTS
from helpers.dyck.training import Batch, Dyck, DyckLearner
from helpers.tasks import dyck
from helpers.training import TrainConfig

ROOT = Path(__file__).resolve().parents[1]
GOAL = 2.0
SEED = 100  # nothing published is measured here
PLAIN_BATCH = 512
IGNORED = -100  # an answer that counts for nothing, for PyTorch
RECIPE = TrainConfig(batch_size=32, lr=8e-3, weight_decay=1e-4, betas=(0.9, 0.95), clip=0.5)


class PlainLoop:
    """Rows of 64 with their padding, autograd, AdamW."""

    def __init__(self, weights: dict[str, torch.Tensor]) -> None:
        self.module = DyckTransformer(SMALL, SEED)
        self.module.load_state_dict(weights)
        how = (RECIPE.lr, RECIPE.betas, RECIPE.eps, RECIPE.weight_decay)
        self.optimizer = torch.optim.AdamW(self.module.parameters(), *how, fused=True)
        self.rng = np.random.default_rng([SEED, 1])

    def step(self) -> float:
        """One batch; the loss before it, in nats."""
        rows = dyck.train_rows(self.rng, PLAIN_BATCH)
        labels = dyck.label(rows)
        logits = self.module(torch.from_numpy(rows)).flatten(0, 1)
        loss = torch.zeros(())
        for name, part in OUTPUTS.items():
            answers = np.where(labels.mask, getattr(labels, name), IGNORED)
            loss = loss + F.cross_entropy(
                logits[:, part], torch.from_numpy(answers).flatten(), ignore_index=IGNORED
            )
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())


def difference(module: DyckTransformer, learner: DyckLearner) -> float:
    """Largest difference of two logits over the real positions of 16 rows."""
    rows = dyck.train_rows(np.random.default_rng(SEED), 16)
    labels = dyck.label(rows)
    ours = learner.net.forward(Batch.of(rows, labels, slice(0, 16)).tokens)
    with torch.no_grad():
        wanted = module(torch.from_numpy(rows))[torch.from_numpy(labels.mask)]
    return float(np.abs(ours - wanted.numpy()).max())


def measure(repeats: int, batches: int) -> dict:
    """Time all three ``repeats`` times, ``batches`` plain batches' worth of sequences each."""
    task = Dyck(n_eval=16)
    learner, stream = task.learner(SMALL, RECIPE, SEED), task.batches(SMALL, RECIPE, SEED)
    plain = PlainLoop(learner.weights())
    gap = difference(plain.module, learner)
    sequences, rng = batches * PLAIN_BATCH, np.random.default_rng([SEED, 1])

    def plain_steps() -> None:
        for _ in range(batches):
            plain.step()

    def our_steps() -> None:
        for _ in range(batches):
            rows = dyck.train_rows(rng, PLAIN_BATCH)
            labels = dyck.label(rows)
            for i in range(0, PLAIN_BATCH, RECIPE.batch_size):
                part = slice(i, i + RECIPE.batch_size)
                learner.step(Batch.of(rows, labels, part), RECIPE.lr)

    def book_steps() -> None:
        for _ in range(sequences // RECIPE.batch_size):
            learner.step(next(stream), RECIPE.lr)

    sides = {"plain": plain_steps, "ours": our_steps, "book": book_steps}
    for work in sides.values():  # warm up, not counted
        work()
    rows = [{name: timed(work) for name, work in sides.items()} for _ in range(repeats)]

    def gains(one: str, two: str) -> dict[str, list[float]]:
        return {c: [row[one][c] / row[two][c] for row in rows] for c in ("wall", "cpu")}

    return {
        "goal": GOAL,
        "logit_difference": gap,
        "sequences_a_repeat": sequences,
        "rows": rows,
        "ratios": gains("plain", "ours"),
        "thinning": gains("ours", "book"),
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }


def table(record: dict) -> str:
    """The result for a reader."""

    def line(name: str, values, unit: str) -> str:
        low, mid, high = np.min(values), np.median(values), np.max(values)
        return f"  {name:<40}{mid:9.3f} {unit}  [{low:.3f} … {high:.3f}]"

    n = record["sequences_a_repeat"]
    lines = [
        f"one model, one thread, {len(record['rows'])} paired repeats of {n} sequences: "
        "median [range]",
        f"  largest difference of a logit, same weights: {record['logit_difference']:.1e}",
    ]
    for clock in ("wall", "cpu"):
        lines.append({"wall": "on the wall's clock", "cpu": "in processor time"}[clock])
        for side in ("plain", "ours", "book"):
            cost = [1e3 * row[side][clock] / n for row in record["rows"]]
            lines.append(line(f"{side}, a sequence", cost, "ms"))
        lines.append(line("gain (plain / ours)", record["ratios"][clock], "×"))
        lines.append(line("gain by thinning (ours / book)", record["thinning"][clock], "×"))
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; with ``--check``, return 1 where the goal is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks dyck", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--repeats", type=int, default=9, help="paired repeats")
    parser.add_argument("--batches", type=int, default=4, help="plain batches of 512 a repeat")
    parser.add_argument("--check", action="store_true", help="exit 1 where the goal is missed")
    parser.add_argument("--output", type=Path, default=ROOT / "_build" / "bench" / "dyck.json")
    options = parser.parse_args(arguments)
    if options.repeats < 1 or options.batches < 1:
        parser.error("need at least one repeat and one batch.")
    with one_thread():
        record = measure(options.repeats, options.batches)
    met = f"a sequence costs at most 1/{GOAL:g} of the plain loop's"
    where = {"output": options.output, "check": options.check}
    return finish(record, table(record), shortfalls(record), met, **where)
