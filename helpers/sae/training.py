"""Training of SAEs: minibatches from a matrix of activations, many SAEs in one loop.

Three things are random and kept apart: the initialisation (a seed for each SAE), the order of the
data (one seed for the loop), and the activations themselves.  So two SAEs can share their
initialisation and not their data, or their data and not their initialisation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from helpers.sae.model import SAE, check_k
from helpers.sae.stack import Stack

CHECK_EVERY = 50
"""Steps between two looks at the loss: a number read from a device waits for the device."""


@dataclass(frozen=True)
class SAEConfig:
    """How an SAE is made: ``l1`` > 0 penalises a ReLU code, ``k`` makes it a top-k code instead.

    The loss is the squared error of a row plus ``l1`` times the sum of its code, in units where
    rows have length √d_in on average.  ``d_sae`` is ``expansion`` · d_in.  The rate is constant,
    then falls linearly to 0 over the last ``decay`` of the steps.

    Raises:
        ValueError: numbers that make no SAE, or both penalties at once.
    """

    expansion: int = 8
    l1: Real = 0.0
    k: int | None = None
    steps: int = 1000
    batch: int = 256
    lr: Real = 5e-3
    betas: tuple[float, float] = (0.9, 0.999)
    decay: Real = 0.3
    device: str = "cpu"

    def __post_init__(self) -> None:
        if min(self.expansion, self.steps, self.batch) < 1:
            raise ValueError(f"expansion, steps and batch are whole numbers from 1 on; {self}.")
        if not (self.lr > 0 and self.l1 >= 0 and 0 <= self.decay <= 1):
            raise ValueError(f"lr must be above 0, l1 not below it, decay in [0, 1]; {self}.")
        if self.k is not None and (self.k < 1 or self.l1):
            raise ValueError(
                f"k = {self.k}, l1 = {self.l1}: k counts active features from 1 on, and a top-k "
                "code needs no L1 penalty. Set l1 = 0."
            )


@dataclass(frozen=True, eq=False)
class TrainedSAE:
    """An SAE for raw activations, the seed of its start, and its loss at some ``steps`` (c,).

    ``scale`` is what activations were multiplied by while it was trained.
    """

    sae: SAE
    init_seed: int
    scale: float
    steps: np.ndarray
    losses: np.ndarray


def train_saes(
    activations: Sequence[Float[np.ndarray, "n d_in"]],
    config: SAEConfig,
    *,
    init_seeds: Sequence[int],
    data_seed: int,
) -> list[TrainedSAE]:
    """One SAE for each of ``init_seeds``, trained on the activations that stand at its place.

    A single array in ``activations`` serves all.  All SAEs see the rows in one order, set by
    ``data_seed``, every row once before any comes again.  Inputs are scaled so that
    mean ‖x − mean‖ = √d_in, and the scale is folded away afterwards.

    Raises:
        ValueError: arrays of different shapes or of a number other than the seeds', activations
            that hold NaN or are constant, k above d_sae.
        FloatingPointError: the loss is not finite.
    """
    sets = [torch.as_tensor(_checked(X, i)) for i, X in enumerate(activations)]
    if len({tuple(X.shape) for X in sets}) != 1 or len(sets) not in (1, len(init_seeds)):
        raise ValueError(
            f"{len(init_seeds)} initialisation seeds need as many activation matrices of one "
            f"shape, or one for all; got shapes {[tuple(X.shape) for X in sets]}. Cut the longer "
            "ones, or train them apart."
        )
    n, d_in = sets[0].shape
    d_sae = config.expansion * d_in
    if config.k is not None:
        check_k(config.k, d_sae)
    means = torch.stack([X.mean(dim=0) for X in sets])
    lengths = [(X - mean).norm(dim=1).mean() for X, mean in zip(sets, means, strict=True)]
    scales = math.sqrt(d_in) / torch.stack(lengths)
    data = torch.stack([X * scale for X, scale in zip(sets, scales, strict=True)])
    data = data.float().to(config.device)
    where = [0] * len(init_seeds) if len(sets) == 1 else list(range(len(sets)))
    centre = (means * scales[:, None]).float()[where].to(config.device)
    stack = Stack(centre, d_sae, init_seeds, l1=config.l1, k=config.k)
    steps, losses = _descend(stack, data, config, minibatches(n, config.batch, data_seed))
    return [
        TrainedSAE(stack.sae(j, float(scales[i])), init_seeds[j], float(scales[i]), steps, loss)
        for j, (i, loss) in enumerate(zip(where, losses.T, strict=True))
    ]


def _descend(
    stack: Stack, data: Float[Tensor, "sets n d_in"], config: SAEConfig, rows: Iterator[Tensor]
) -> tuple[np.ndarray, np.ndarray]:
    """Adam on the whole stack; steps (c,) at which losses (c, m) were looked at."""
    stack.x.grad = stack.grad
    optimizer = torch.optim.Adam([stack.x], lr=config.lr, betas=config.betas, fused=True)
    m, steps, losses = len(stack.weights["W_dec"]), [], []
    for step in range(1, config.steps + 1):
        left = (config.steps - step + 1) / (config.decay * config.steps or 1)
        optimizer.param_groups[0]["lr"] = config.lr * min(1.0, left)
        x = data.index_select(1, next(rows).to(data.device)).expand(m, -1, -1).contiguous()
        loss = stack.backward(x)
        optimizer.step()
        stack.renormalise()
        if step % CHECK_EVERY == 0 or step in (1, config.steps):
            steps.append(step)
            losses.append(loss.double().cpu().numpy())
            if not np.isfinite(losses[-1]).all():
                bad = np.flatnonzero(~np.isfinite(losses[-1])).tolist()
                raise FloatingPointError(
                    f"the loss of SAE {bad} of {m} is not finite at step {step} with lr = "
                    f"{config.lr}. Use a lower lr, and look for huge rows in the activations."
                )
    return np.array(steps), np.array(losses)


def minibatches(n: int, batch: int, seed: int) -> Iterator[Tensor]:
    """Row numbers without end, ``batch`` at a time: one shuffle of all n after another."""
    generator = torch.Generator().manual_seed(seed)
    waiting = torch.empty(0, dtype=torch.long)
    while True:
        while len(waiting) < batch:
            waiting = torch.cat([waiting, torch.randperm(n, generator=generator)])
        yield waiting[:batch]
        waiting = waiting[batch:]


def _checked(X: np.ndarray, which: int) -> np.ndarray:
    X = np.asarray(X)
    if X.ndim != 2 or len(X) < 2 or not X.shape[1]:
        raise ValueError(
            f"activations {which} must be (n, d_in) with n ≥ 2; got shape {X.shape}. Flatten "
            "sequences with X.reshape(-1, d_in)."
        )
    if not np.isfinite(X).all():
        row = int(np.argwhere(~np.isfinite(X).all(axis=1))[0, 0])
        raise ValueError(
            f"activations {which} hold NaN or infinity, first in row {row} of {len(X)}. Leave "
            "such rows out, and find what made them."
        )
    if np.ptp(X, axis=0).max() <= 1e-6 * np.abs(X).max():
        raise ValueError(f"activations {which} are constant: no code is needed. Use varied inputs.")
    return X
