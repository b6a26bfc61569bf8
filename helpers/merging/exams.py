"""Held-out data that any of the models is scored on: tokens, answers, and where they are asked."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from helpers.dyck.model import OUTPUTS
from helpers.merging.forms import Form
from helpers.merging.passes import Net, advance, embed, final, logits
from helpers.stitching import Outputs
from helpers.tasks import dyck
from helpers.tasks.addition import ModularAddition

ONE = {"answer": slice(None)}


@dataclass(frozen=True, eq=False)
class Exam:
    """``tokens`` (n, pos); ``mask`` (n, pos): where something is asked; ``answers`` (positions,
    outputs) there, row by row; ``outputs``: which logits belong to which output, by name; ``real``
    (n, pos): where there is a token at all, and not padding.

    Raises:
        ValueError: answers that are not one a position and output, or no position.
    """

    tokens: np.ndarray
    mask: np.ndarray
    answers: np.ndarray
    real: np.ndarray
    outputs: dict[str, slice] = field(default_factory=lambda: dict(ONE))

    def __post_init__(self) -> None:
        wanted = (int(self.mask.sum()), len(self.outputs))
        shapes = {self.tokens.shape, self.mask.shape, self.real.shape}
        if len(shapes) > 1 or self.answers.shape != wanted or not wanted[0]:
            raise ValueError(
                f"tokens {self.tokens.shape}, mask {self.mask.shape}, real {self.real.shape} and "
                f"answers {self.answers.shape} do not fit: give one answer a position and output, "
                f"{wanted}, and at least one position."
            )


def next_token_exam(sequences: Int[np.ndarray, "n length"]) -> Exam:
    """The next token at every position but the last."""
    tokens = sequences[:, :-1]
    everywhere = np.ones(tokens.shape, bool)
    return Exam(tokens, everywhere, sequences[:, 1:].reshape(-1, 1), everywhere)


def addition_exam(task: ModularAddition, rows: Int[np.ndarray, " n"]) -> Exam:
    """(a + b) mod p at b, for these rows of ``task.pairs``.

    Two seeds train on different pairs.  Held out for both are those in both test sets.
    """
    tokens = task.pairs[rows]
    mask = np.zeros(tokens.shape, bool)
    mask[:, -1] = True
    return Exam(tokens, mask, task.answers[rows][:, None], np.ones(tokens.shape, bool))


def dyck_exam(rows: Int[np.ndarray, "n 64"]) -> Exam:
    """Copy, depth and sticky at every real position; ``rows`` of :mod:`helpers.tasks.dyck`."""
    labels = dyck.label(rows)
    answers = np.stack([getattr(labels, name)[labels.mask] for name in OUTPUTS], axis=1)
    return Exam(rows, labels.mask, answers, labels.mask, dict(OUTPUTS))


@torch.no_grad()
def answer(
    form: Form, exam: Exam, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "positions n_logits"]:
    """A model's logits at the positions of the exam."""
    net = Net.of(form, dtype)
    return logits(net, embed(net, torch.from_numpy(exam.tokens)), torch.from_numpy(exam.mask))


def grade(values: Float[Tensor, "positions n_logits"], exam: Exam) -> Outputs:
    """Mean cross-entropy (nats) and accuracy of each output; ``total`` is what training minimises.

    Log-probabilities do as well as logits.
    """
    loss, accuracy = {}, {}
    for k, (name, part) in enumerate(exam.outputs.items()):
        right, found = torch.from_numpy(exam.answers[:, k]), values[:, part]
        loss[name] = float(F.cross_entropy(found, right, reduction="none").double().mean())
        accuracy[name] = float((found.argmax(dim=1) == right).double().mean())
    return Outputs(loss, accuracy)


def score(form: Form, exam: Exam, dtype: torch.dtype = torch.float32) -> Outputs:
    """A model's loss and accuracy."""
    return grade(answer(form, exam, dtype), exam)


@torch.no_grad()
def streams(form: Form, exam: Exam) -> dict[str, Float[np.ndarray, "positions d_model"]]:
    """The residual stream at all real positions, asked or not, at every site (float64)."""
    net = Net.of(form, torch.float64)
    x, mask, found = embed(net, torch.from_numpy(exam.tokens)), torch.from_numpy(exam.real), {}
    for k, site in enumerate(net.sites):
        x = advance(net, x, k - 1, k) if k else x
        found[site] = x[mask].numpy()
    return found


@torch.no_grad()
def read_by_unembedding(form: Form, exam: Exam) -> Float[np.ndarray, "positions d_model"]:
    """What the unembedding reads, after the last norm (float64)."""
    net, mask = Net.of(form, torch.float64), torch.from_numpy(exam.mask)
    return final(net, embed(net, torch.from_numpy(exam.tokens)), mask).numpy()
