"""Time to chapter 1's result, our trainer against the plain baseline.

Three things are timed in turn, again and again, in one process with one thread:

baseline   the plain loop on the paper's schedule (benchmarks/baseline.py)
same       our trainer on the baseline's schedule: as many steps, as large a batch
ours       our trainer on the book's schedule

baseline / same is what the implementation gains, same / ours what the schedule gains; their product
is the whole gain.  Ratios are taken within a repeat, so that a slow moment of the machine hits both
sides, on two clocks: the wall's, and the processor's, which with one thread is the same on an idle
machine and does not count other programs' turns on a busy one.  The goal has to be met on both.
A second, stricter race (benchmarks/earliest.py) stops each side as soon as it has the result.
Seeds are 100 and up: nothing published is measured here.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from benchmarks import baseline, earliest, outcome
from benchmarks.baseline import BATCH, EPOCHS, LENGTH, LR, N_SEQUENCES, STEPS_PER_EPOCH, Baseline
from benchmarks.report import finish, one_thread
from helpers.models import ModelConfig, unembed_input
from helpers.tasks.markov import cyclic
from helpers.training import TrainConfig, train

ROOT = Path(__file__).resolve().parents[1]
GOAL = 8.0
WHOLE = "whole (baseline / ours)"
CLOCKS = {"wall": "seconds on the wall's clock", "cpu": "seconds of processor time"}
FIRST_SEED = 100
CHAIN = cyclic()
MODEL = ModelConfig(
    d_vocab=4,
    n_ctx=LENGTH,
    d_model=baseline.D_MODEL,
    n_heads=baseline.N_HEADS,
    d_mlp=baseline.D_MLP,
)
BOOK = TrainConfig(  # chapter 1, laptop profile
    steps=700, batch_size=16, lr=1e-2, betas=(0.9, 0.98), weight_decay=0.01, warmup=20
)


def same_schedule(epochs: int) -> TrainConfig:
    """Our trainer's settings for ``epochs`` of the baseline's schedule."""
    return TrainConfig(
        steps=epochs * STEPS_PER_EPOCH,
        batch_size=BATCH,
        lr=LR,
        betas=(0.9, 0.999),
        weight_decay=0.01,
        warmup=0,
        decay=False,
        dropout=baseline.DROPOUT,
        n_sequences=N_SEQUENCES,
    )


def timed(work: Callable[[], object]) -> tuple[float, float, object]:
    """Wall-clock seconds, processor seconds, and what ``work`` returned."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - wall, time.process_time() - cpu, result


def one_repeat(seed: int, epochs: int, book: TrainConfig) -> dict:
    """Time the three on one seed; what covers ``epochs`` of 40 is scaled up to all of them."""
    scale = EPOCHS / epochs
    make_wall, make_cpu, plain = timed(lambda: Baseline(CHAIN, seed))
    run_wall, run_cpu, _ = timed(lambda: plain.run(epochs))
    same_wall, same_cpu, _ = timed(
        lambda: train(CHAIN, MODEL, same_schedule(epochs), seed, progress=False)
    )
    ours_wall, ours_cpu, run = timed(lambda: train(CHAIN, MODEL, book, seed, progress=False))
    tokens = CHAIN.sample(np.random.default_rng([seed, 2]), 2000, LENGTH)
    with torch.no_grad():
        inputs = torch.from_numpy(tokens)
        hidden = unembed_input(MODEL, run.state, inputs)
        reached = outcome.measure(hidden, run.state["head.weight"], tokens, CHAIN)
        theirs = None
        if epochs == EPOCHS:  # only a whole run has a result
            hidden = plain.model.eval().hidden(inputs)
            theirs = asdict(outcome.measure(hidden, plain.model.head.weight, tokens, CHAIN))
    return {
        "seed": seed,
        "baseline": {"wall": make_wall + scale * run_wall, "cpu": make_cpu + scale * run_cpu},
        "same": {"wall": scale * same_wall, "cpu": scale * same_cpu},
        "ours": {"wall": ours_wall, "cpu": ours_cpu},
        "outcome": asdict(reached),
        "baseline_outcome": theirs,
    }


def ratios(repeats: list[dict], clock: str) -> dict[str, list[float]]:
    """The three gains of every repeat."""
    seconds = {k: np.array([r[k][clock] for r in repeats]) for k in ("baseline", "same", "ours")}
    return {
        "implementation (baseline / same)": (seconds["baseline"] / seconds["same"]).tolist(),
        "schedule (same / ours)": (seconds["same"] / seconds["ours"]).tolist(),
        WHOLE: (seconds["baseline"] / seconds["ours"]).tolist(),
    }


