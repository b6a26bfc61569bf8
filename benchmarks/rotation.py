"""What chapter 4's parts cost: autoencoders, Haar draws, their tests, a report of two models.

All run in one process with one thread, on made-up activations: 4,096 rows of 64 numbers with a
spectrum that falls as that of the bracket models' streams.  Nothing here has a goal; where a
library does the same, it is timed beside ours in the same run.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from scipy.stats import ortho_group

from benchmarks.pairs import timed
from benchmarks.report import finish, one_thread
from helpers.alignment.haar import haar
from helpers.alignment.haar_tests import haar_tests
from helpers.cross_model import cross_model_report, prepare
from helpers.sae import SAEConfig, train_saes

ROOT = Path(__file__).resolve().parents[1]
SEED = 100  # nothing published is measured here
WIDTHS = {64: 200, 512: 4}  # Haar draws a repeat, by their width
SITES = 5
STACK = 4
DRAWS = 599  # of the tests' nulls, drawn again in every repeat


def activations(rng: np.random.Generator, rows: int = 4096, d: int = 64) -> np.ndarray:
    """Gaussian rows in a random basis, with standard deviations that fall by a factor of 1.4."""
    spread = 1.4 ** -np.arange(d)
    return ((rng.standard_normal((rows, d)) * spread) @ haar(rng, d, 1)[0]).astype(np.float32)


def works(steps: int) -> dict[str, tuple[int, Callable[[int], object]]]:
    """By name: how many pieces one call makes, and the call, which takes the repeat's number."""
    rng = np.random.default_rng(SEED)
    clouds = [activations(rng) for _ in range(STACK)]
    dense = SAEConfig(8, l1=0.01, steps=steps)
    sparse = SAEConfig(8, k=10, steps=steps)
    pair = train_saes(clouds[:2], dense, init_seeds=[1, 1], data_seed=SEED)
    fit, score = slice(0, 2048), slice(2048, None)
    sites = {f"site {k}": R for k, R in enumerate(haar(rng, 64, SITES))}

    def train(config: SAEConfig, n: int) -> Callable[[int], object]:
        seeds = list(range(n))
        return lambda _: train_saes(clouds[:n], config, init_seeds=seeds, data_seed=SEED)

    def report(nulls: bool) -> Callable[[int], object]:
        def run(repeat: int) -> object:
            sides = [
                prepare(X[fit], X[score], one.sae, np.random.default_rng([SEED, k]))
                for k, (X, one) in enumerate(zip(clouds, pair, strict=False))
            ]
            draws = np.random.default_rng([SEED, repeat])
            return cross_model_report(*sides, draws, nulls=nulls)

        return run

    named: dict[str, tuple[int, Callable[[int], object]]] = {}
    for d, n in WIDTHS.items():
        named[f"Haar draw, d = {d}, ours"] = (
            n,
            lambda k, d=d, n=n: haar(np.random.default_rng(k), d, n),
        )
        named[f"Haar draw, d = {d}, scipy"] = (
            n,
            lambda k, d=d, n=n: ortho_group.rvs(d, size=n, random_state=k),
        )
    named |= {
        # another seed, so that the null is drawn and not found
        f"tests of a pair at {SITES} sites, {DRAWS} draws": (
            1,
            lambda k: haar_tests(sites, draws=DRAWS, seed=SEED + k),
        ),
        f"dense SAE, {steps} steps, alone": (1, train(dense, 1)),
        f"dense SAE, {steps} steps, {STACK} at once": (STACK, train(dense, STACK)),
        f"top-10 SAE, {steps} steps, {STACK} at once": (STACK, train(sparse, STACK)),
        "report of two models, with nulls": (1, report(True)),
        "report of two models, without": (1, report(False)),
    }
    return named


def measure(repeats: int, steps: int) -> dict:
    """Cost of a piece in seconds, by what it is and by the clock, once a repeat."""
    cost: dict[str, dict[str, list[float]]] = {}
    named = works(steps)
    for _, work in named.values():
        work(0)  # warm up, not counted
    for repeat in range(1, repeats + 1):
        for name, (pieces, work) in named.items():
            row = timed(lambda work=work, repeat=repeat: work(repeat))
            for clock in ("wall", "cpu"):
                cost.setdefault(name, {}).setdefault(clock, []).append(row[clock] / pieces)
    return {
        "repeats": repeats,
        "cost": cost,
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }


def table(record: dict) -> str:
    """The result for a reader, in milliseconds of processor time a piece."""
    lines = [f"one thread, {record['repeats']} repeats: median [range] of processor time, ms"]
    for name, clocks in record["cost"].items():
        ms = 1e3 * np.array(clocks["cpu"])
        lines.append(f"  {name:<42}{np.median(ms):10.2f}  [{ms.min():.2f} … {ms.max():.2f}]")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks rotation", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=250, help="of an autoencoder")
    parser.add_argument("--output", type=Path, default=ROOT / "_build" / "bench" / "rotation.json")
    options = parser.parse_args(arguments)
    if options.repeats < 1 or options.steps < 1:
        parser.error("need at least one repeat and one step.")
    with one_thread():
        record = measure(options.repeats, options.steps)
    return finish(record, table(record), [], "", output=options.output, check=False)
