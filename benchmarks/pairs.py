"""Cost of an example in chapter 2's training, our step against the plain loop.

Both train one model of two pre-norm layers, d_model 128, on pairs modulo 53, in batches of 512,
with AdamW and no dropout, in one process with one thread:

plain    PyTorch's encoder layers, a DataLoader, AdamW
ours     helpers.fast, fed by the trainer's own stream

Before they are timed, both are given the same weights, and their logits compared.  A few epochs of
the one and as many of the other are timed in turn; ratios are taken between neighbours, so that a
slow moment of the machine hits both.  The machine's best matrix product is timed between them.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.report import finish, one_thread, shortfalls
from helpers.fast import PairLearner
from helpers.models import ModelConfig
from helpers.tasks.addition import ModularAddition
from helpers.training import TrainConfig

ROOT = Path(__file__).resolve().parents[1]
GOAL = 5.0
SEED = 100  # nothing published is measured here
TASK = ModularAddition(53, train_fraction=1536 / 53**2)  # three whole batches
MODEL = ModelConfig(53, 2, n_layers=2, d_model=128, n_heads=4, d_mlp=512)
RECIPE = TrainConfig(batch_size=512, lr=1e-3, weight_decay=1.0, betas=(0.9, 0.999), decay=False)


class PlainTransformer(nn.Module):
    """Two pre-norm encoder layers with a causal mask, a final norm, an unembedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(MODEL.d_vocab, MODEL.d_model)
        self.position = nn.Embedding(MODEL.n_ctx, MODEL.d_model)
        layer = nn.TransformerEncoderLayer(
            MODEL.d_model, MODEL.n_heads, MODEL.d_mlp, 0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, MODEL.n_layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(MODEL.d_model)
        self.head = nn.Linear(MODEL.d_model, MODEL.d_vocab, bias=False)
        mask = nn.Transformer.generate_square_subsequent_mask(MODEL.n_ctx)
        self.register_buffer("mask", mask)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens) + self.position.weight
        return self.head(self.norm(self.layers(x, mask=self.mask, is_causal=True)))[:, -1]

    def take(self, weights: dict[str, torch.Tensor]) -> None:
        """Take over the weights of a ``SmallTransformer``."""
        named = {
            "embed.weight": weights["tok_embed.weight"],
            "position.weight": weights["pos.weight"],
            "norm.weight": weights["ln_out.weight"],
            "norm.bias": weights["ln_out.bias"],
            "head.weight": weights["head.weight"],
            "mask": self.mask,
        }
        parts = {
            "self_attn.out_proj": "attn.o",
            "linear1": "mlp.fc_in",
            "linear2": "mlp.fc_out",
            "norm1": "ln1",
            "norm2": "ln2",
        }
        for i in range(MODEL.n_layers):
            for kind in ("weight", "bias"):
                qkv = [weights[f"layers.{i}.attn.{name}.{kind}"] for name in "qkv"]
                named[f"layers.layers.{i}.self_attn.in_proj_{kind}"] = torch.cat(qkv)
                for theirs, ours in parts.items():
                    named[f"layers.layers.{i}.{theirs}.{kind}"] = weights[
                        f"layers.{i}.{ours}.{kind}"
                    ]
        self.load_state_dict(named)


def difference(plain: PlainTransformer, learner: PairLearner) -> float:
    """Largest difference of two logits over all pairs."""
    pairs = torch.from_numpy(TASK.pairs)
    with torch.no_grad():
        logits = plain(pairs)
    return float((logits - learner.net.logits(*pairs.T.contiguous())).abs().max())


def multiplications() -> int:
    """Multiplications of one example's forward pass in our step, in matrix products alone."""
    d, m = MODEL.d_model, MODEL.d_mlp
    layer, rows = 4 * d * d + 2 * d * m, 1 + MODEL.d_vocab / RECIPE.batch_size
    first = (d * d + 2 * d * m) * rows  # its q, k and v are made a token, not a pair
    return round(first + 3 * d * d * (rows - 1) + layer + d * MODEL.d_vocab)