def table(repeats: list[dict], epochs: int, book: TrainConfig) -> str:
    """The result for a reader: medians, and the range over repeats in brackets."""

    def line(name: str, values, unit: str = "") -> str:
        low, mid, high = np.min(values), np.median(values), np.max(values)
        return f"{name:<52}{mid:9.3f}{unit}  [{low:.3f} … {high:.3f}]"

    steps = EPOCHS * STEPS_PER_EPOCH
    how = "timed whole" if epochs == EPOCHS else f"{epochs} epochs timed, × {EPOCHS / epochs:g}"
    what = {
        "baseline": f"baseline, {steps} steps of {BATCH} ({how})",
        "same": f"same schedule, our trainer ({how})",
        "ours": f"ours, {book.steps} steps of {book.batch_size} (timed whole)",
    }
    lines = [f"one model, one thread, {len(repeats)} paired repeats: median [range]"]
    for clock, title in CLOCKS.items():
        lines.append(title)
        lines += [
            line("  " + text, [r[k][clock] for r in repeats], " s") for k, text in what.items()
        ]
        gains = ratios(repeats, clock).items()
        lines += [line("  gain: " + name, values, " ×") for name, values in gains]
    for key, name in (("outcome", "ours"), ("baseline_outcome", "baseline")):
        found = [r[key] for r in repeats if r[key]]
        if found:
            lines.append(
                f"{name} reaches (eigenvalues over the chain's), seeds {FIRST_SEED} and up"
            )
            lines += [line(f"  {part}", [f[part] for f in found]) for part in found[0]]
            lines.append(line("  keep − base", [f["keep"] - f["base"] for f in found]))
    return "\n".join(lines)


def shortfalls(record: dict) -> list[str]:
    """What keeps this record from meeting the goal: the speed, or a result not reached."""
    missing = [f"{name} does not hold" for name, holds in record["reached"].items() if not holds]
    for clock, title in CLOCKS.items():
        whole = float(np.median(record["ratios"][clock][WHOLE]))
        if whole < record["goal"]:
            missing.append(f"the gain in {title} is {whole:.2f}, below {record['goal']:g}")
    return missing


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; with ``--check``, return 1 where the goal is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--repeats", type=int, default=5, help="paired repeats, a seed each")
    parser.add_argument("--epochs", type=int, default=2, help="epochs timed of the baseline's 40")
    parser.add_argument("--whole", action="store_true", help="time all 40 epochs")
    parser.add_argument("--steps", type=int, default=BOOK.steps, help="steps of our own schedule")
    parser.add_argument(
        "--earliest",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="run the stricter race as well",
    )
    parser.add_argument("--check", action="store_true", help="exit 1 where the goal is missed")
    parser.add_argument("--output", type=Path, default=ROOT / "_build" / "bench" / "markov.json")
    options = parser.parse_args(arguments)
    if options.repeats < 1 or not 1 <= options.epochs <= EPOCHS:
        parser.error(f"need at least one repeat, and 1 to {EPOCHS} epochs.")
    epochs = EPOCHS if options.whole else options.epochs
    book = TrainConfig(**{**asdict(BOOK), "steps": options.steps})

    with one_thread():
        one_repeat(FIRST_SEED - 1, 1, TrainConfig(steps=20))  # warm up, not counted
        repeats, races = [], []
        for i in range(options.repeats):
            repeats.append(one_repeat(FIRST_SEED + i, epochs, book))
            if options.earliest:
                races.append(earliest.race(CHAIN, MODEL, BOOK, FIRST_SEED + i))
            print(f"repeat {i + 1} of {options.repeats} done", flush=True)

    record = {
        "goal": GOAL,
        "epochs_timed": epochs,
        "book": asdict(book),
        "baseline_schedule": asdict(same_schedule(EPOCHS)),
        "repeats": repeats,
        "earliest": races,
        "ratios": {clock: ratios(repeats, clock) for clock in CLOCKS},
        "reached": outcome.reached([outcome.Outcome(**r["outcome"]) for r in repeats]),
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }
    lines = [table(repeats, epochs, book), *(earliest.table(races) if races else [])]
    met = f"at least {GOAL:g} times faster, with the chapter's result"
    where = {"output": options.output, "check": options.check}
    return finish(record, "\n".join(lines), shortfalls(record), met, **where)
