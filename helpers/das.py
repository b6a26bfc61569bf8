r"""DAS: a direction trained so that swapping one coordinate swaps the number.

An interchange at one layer gives a base prompt the coordinate of a source prompt,

.. math:: h_b \mapsto h_b + v\, v^\top (h_s - h_b),

and the model goes on from there.  Distributed alignment search trains the unit vector v so that the
base's margin becomes the source's, as if number had been swapped.

Source: Geiger et al. 2024, "Finding alignments between interpretable causal variables and
distributed neural representations" (arXiv:2303.02536), with a rotation cut down to one dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from helpers.axes import check_number, unit
from helpers.cores import check_activations

Forward = Callable[[Tensor, np.ndarray], Tensor]
"""(H (n, D), rows (n,)) to margins (n,) or (n, K): the upper layers, differentiable in H.

``rows`` says whose prompt each activation continues: row numbers of ``Layer.H``."""


TOLERANCE = 1e-4
"""What counts as a new low of the validation loss, whose unit is the squared half gap."""


@dataclass(frozen=True)
class Layer:
    """One layer's rows: ``H`` (N, D), ``number`` (N,) and ``forward``, the model above it.

    ``weights`` (K,) adds K margins up to the one that is judged; None takes their mean.
    ``dtype`` and ``device`` say how ``forward`` wants its activations.
    """

    H: np.ndarray
    number: np.ndarray
    forward: Forward
    weights: np.ndarray | None = None
    dtype: torch.dtype = torch.float32
    device: str | torch.device = "cpu"

    def __post_init__(self) -> None:
        check_activations(self.H)
        check_number(self.number, len(self.H))

    @property
    def activations(self) -> Tensor:
        """``H`` as a tensor that ``forward`` takes."""
        return torch.as_tensor(np.asarray(self.H), dtype=self.dtype, device=self.device)

    def margin(self, H: Tensor, rows: np.ndarray) -> Tensor:
        """The judged margin (n,) of activations that stand in for those of ``rows``."""
        margins = self.forward(H, rows)
        if margins.ndim == 1:
            return margins
        if self.weights is None:
            return margins.mean(dim=1)
        return margins @ torch.as_tensor(self.weights).to(margins)

    @cached_property
    def _clean(self) -> Tensor:
        with torch.no_grad():
            return self.margin(self.activations, np.arange(len(self.H)))

    def margins(self) -> Tensor:
        """The judged margins (N,) of the rows as they are; the model is asked once."""
        return self._clean

    def half_gap(self) -> float:
        """Half of the distance between the mean margins of plural and singular rows.

        Raises:
            ValueError: plural has no larger margin than singular.
        """
        plural = check_number(self.number, len(self.H))
        margins = self.margins().double().cpu().numpy()
        high, low = margins[plural].mean(), margins[~plural].mean()
        if not high > low:
            raise ValueError(
                f"plural prompts have mean margin {high:.4g}, singular ones {low:.4g}: nothing to "
                "swap. Is the margin plural minus singular, and does the model agree verbs at all?"
            )
        return float(high - low) / 2


def swap_pairs(
    number: Shaped[np.ndarray, " N"], generator: np.random.Generator
) -> Int[np.ndarray, "N 2"]:
    """A (base, source) pair for every row as base, its source a random row of the other number."""
    plural = check_number(number, len(number))
    pairs = np.stack([np.arange(len(plural))] * 2, axis=1)
    for side in (False, True):
        others = np.flatnonzero(plural != side)
        pairs[plural == side, 1] = generator.choice(others, int((plural == side).sum()))
    return pairs


def interchange(base: Tensor, source: Tensor, read: Tensor, write: Tensor) -> Tensor:
    """h_b + write · readᵀ(h_s − h_b), row by row."""
    return base + ((source - base) @ read)[:, None] * write


def interchange_effect(
    layer: Layer,
    read: Float[np.ndarray, " D"],
    pairs: Int[np.ndarray, "n 2"],
    write: Float[np.ndarray, " D"] | None = None,
) -> float:
    """How far the interchange moves the margin towards the source's: 0 not at all, 1 all the way.

    The sum over pairs of s · (edited − base), over that of s · (source − base), s = ±1 for a
    plural or singular source.  ``write`` is ``read`` unless it is given.

    Raises:
        ValueError: sources whose margins do not differ from their bases' in the right direction.
    """
    H, base, source = layer.activations, pairs[:, 0], pairs[:, 1]
    w = torch.as_tensor(read).to(H)
    u = w if write is None else torch.as_tensor(write).to(H)
    sign = 2 * np.asarray(layer.number, dtype=np.float64)[source] - 1
    with torch.no_grad():
        margins = layer.margins().double().cpu().numpy()
        edited = layer.margin(interchange(H[base], H[source], w, u), base).double().cpu().numpy()
    whole = float(sign @ (margins[source] - margins[base]))
    if not whole > 0:
        raise ValueError("the sources' margins do not differ from their bases': nothing to swap.")
    return float(sign @ (edited - margins[base])) / whole


@dataclass(frozen=True)
class Das:
    """The ``direction`` (D,), its loss on validation, and every start's loss and last step."""

    direction: np.ndarray
    loss: float
    losses: tuple[float, ...]
    steps: tuple[int, ...]


