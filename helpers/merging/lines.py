r"""Loss along the straight line between two models' weights, and its barrier.

.. math::
    \text{barrier} = \max_\alpha \big[ L((1-\alpha) A + \alpha B) - (1-\alpha) L(A) - \alpha L(B)
    \big]

It is 0 or more, in nats, since the ends count too.

Source: Frankle et al. 2020, linear mode connectivity (arXiv:1912.05671); Ainsworth, Hayase &
Srinivasa 2023, git re-basin (arXiv:2209.04836).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from helpers.merging.elements import READERS, WRITERS, from_rows, rows
from helpers.merging.exams import Exam, score
from helpers.merging.forms import TENSORS, Form, check_pair, fold
from helpers.models import ModelConfig
from helpers.stitching import Outputs

ALPHAS = tuple(np.linspace(0, 1, 11).round(3).tolist())
Number = float | int


@dataclass(frozen=True, eq=False)
class Line:
    """``scores`` at each of ``alphas``, from A at 0 to B at 1."""

    alphas: tuple[float, ...]
    scores: tuple[Outputs, ...]

    @property
    def loss(self) -> Float[np.ndarray, " alphas"]:
        """Sum of the outputs' cross-entropies, in nats."""
        return np.array([one.total for one in self.scores])

    @property
    def accuracy(self) -> Float[np.ndarray, " alphas"]:
        """Mean over outputs."""
        return np.array([np.mean(list(one.accuracy.values())) for one in self.scores])

    @property
    def barrier(self) -> float:
        """Of the loss, in nats."""
        return barrier(self.alphas, self.loss)


def barrier(
    alphas: Sequence[Number] | Float[np.ndarray, " alphas"], loss: Float[np.ndarray, " losses"]
) -> float:
    """The largest height of the loss over the straight line between its ends.

    Raises:
        ValueError: alphas that do not rise from 0 to 1, or another number of losses.
    """
    _check(alphas)
    if len(alphas) != len(loss):
        raise ValueError(f"{len(loss)} losses for {len(alphas)} alphas.")
    at = np.asarray(alphas)
    return float(np.max(loss - (1 - at) * loss[0] - at * loss[-1]))


def blend(
    A: Form, B: Form, alpha: Number, subspace: Float[np.ndarray, "d r"] | None = None
) -> Form:
    """(1 − α) A + α B, or B with only the coordinates in a subspace of the stream so blended.

    With orthonormal columns Q of the ``subspace``, every row of the stream, whatever writes or
    reads it, becomes v_B + (1 − α) (v_A − v_B) Q Qᵀ; biases outside the stream stay B's.
    """
    check_pair(A, B)
    if subspace is None:
        return replace(
            A, **{n: (1 - alpha) * getattr(A, n) + alpha * getattr(B, n) for n in TENSORS}
        )
    changed = {}
    for name in (*WRITERS, *READERS):
        a, b = rows(A, name), rows(B, name)
        inside = (1 - alpha) * (a - b) @ subspace @ subspace.T
        changed[name] = from_rows(B, name, b + inside)
    return replace(B, **changed)


def raw_blend(
    A: Mapping[str, Tensor], B: Mapping[str, Tensor], alpha: Number, config: ModelConfig
) -> Form:
    """(1 − α) A + α B of the states as trained, norms and all; folded only then, to be run."""
    wrong = [n for n in {*A, *B} if n not in A or n not in B or A[n].shape != B[n].shape]
    if wrong:
        raise ValueError(f"both states need {sorted(wrong)[0]!r}, of one shape.")
    return fold({n: (1 - alpha) * A[n].double() + alpha * B[n].double() for n in A}, config)


def line(
    A: Form,
    B: Form,
    exam: Exam,
    alphas: Sequence[Number] = ALPHAS,
    *,
    subspace: Float[np.ndarray, "d r"] | None = None,
    dtype: torch.dtype = torch.float32,
) -> Line:
    """Scores along the line between two forms; ``subspace`` as in :func:`blend`.

    Raises:
        ValueError: alphas that do not rise from 0 to 1, or models of different sizes.
    """
    _check(alphas)
    scores = tuple(score(blend(A, B, alpha, subspace), exam, dtype) for alpha in alphas)
    return Line(tuple(map(float, alphas)), scores)


def raw_line(
    A: Mapping[str, Tensor],
    B: Mapping[str, Tensor],
    config: ModelConfig,
    exam: Exam,
    alphas: Sequence[Number] = ALPHAS,
    *,
    dtype: torch.dtype = torch.float32,
) -> Line:
    """Scores along the line between two states as trained.

    Raises:
        ValueError: alphas that do not rise from 0 to 1, or states that differ in a shape.
    """
    _check(alphas)
    scores = tuple(score(raw_blend(A, B, alpha, config), exam, dtype) for alpha in alphas)
    return Line(tuple(map(float, alphas)), scores)


def _check(alphas: Sequence[Number] | np.ndarray) -> None:
    if len(alphas) < 2 or alphas[0] != 0 or alphas[-1] != 1 or (np.diff(alphas) <= 0).any():
        raise ValueError(f"alphas must rise from 0 to 1; got {list(alphas)}.")
