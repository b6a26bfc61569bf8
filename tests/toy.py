"""A task whose whole course is known: accuracies are planted by step, and a step is a few sums."""

from dataclasses import dataclass

import numpy as np
import torch

from helpers.tasks.streams import Shuffled


class ToyLearner:
    """Momentum on a vector that chases the batch; torch's global generator adds noise."""

    def __init__(self, seed: int) -> None:
        self.x, self.v = torch.full((3,), 1.0 + seed), torch.zeros(3)
        self.steps = 0

    def step(self, batch, lr):
        target = torch.from_numpy(batch).float().mean() / 100
        gradient = self.x - target + 0.1 * torch.randn(3)
        self.v = 0.9 * self.v + gradient
        self.x = self.x - lr * self.v
        self.steps += 1
        return self.x.square().mean()

    def weights(self):
        return {"x": self.x.clone()}

    def state(self):
        return {"x": self.x.clone(), "v": self.v.clone(), "steps": torch.tensor(self.steps)}

    def load(self, state):
        self.x, self.v = state["x"].clone(), state["v"].clone()
        self.steps = int(state["steps"])


@dataclass(frozen=True)
class Toy:
    """Train accuracy grows by 0.1 a step up to 1; test accuracy is 0 and from ``grok`` on 1."""

    grok: int = 20

    def spec(self):
        return {"kind": "toy", "grok": self.grok}

    def learner(self, model, config, seed):
        return ToyLearner(seed)

    def batches(self, model, config, seed):
        return Shuffled(10, config.batch_size, np.random.default_rng(seed))

    def evaluate(self, learner):
        return {
            "train_accuracy": min(10, learner.steps) / 10,
            "test_accuracy": float(learner.steps >= self.grok),
        }


def from_spec(spec):
    return Toy(spec["grok"])


def same(one, two) -> bool:
    """Whether two sets of named tensors are the same bit for bit."""
    return one.keys() == two.keys() and all(torch.equal(one[k], two[k]) for k in one)


def identical(one, two) -> bool:
    """Whether two runs are the same bit for bit, whatever of it there is to see."""
    return _same(vars(one), vars(two))


def _same(one, two) -> bool:
    if hasattr(one, "__dataclass_fields__"):
        one, two = vars(one), vars(two)
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(_same(one[k], two[k]) for k in one)
    if isinstance(one, torch.Tensor):
        return one.dtype == two.dtype and torch.equal(one, two)
    if isinstance(one, np.ndarray):
        return one.dtype == two.dtype and np.array_equal(one, two)
    return type(one) is type(two) and one == two
