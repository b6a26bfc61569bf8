"""Cost of extracting and sweeping every layer of a language model, ours against the plain way.

Both take one model, the same prompts and one thread.  At every layer they extract activations and
the headline margin's Jacobian at the last position, fit ACE's one axis, and measure the margin with
that axis kept, removed and flipped:

plain    one padded batch; hooks on the model's forward pass; one backward for all layers; three
         separate full forwards a layer, with the logits of the whole vocabulary
ours     helpers.last_token: prefixes run once, all layers in one wave, only the wanted logits

Each side fits its axes on its own extraction.  For the comparison of margins, ours also sweeps the
plain side's axes, so that both answer one question.  Times are those of the processor.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import nn

from benchmarks.report import finish, one_thread
from helpers.cores import Core, ace
from helpers.interventions import project
from helpers.last_token import Outputs, every_mode, extract, prepare, sweep
from helpers.last_token.sweeps import MODES
from helpers.tasks.agreement.generate import generate

ROOT = Path(__file__).resolve().parents[1]
GOAL = 15.0
SEED = 100
TOLERANCE = 1e-4


class Plain:
    """The straightforward implementation: a padded batch and hooks."""

    def __init__(self, model: nn.Module, tokens: Sequence[Sequence[int]], outputs: Outputs) -> None:
        self.model, self.outputs = model, outputs
        base = model.base_model
        self.blocks = base.h if hasattr(base, "h") else base.layers
        length = max(map(len, tokens))
        self.ids = torch.zeros(len(tokens), length, dtype=torch.long)
        self.mask = torch.zeros_like(self.ids)
        for i, row in enumerate(tokens):  # padded on the right, so positions are those of the text
            self.ids[i, : len(row)] = torch.tensor(row)
            self.mask[i, : len(row)] = 1
        self.last = self.mask.sum(1) - 1
        self.all = torch.arange(len(tokens))

    def margins(self) -> torch.Tensor:
        """(N, K) from a whole forward pass."""
        logits = self.model(self.ids, attention_mask=self.mask, use_cache=False).logits
        return self.outputs.of_logits(logits[self.all, self.last])

    def extract(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Streams (N, L, D), Jacobians (N, L, K, D), margins (N, K): one backward an output."""
        seen = []

        def note(module, inputs, output):
            hidden = output[0] if isinstance(output, tuple) else output
            if not seen:  # the graph begins at the first block's output
                hidden = hidden.detach().requires_grad_()
            seen.append(hidden)
            return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

        hooks = [block.register_forward_hook(note) for block in self.blocks]
        try:
            with torch.enable_grad():
                margins = self.margins()
        finally:
            for hook in hooks:
                hook.remove()
        jacobian = []
        for k in range(len(self.outputs)):
            grads = torch.autograd.grad(margins[:, k].sum(), seen, retain_graph=True)
            jacobian.append(torch.stack([g[self.all, self.last] for g in grads], 1))
        resid = torch.stack([h.detach()[self.all, self.last] for h in seen], 1)
        return resid.numpy(), torch.stack(jacobian, 2).numpy(), margins.detach().numpy()

    def intervene(self, layer: int, core: Core, mode: str) -> np.ndarray:
        """Margins (N, K) with ``core`` kept, removed or flipped after block ``layer``."""

        def change(module, inputs, output):
            hidden = output[0] if isinstance(output, tuple) else output
            clean = hidden[self.all, self.last].double().numpy()
            new = torch.from_numpy(project(clean, core.basis, core.mean, mode))
            hidden = hidden.clone()
            hidden[self.all, self.last] = new.to(hidden)
            return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

        hook = self.blocks[layer].register_forward_hook(change)
        try:
            with torch.no_grad():
                return self.margins().numpy()
        finally:
            hook.remove()

    def sweep(self, cores: Sequence[Core]) -> np.ndarray:
        """(N, 3 L, K): one full forward for each layer and mode."""
        return np.stack(
            [
                self.intervene(layer, core, mode)
                for layer, core in enumerate(cores)
                for mode in MODES
            ],
            axis=1,
        )


def cores_of(resid: np.ndarray, jacobian: np.ndarray) -> list[Core]:
    """ACE's one axis at each layer."""
    return [ace(resid[:, layer], jacobian[:, layer], 1) for layer in range(resid.shape[1])]


def edits_of(cores: Sequence[Core]) -> list:
    """Keep, remove, flip of each layer's own core."""
    return [one for layer, core in enumerate(cores) for one in every_mode(layer, core)]


def timed(work: Callable[[], object]) -> tuple[object, dict[str, float]]:
    """The result, and seconds on the wall's clock and of the processor."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def products() -> None:
    """Sixteen products of 2048 × 2048, the machine's best."""
    x, w = torch.randn(2048, 2048), torch.randn(2048, 2048)
    for _ in range(16):
        x @ w


