"""Two models in one: A's layers up to a site, a map, and B's layers from there on.

If A's residual stream is B's in another basis, B must be able to go on from it after the right
rotation, and lose nothing.  Unlike a similarity of activations, this asks whether B can *use* them.

Source: Lenc & Vedaldi 2015 (arXiv:1411.5908); Bansal, Nakkiran & Barak 2021 (arXiv:2106.07682), on
stitching.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from helpers.alignment.maps import Alignment
from helpers.dyck.model import OUTPUTS
from helpers.tasks.dyck import Labels

if TYPE_CHECKING:
    from helpers.dyck.hooked import HookedDyck

AT_ONCE = 256
"""Sequences in one forward pass."""


@dataclass(frozen=True)
class Outputs:
    """Mean cross-entropy (nats) and accuracy by output, copy, depth and sticky, over positions."""

    loss: dict[str, float]
    accuracy: dict[str, float]

    @property
    def total(self) -> float:
        """Sum of the three losses, which training minimises."""
        return sum(self.loss.values())


def score(logits: Float[Tensor, "n pos 51"], labels: Labels) -> Outputs:
    """Losses and accuracies over the real positions.

    Raises:
        ValueError: logits of other rows than the labels, or no real position.
    """
    if tuple(logits.shape[:2]) != labels.mask.shape or not labels.mask.any():
        raise ValueError(
            f"logits {tuple(logits.shape)} and labels {labels.mask.shape} must be of the same "
            "rows, with at least one real position."
        )
    real = logits[torch.from_numpy(labels.mask)].double()
    loss, accuracy = {}, {}
    for name, part in OUTPUTS.items():
        answers = torch.from_numpy(getattr(labels, name)[labels.mask]).long()
        loss[name] = float(F.cross_entropy(real[:, part], answers))
        accuracy[name] = float((real[:, part].argmax(dim=1) == answers).double().mean())
    return Outputs(loss, accuracy)


def constant(labels: Labels) -> Outputs:
    """The best that one answer for all positions can do: their frequencies *in these very rows*.

    The loss is the entropy of the answers, the accuracy the share of the commonest.

    Raises:
        ValueError: no real position.
    """
    if not labels.mask.any():
        raise ValueError("the labels hold no real position.")
    loss, accuracy = {}, {}
    for name in OUTPUTS:
        share = np.bincount(getattr(labels, name)[labels.mask]) / labels.mask.sum()
        share = share[share > 0]
        loss[name], accuracy[name] = float(-(share * np.log(share)).sum()), float(share.max())
    return Outputs(loss, accuracy)


@dataclass(frozen=True, eq=False)
class Stitch:
    """B from ``site`` on, fed with A's residual stream ``stream`` (n, pos, d_model) there.

    Calling it with a map from A's activations to B's gives the loss of the two together.

    Args:
        stream: A's, on the rows of ``labels``, see :func:`helpers.cross_model.activations.streams`.
        B: the model that goes on.
        site: a residual stream site, one of ``B.sites``.
        labels: the right answers.

    Raises:
        ValueError: a stream of other rows than the labels.
    """

    stream: Tensor
    B: HookedDyck
    site: str
    labels: Labels

    def __post_init__(self) -> None:
        if tuple(self.stream.shape[:2]) != self.labels.mask.shape:
            raise ValueError(
                f"the stream {tuple(self.stream.shape)} and the labels {self.labels.mask.shape} "
                "must be of the same rows."
            )

    @torch.no_grad()
    def __call__(self, to_B: Alignment) -> Outputs:
        """Loss and accuracy with this map between the two."""
        like = self.B.W_U
        R, mean_x, mean_y = (
            torch.as_tensor(part).to(like.device, like.dtype)
            for part in (to_B.R, to_B.mean_x, to_B.mean_y)
        )
        logits = [
            self.B(start_at=self.site, resid=(part.to(like) - mean_x) @ R + mean_y).cpu()
            for part in self.stream.split(AT_ONCE)
        ]
        return score(torch.cat(logits), self.labels)
