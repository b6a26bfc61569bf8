"""Endless streams of shuffled rows that can be left and taken up again at the same place."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int


class Shuffled:
    """Row numbers of a fixed set, ``batch_size`` at a time, in a new order each epoch.

    What is left of an epoch and fills no batch is left out.

    Args:
        n: rows of the set.
        batch_size: rows a batch.
        rng: draws the orders; the stream's position includes its state.

    Raises:
        ValueError: fewer rows than one batch.
    """

    def __init__(self, n: int, batch_size: int, rng: np.random.Generator) -> None:
        if not 1 <= batch_size <= n:
            raise ValueError(f"{n} rows do not fill one batch of {batch_size}; take smaller ones.")
        self.n, self.batch_size, self.rng = n, batch_size, rng
        self.order = np.empty(0, dtype=np.int64)

    def __next__(self) -> Int[np.ndarray, " batch"]:
        if len(self.order) < self.batch_size:
            self.order = self.rng.permutation(self.n)
        rows, self.order = self.order[: self.batch_size], self.order[self.batch_size :]
        return rows

    def state(self) -> dict[str, Any]:
        """The position: the generator's state and the rest of this epoch's order."""
        return {"rng": self.rng.bit_generator.state, "order": self.order.copy()}

    def load(self, state: dict[str, Any]) -> None:
        """Go to a position.

        Raises:
            ValueError: the position is one in a larger set.
        """
        if len(state["order"]) and state["order"].max() >= self.n:
            raise ValueError(f"this position belongs to a stream of more than {self.n} rows.")
        self.rng.bit_generator.state = state["rng"]
        self.order = state["order"].copy()
