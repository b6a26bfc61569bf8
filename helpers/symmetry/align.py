r"""The symmetry that brings one model's weights closest to another's.

For a fixed residual rotation R the best heads and neurons come in closed form, and for fixed heads
and neurons the best R does.  The search alternates from several starts; each step can only lower
the loss.  What comes out is a local minimum, the best that was found.  A copy under a random
symmetry is found at once from the labelled tensors, and from most starts that know nothing of it;
heads that are nearly alike trap some of those, so there are several.

Source: McCann 2026, "Polymorphism Is Rotation" (arXiv:2605.24577), bar P; it starts from 16 random
permutations of heads, with and without a residual rotation, for 6 rounds.  Without a residual
rotation no start is needed here: nothing is left to alternate, and the closed forms end the search.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from helpers.alignment.haar import haar
from helpers.symmetry.closed_forms import (
    Costs,
    best_heads,
    best_neurons,
    labelled_rotation,
    procrustes,
    residual_cross,
    tensor_weights,
    turn_heads,
)
from helpers.symmetry.closed_forms import loss as weight_loss
from helpers.symmetry.group import Symmetry, apply
from helpers.symmetry.pull import NO_PULL, Pull
from helpers.symmetry.refine import refine
from helpers.symmetry.report import Errors, errors
from helpers.symmetry.weights import Weights, check_pair

STEPS = (
    "raw",
    "heads",
    "neurons",
    "per-head rotations",
    "residual rotation",
    "refined",
    "refined for the largest",
)
POWER = 32.0  # of the last step: high enough for the largest MSE to be all that counts
KEPT = 3  # starts that go on to the end
ENOUGH = 1e-6  # a round that gains a smaller share of the loss is the last
EXACT = 1e-14  # of the weights' own size: nothing is left to align


@dataclass(frozen=True, eq=False)
class Start:
    """Where the search began (``identity``, ``labelled``, ``heads``, ``haar``), the rotation and
    the loss where it ended, and the loss after every step in R."""

    kind: str
    R: np.ndarray
    loss: float
    history: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Aligned:
    """The symmetries found: ``symmetry`` has the least ``loss``, ``for_largest`` goes on from it to
    the least largest MSE.  ``steps`` has the errors after each of :data:`STEPS`; ``starts`` are all
    that were tried, best first."""

    symmetry: Symmetry
    loss: float
    for_largest: Symmetry
    steps: dict[str, Errors]
    starts: tuple[Start, ...]

    @property
    def bar(self) -> float:
        """Bar P: the largest MSE of a tensor after the last step."""
        return self.steps[STEPS[-1]].value


def inner(source: Weights, target: Weights, g: Symmetry, c: Costs) -> Symmetry:
    """g with the best heads and neurons for its R."""
    return best_neurons(source, target, best_heads(source, target, g, c), c)


def alternate(
    source: Weights,
    target: Weights,
    g: Symmetry,
    c: Costs,
    rounds: int,
    *,
    pull: Pull = NO_PULL,
) -> tuple[Symmetry, tuple[float, ...]]:
    """Rounds of heads, neurons and residual rotation, and the loss after each.

    They end early where a round gains less than a millionth of the loss, or nothing is left.
    """
    size = _size(target, c)
    history: list[float] = []
    for _ in range(rounds):
        g = inner(source, target, g, c)
        g = replace(g, R=procrustes(residual_cross(source, target, g, c) + pull.cross))
        history.append(weight_loss(source, target, g, c) + pull.loss(g.R))
        still = len(history) > 1 and history[-2] - history[-1] < ENOUGH * history[-1]
        if still or history[-1] < EXACT * size:
            break
    return g, tuple(history)


def align(
    source: Weights,
    target: Weights,
    generator: np.random.Generator,
    *,
    starts: int = 16,
    rounds: int = 3,
    most_rounds: int = 40,
    pull: Pull = NO_PULL,
) -> Aligned:
    """The best symmetry of the source that is found, and the errors after each step.

    Steps: ``raw``; then with R = I the best permutation of ``heads``, of ``neurons`` with their
    scales, and of heads with ``per-head rotations``, each by its closed form; then the
    ``residual rotation`` with all of it, the best of the starts; and ``refined``, all rotations and
    scales at once.  What is minimised is :func:`tensor_weights`'s mean of MSEs, plus the ``pull``
    of activations.  A last step goes on to what bar P reads, the largest MSE.

    Args:
        starts: random ones, by turns from random permutations of heads and from Haar rotations,
            after the best rotation of the labelled tensors and the identity.  Where one of them
            leaves nothing, it is the last.
        rounds: of every start; the best three go on.
        most_rounds: of those.

    Raises:
        ValueError: models of different sizes, or fewer than one round.
    """
    check_pair(source, target)
    if starts < 0 or not 1 <= rounds <= most_rounds:
        raise ValueError(
            "need starts ≥ 0 and 1 ≤ rounds ≤ most_rounds; got "
            f"{starts}, {rounds} and {most_rounds}."
        )
    c, still = tensor_weights(target), Symmetry.identity(source)
    ladder = [still, best_heads(source, target, still, c, rotate=False)]
    ladder.append(best_neurons(source, target, ladder[-1], c))
    ladder.append(best_heads(source, target, ladder[-1], c))
    tried = []
    for kind, g in _starts(source, target, generator, starts, c, ladder[-1]):
        tried.append((kind, *alternate(source, target, g, c, rounds, pull=pull)))
        if tried[-1][2][-1] < EXACT * _size(target, c):
            break  # nothing is left for another start to find
    tried.sort(key=lambda one: one[2][-1])
    for i, (kind, g, history) in enumerate(tried[:KEPT]):
        g, more = alternate(source, target, g, c, most_rounds - rounds, pull=pull)
        tried[i] = (kind, g, history + more)
    tried.sort(key=lambda one: one[2][-1])
    ladder.append(tried[0][1])
    best = refine(source, target, ladder[-1], c, pull=pull)
    ladder += [best, refine(source, target, best, c, power=POWER, pull=pull)]
    steps = {name: errors(apply(source, g), target) for name, g in zip(STEPS, ladder, strict=True)}
    final = weight_loss(source, target, best, c) + pull.loss(best.R)
    ends = tuple(Start(kind, g.R, history[-1], history) for kind, g, history in tried)
    return Aligned(best, final, ladder[-1], steps, ends)


def _size(target: Weights, c: Costs) -> float:
    """The loss of predicting zero."""
    return float(sum(c[n] * np.square(value).sum() for n, value in target.tensors().items()))


def _starts(
    source: Weights,
    target: Weights,
    generator: np.random.Generator,
    n: int,
    c: Costs,
    still: Symmetry,
):
    """Where to begin, by kind.  ``still`` is the best with R = I."""
    yield "labelled", replace(still, R=labelled_rotation(source, target, c))
    yield "identity", still
    layers, heads = still.heads.shape
    for i in range(n):
        if i % 2:
            yield "haar", replace(still, R=haar(generator, len(still.R), 1)[0])
            continue
        order = np.stack([generator.permutation(heads) for _ in range(layers)])
        g = turn_heads(source, target, replace(still, heads=order), c)
        yield "heads", replace(g, R=procrustes(residual_cross(source, target, g, c)))
