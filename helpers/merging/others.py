"""What a merged model is compared with: a stitched model and ensembles of the outputs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from helpers.alignment.maps import Alignment
from helpers.merging.exams import Exam, answer, grade
from helpers.merging.forms import Form, check_pair
from helpers.merging.passes import Net, advance, embed, logits
from helpers.stitching import Outputs

MEANS = ("log_probs", "probs")


@torch.no_grad()
def stitched(
    A: Form,
    B: Form,
    to_B: Alignment,
    site: str,
    exam: Exam,
    dtype: torch.dtype = torch.float32,
) -> Outputs:
    """A's layers up to ``site``, the map (x − mean_x) R + mean_y, and B's layers from there on.

    Fit the map on :func:`helpers.merging.exams.streams` of both forms, on other rows.  B is taken
    as it is: nothing of it is aligned.  At the first site all but A's embedding is B's; at the last
    one B gives the last norm and the unembedding.

    Raises:
        ValueError: models of different sizes, or a site that they do not have.
    """
    check_pair(A, B)
    first, second = Net.of(A, dtype), Net.of(B, dtype)
    at, mask = first.index(site), torch.from_numpy(exam.mask)
    R, mean_x, mean_y = (
        torch.as_tensor(part, dtype=dtype) for part in (to_B.R, to_B.mean_x, to_B.mean_y)
    )
    x = advance(first, embed(first, torch.from_numpy(exam.tokens)), 0, at)
    return grade(logits(second, (x - mean_x) @ R + mean_y, mask, at), exam)


def ensemble(
    forms: Sequence[Form], exam: Exam, mean: str, dtype: torch.dtype = torch.float32
) -> Outputs:
    """Several models' mean answer, output by output.

    ``"log_probs"``: the mean of log-probabilities, normalised again (the geometric mean);
    ``"probs"``: the mean of probabilities.

    Raises:
        ValueError: no model, or another kind of mean.
    """
    if not forms or mean not in MEANS:
        raise ValueError(f"give at least one model, and a mean of {MEANS}; got {mean!r}.")
    mix = _log_probs if mean == "log_probs" else _probs
    every = [answer(form, exam, dtype) for form in forms]
    mixed = torch.empty_like(every[0])
    for part in exam.outputs.values():
        mixed[:, part] = mix(torch.stack([values[:, part] for values in every]).log_softmax(-1))
    return grade(mixed, exam)


def _log_probs(log_probs: Tensor) -> Tensor:
    return log_probs.mean(0)


def _probs(log_probs: Tensor) -> Tensor:
    return log_probs.logsumexp(0)