def train_das(
    train: Layer,
    validation: Layer,
    *,
    seed: int,
    restarts: int = 3,
    starts: Float[np.ndarray, "s D"] | None = None,
    steps: int = 300,
    batch: int = 64,
    lr: float = 0.02,
    every: int = 20,
    patience: int = 4,
) -> Das:
    r"""Train v by Adam on the mean of :math:`((m - m_s)/d)^2`, the best of several starts.

    m is the base's margin after the interchange, :math:`m_s` the source's own margin, and d half
    the distance between the two numbers' mean margins on the training rows.  Every
    ``every`` steps the loss on fixed pairs of the validation rows is taken; a start ends after
    ``patience`` of them without a new low, and gives its best v.  Starts are ``restarts`` random
    directions, spread as the activations are, after the rows of ``starts``.  The sign of v has no
    meaning: the larger mean coordinate is given to plural.

    A logistic loss on the source's number, the other common choice, knows no size.  It pays for
    overshooting, so it turns v towards whatever else follows number loudly, used or not.

    Raises:
        ValueError: bad activations or numbers, margins that do not tell number, no start, or a
            loss that is not finite.
    """
    generator = np.random.default_rng(seed)
    size, targets = train.half_gap(), {id(one): one.margins() for one in (train, validation)}
    H, held_out = train.activations, validation.activations
    fixed = swap_pairs(validation.number, generator)
    begin = list(np.zeros((0, H.shape[1])) if starts is None else np.asarray(starts))
    X = train.H - train.H.mean(axis=0)
    begin += [generator.standard_normal(len(X)) @ X for _ in range(restarts)]
    if not begin:
        raise ValueError("no start: give restarts ≥ 1, or directions as rows of starts.")

    def loss(layer: Layer, activations: Tensor, pairs: np.ndarray, a: Tensor) -> Tensor:
        v, (base, source) = a / a.norm(), pairs.T
        margin = layer.margin(interchange(activations[base], activations[source], v, v), base)
        return (((margin - targets[id(layer)][source]) / size) ** 2).mean()

    found: list[tuple[float, np.ndarray, int]] = []
    for start in begin:
        # Adam's steps are of size lr an entry, so the vector starts at length √D · ½
        scaled = unit(start) * np.sqrt(H.shape[1]) / 2
        a = torch.as_tensor(scaled).to(H).requires_grad_()
        optimiser = torch.optim.Adam([a], lr=lr)
        best, best_v, waited, step = np.inf, unit(start), 0, 0
        while step < steps and waited < patience:
            for _ in range(every):
                drawn = swap_pairs(train.number, generator)
                drawn = drawn[generator.permutation(len(drawn))[:batch]]
                optimiser.zero_grad()
                loss(train, H, drawn, a).backward()
                optimiser.step()
            step += every
            with torch.no_grad():
                now = float(loss(validation, held_out, fixed, a))
            if not np.isfinite(now):
                raise ValueError(f"the loss is {now} after step {step}: lower lr, or use float32.")
            waited = 0 if now < best - TOLERANCE else waited + 1
            if now < best:
                best, best_v = now, unit(a.detach().double().cpu().numpy())
        found.append((best, best_v, step))
    best, v, _ = min(found, key=lambda one: one[0])
    plural = check_number(train.number, len(train.H))
    gap = (train.H[plural].mean(axis=0) - train.H[~plural].mean(axis=0)) @ v
    return Das(v if gap >= 0 else -v, best, tuple(f[0] for f in found), tuple(f[2] for f in found))
