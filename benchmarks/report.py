"""How every benchmark measures and ends: on one thread, with a record, a table, and a status."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch on one thread while this lasts."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def shortfalls(record: dict) -> list[str]:
    """What keeps a comparison with a plain loop from its goal: speed, or another function."""
    missing = []
    if not record["logit_difference"] <= 1e-5:
        missing.append(f"logits differ by {record['logit_difference']:.1e}")
    for clock, values in record["ratios"].items():
        gain = np.median(values)
        if not gain >= record["goal"]:
            missing.append(f"the gain ({clock}) is {gain:.2f}, below {record['goal']:g}")
    return missing


def finish(
    record: dict, table: str, missing: list[str], met: str, *, output: Path, check: bool
) -> int:
    """Keep the record, print the table and what keeps it from the goal; 1 where it was to be met.

    Args:
        record: what was measured, as JSON can hold it.
        table: the same for a reader.
        missing: what keeps the record from the goal, in words; empty where it is met.
        met: what a met goal means; empty where none was set.
        output: where the record goes.
        check: whether a missed goal is a failure.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    part = output.with_suffix(".part")
    part.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(part, output)  # whole or not at all
    print(table)
    for text in missing:
        print(f"goal missed: {text}")
    if met and not missing:
        print(f"goal met: {met}")
    return 1 if check and missing else 0