def timed(work: Callable[[], object]) -> dict[str, float]:
    """Seconds on the wall's clock and of the processor."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def measure(repeats: int, epochs: int) -> dict:
    """Time both sides ``repeats`` times, ``epochs`` epochs each time."""
    plain = PlainTransformer()
    learner = TASK.learner(MODEL, RECIPE, SEED)
    plain.take(learner.weights())
    gap = difference(plain, learner)
    a, b = torch.from_numpy(TASK.pairs[TASK.split(SEED)[0]]).T
    data = TensorDataset(torch.stack([a, b], 1), (a + b) % TASK.p)
    loader = DataLoader(data, batch_size=RECIPE.batch_size, shuffle=True)
    optimizer = torch.optim.AdamW(plain.parameters(), RECIPE.lr, weight_decay=RECIPE.weight_decay)
    stream = TASK.batches(MODEL, RECIPE, SEED)
    steps = epochs * len(loader)

    def plain_epochs() -> None:
        for _ in range(epochs):
            for tokens, answers in loader:
                loss = F.cross_entropy(plain(tokens), answers)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    def our_epochs() -> None:
        for _ in range(steps):
            learner.step(next(stream), RECIPE.lr)

    x, w = torch.randn(2048, 2048), torch.randn(2048, 2048)

    def products() -> None:
        for _ in range(4):
            x @ w

    for work in (plain_epochs, our_epochs, products):  # warm up, not counted
        work()
    work_done = 6 * multiplications() * RECIPE.batch_size * steps  # two passes back, two a product
    rows = []
    for _ in range(repeats):
        one, two, best = timed(plain_epochs), timed(our_epochs), timed(products)
        rows.append({"plain": one, "ours": two, "product": best})
    gflops = {
        clock: {
            "ours": [work_done / row["ours"][clock] / 1e9 for row in rows],
            "product": [4 * 2 * 2048**3 / row["product"][clock] / 1e9 for row in rows],
        }
        for clock in ("wall", "cpu")
    }
    ratios = {
        clock: [row["plain"][clock] / row["ours"][clock] for row in rows]
        for clock in ("wall", "cpu")
    }
    return {
        "goal": GOAL,
        "logit_difference": gap,
        "steps_a_repeat": steps,
        "rows": rows,
        "ratios": ratios,
        "gflops": gflops,
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }


def table(record: dict) -> str:
    """The result for a reader."""

    def line(name: str, values, unit: str) -> str:
        low, mid, high = np.min(values), np.median(values), np.max(values)
        return f"  {name:<50}{mid:9.3f} {unit}  [{low:.3f} … {high:.3f}]"

    steps, size = record["steps_a_repeat"], RECIPE.batch_size
    lines = [
        f"one model, one thread, {len(record['rows'])} paired repeats of {steps} steps of {size}: "
        "median [range]",
        f"  largest difference of a logit, same weights: {record['logit_difference']:.1e}",
    ]
    for clock in ("wall", "cpu"):
        lines.append({"wall": "on the wall's clock", "cpu": "in processor time"}[clock])
        for side in ("plain", "ours"):
            cost = [1e6 * row[side][clock] / steps / size for row in record["rows"]]
            lines.append(line(f"{side}, an example", cost, "µs"))
        lines.append(line("gain", record["ratios"][clock], "×"))
        lines.append(line("our step", record["gflops"][clock]["ours"], "GFLOP/s"))
        lines.append(line("product of 2048 × 2048", record["gflops"][clock]["product"], "GFLOP/s"))
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; with ``--check``, return 1 where the goal is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks pairs", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--repeats", type=int, default=9, help="paired repeats")
    parser.add_argument("--epochs", type=int, default=8, help="epochs of three batches a repeat")
    parser.add_argument("--check", action="store_true", help="exit 1 where the goal is missed")
    parser.add_argument("--output", type=Path, default=ROOT / "_build" / "bench" / "pairs.json")
    options = parser.parse_args(arguments)
    if options.repeats < 1 or options.epochs < 1:
        parser.error("need at least one repeat and one epoch.")
    with one_thread():
        record = measure(options.repeats, options.epochs)
    met = f"an example costs at most 1/{GOAL:g} of the plain loop's"
    where = {"output": options.output, "check": options.check}
    return finish(record, table(record), shortfalls(record), met, **where)