def memory() -> float:
    """The process's peak so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if platform.system() == "Darwin" else 1e3)


def measure(model: nn.Module, tokens: Sequence[Sequence[int]], outputs: Outputs) -> dict:
    """Run both sides once and compare what they give."""
    products()
    plain = Plain(model, tokens, outputs)
    with torch.no_grad():  # weights are read from the disk when they are first used
        model(plain.ids[:1], use_cache=False)
    _, best_before = timed(products)
    parts: dict[str, dict] = {}
    start = memory()
    prepared, parts["prefixes"] = timed(lambda: prepare(model, tokens, outputs))
    ours, parts["extraction"] = timed(lambda: extract(prepared))
    cores, parts["axes"] = timed(lambda: cores_of(ours.resid, ours.jacobian))
    _, parts["sweep"] = timed(lambda: sweep(prepared, edits_of(cores)))
    our_memory = memory() - start

    theirs: dict[str, dict] = {}
    (resid, jacobian, margins), theirs["extraction"] = timed(plain.extract)
    plain_cores, theirs["axes"] = timed(lambda: cores_of(resid, jacobian))
    wanted, theirs["sweep"] = timed(lambda: plain.sweep(plain_cores))
    _, best_after = timed(products)

    same = sweep(prepared, edits_of(plain_cores))
    apart = {
        "resid": np.abs(ours.resid - resid).max() / np.abs(resid).max(),
        "jacobian": np.abs(ours.jacobian - jacobian).max() / np.abs(jacobian).max(),
        "margins": np.abs(ours.margins - margins).max(),
        "axes": max(
            1 - abs(float(a.basis[:, 0] @ b.basis[:, 0]))
            for a, b in zip(cores, plain_cores, strict=True)
        ),
        "sweep": np.abs(same - wanted).max(),
    }
    total = {
        side: {clock: sum(part[clock] for part in given.values()) for clock in ("wall", "cpu")}
        for side, given in (("ours", parts), ("plain", theirs))
    }
    weights = sum(p.numel() for p in prepared.decoder.blocks.parameters())
    layers = prepared.n_layers
    rows = len(tokens) * 3 * (layers - 1) / 2  # of the whole stack of blocks
    work = 2 * weights * rows
    flops = 16 * 2 * 2048**3
    return {
        "goal": GOAL,
        "prompts": len(tokens),
        "layers": layers,
        "difference": {name: float(value) for name, value in apart.items()},
        "ours": parts,
        "plain": theirs,
        "total": total,
        "ratio": {clock: total["plain"][clock] / total["ours"][clock] for clock in ("wall", "cpu")},
        "gflops": {
            "sweep": work / parts["sweep"]["cpu"] / 1e9,
            "product": flops / min(best_before["cpu"], best_after["cpu"]) / 1e9,
        },
        "megabytes": {"kept": prepared.megabytes, "added by ours": our_memory},
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }


def table(record: dict) -> str:
    """The result for a reader."""
    lines = [
        f"{record['prompts']} prompts, {record['layers']} layers, keep, remove and flip at each, "
        "one thread: seconds of the processor"
    ]
    for side in ("plain", "ours"):
        parts = ", ".join(f"{name} {part['cpu']:.2f}" for name, part in record[side].items())
        lines.append(f"  {side:<6}{record['total'][side]['cpu']:9.2f}   ({parts})")
    gflops, size = record["gflops"], record["megabytes"]
    apart = ", ".join(f"{name} {value:.1e}" for name, value in record["difference"].items())
    lines += [
        f"  gain  {record['ratio']['cpu']:9.2f} ×  (on the wall's clock "
        f"{record['ratio']['wall']:.2f} ×)",
        f"  blocks of our sweep {gflops['sweep']:.0f} GFLOP/s; product of 2048 × 2048 "
        f"{gflops['product']:.0f} GFLOP/s",
        f"  memory: kept {size['kept']:.0f} MB, our peak adds {size['added by ours']:.0f} MB",
        f"  largest differences: {apart}",
    ]
    return "\n".join(lines)


def shortfalls(record: dict) -> list[str]:
    """What keeps this record from meeting the goal: the speed, or another function computed."""
    missing = [
        f"{name} differ by {value:.1e}"
        for name, value in record["difference"].items()
        if not value <= TOLERANCE
    ]
    if not record["ratio"]["cpu"] >= record["goal"]:
        missing.append(f"the gain is {record['ratio']['cpu']:.2f}, below {record['goal']:g}")
    return missing


def prompts(n: int) -> list[str]:
    """``n`` of the chapter's own prompts, drawn with a seed that nothing published uses."""
    return list(generate(n, "test", SEED).texts)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; with ``--check``, return 1 where the goal is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks agreement", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--model", default="smollm2", help="a name that helpers.pretrained loads")
    parser.add_argument("--prompts", type=int, default=120, help="how many")
    parser.add_argument("--check", action="store_true", help="exit 1 where the goal is missed")
    parser.add_argument("--output", type=Path, default=ROOT / "_build" / "bench" / "agreement.json")
    options = parser.parse_args(arguments)
    try:
        texts = prompts(options.prompts)
    except ValueError as problem:
        parser.error(str(problem))
    from helpers.pretrained import load

    with one_thread():
        loaded = load(options.model, dtype=torch.float32)
        words = loaded.to_tokens([" is", " are", " was", " were"])
        is_, are, was, were = (ids[-1] for ids in words)
        outputs = Outputs([[are, were]], [[is_, was]])
        with threadpool_limits(1):  # NumPy's threads spin while they wait, which counts as work
            record = measure(loaded.model, loaded.to_tokens(texts), outputs)
    met = f"at most 1/{GOAL:g} of the plain way's processor time"
    where = {"output": options.output, "check": options.check}
    return finish(record, table(record), shortfalls(record), met, **where)
