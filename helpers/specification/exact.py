r"""The first specification: the exact algorithm, whose answer at every position is one-hot.

With the right answer y of an output, KL(one-hot ‖ model) is the model's cross-entropy,

.. math:: \mathrm{KL} = -\log q_y = s + \log\Bigl(e^{-s} + \sum_{j \ne y} e^{l_j - l_y - s}\Bigr),
          \qquad s = \max(0, \max_j l_j - l_y),

which is computed as it stands here, with log1p.  A softmax in single precision would round all that
is below 6e-8 to zero, and a good model's loss lies there at most positions.

Source: McCann 2026 (small scale, bar B), whose bar B is this cross-entropy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from helpers.dyck.model import N_LOGITS, OUTPUTS
from helpers.tasks.dyck import Labels, label


@dataclass(frozen=True)
class Exact:
    """The labeller of :mod:`helpers.tasks.dyck` as a specification."""

    def targets(self, rows: Int[np.ndarray, "n pos"]) -> Labels:
        """The right answers, by output, and which places are real."""
        return label(rows)

    def log_probs(self, rows: Int[np.ndarray, "n pos"]) -> Float[np.ndarray, "n pos 51"]:
        """Log-probabilities of every output, side by side: 0 at the right answer, −∞ elsewhere."""
        labels, values = label(rows), np.full((*rows.shape, N_LOGITS), -np.inf)
        for name, part in OUTPUTS.items():
            answers = part.start + getattr(labels, name)
            np.put_along_axis(values, answers[:, :, None], 0.0, axis=2)
        return values

    def kl(
        self,
        rows: Int[np.ndarray, "n pos"],
        labels: Labels,
        logits: Float[np.ndarray, "positions 51"],
    ) -> Float[np.ndarray, "positions 3"]:
        """KL(one-hot ‖ model) in nats at every real position, by output.

        ``logits`` are the model's at the real positions, row by row.

        Raises:
            ValueError: logits of another number of positions, NaN or infinity.
        """
        check_logits(logits, labels)
        found = []
        for name, part in OUTPUTS.items():
            answers = getattr(labels, name)[labels.mask]
            found.append(cross_entropy(logits[:, part], answers))
        return np.stack(found, axis=1)


def cross_entropy(
    logits: Float[np.ndarray, "n classes"], answers: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """−log softmax at the right answer, in nats and double precision; see the module's head."""
    gaps = logits.astype(np.float64)
    row = np.arange(len(gaps))
    gaps -= gaps[row, answers][:, None]
    shift = gaps.max(axis=1)  # at least 0, the right answer's own gap
    gaps -= shift[:, None]
    np.exp(gaps, out=gaps)
    gaps[row, answers] = 0
    return shift + np.log1p(np.expm1(-shift) + gaps.sum(axis=1))


def check_logits(logits: Float[np.ndarray, "positions 51"], labels: Labels) -> None:
    """Raise a ``ValueError`` for logits of other positions than the labels', NaN or infinity."""
    if len(logits) != labels.mask.sum():
        raise ValueError(
            f"logits must be of the {int(labels.mask.sum())} real positions, row by row; got "
            f"{len(logits)}."
        )
    if not np.isfinite(logits).all():
        raise ValueError("the model's logits hold NaN or infinity; did training diverge?")
