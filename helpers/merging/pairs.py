"""Everything along the line between two trained models, by alignment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real

import numpy as np
from torch import Tensor

from helpers.merging.alignments import alignments
from helpers.merging.elements import transform
from helpers.merging.exams import Exam
from helpers.merging.forms import fold
from helpers.merging.lines import ALPHAS, Line, Number, line, raw_line
from helpers.models import ModelConfig


def pair_lines(
    A: Mapping[str, Tensor],
    B: Mapping[str, Tensor],
    config: ModelConfig,
    fit: Exam,
    exam: Exam,
    generator: np.random.Generator,
    *,
    alphas: Sequence[Number] = ALPHAS,
    rank: Real = 0.99,
    starts: int = 0,
) -> dict[str, Line]:
    """From A (α = 0) to B (α = 1): ``raw``, the states as trained, and B after each alignment.

    B's function is the same in all of them, so all lines have the same ends.

    Args:
        A: a trained state.
        B: another one of the same architecture.
        config: theirs.
        fit: rows for activations and cores.
        exam: other rows, that the lines are scored on.
        generator: see :func:`helpers.merging.alignments.alignments`, as for ``rank``, ``starts``.
        alphas: from 0 to 1.

    Raises:
        ValueError: states of other models, or alphas that do not rise from 0 to 1.
    """
    one, two = fold(A, config), fold(B, config)
    found = alignments(two, one, fit, generator, rank=rank, starts=starts)
    lines = {name: line(one, transform(two, g), exam, alphas) for name, g in found.items()}
    return {"raw": raw_line(A, B, config, exam, alphas), **lines}
