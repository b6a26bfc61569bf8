r"""Margins: the few logits that a task looks at, without the rest of the vocabulary.

Output k is :math:`y_k = \sum_{t \in plus_k} \ell_t - \sum_{t \in minus_k} \ell_t` of the logits
:math:`\ell = W_U\,\mathrm{norm}(h) + b`.  Without a soft cap it is one vector,
:math:`y_k = \Delta W_k \cdot \mathrm{norm}(h) + \Delta b_k`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import nn


def _sides(side) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(t) for t in np.atleast_1d(np.asarray(entry))) for entry in side)


@dataclass(frozen=True)
class Outputs:
    """K margins, each the logits of ``plus[k]`` less those of ``minus[k]``.

    An entry is a token id or several of them, whose logits are summed: the verb pairs of the book
    are ``Outputs(plural_ids, singular_ids)``, its headline margin
    ``Outputs([[are, were]], [[is_, was]])``.

    Raises:
        ValueError: sides of different lengths, an empty one, or a negative id.
    """

    plus: Sequence | np.ndarray
    minus: Sequence | np.ndarray

    def __post_init__(self) -> None:
        plus, minus = _sides(self.plus), _sides(self.minus)
        if not plus or len(plus) != len(minus):
            raise ValueError(
                f"outputs need as many entries in plus as in minus, at least one; got {len(plus)} "
                f"and {len(minus)}."
            )
        ids = [t for entry in plus + minus for t in entry]
        if min(map(len, plus + minus)) == 0 or min(ids) < 0:
            raise ValueError("every output needs token ids from 0 up on both sides.")
        object.__setattr__(self, "plus", plus)
        object.__setattr__(self, "minus", minus)

    def __len__(self) -> int:
        """K, the number of margins."""
        return len(self.plus)

    @property
    def tokens(self) -> np.ndarray:
        """All ids that occur, sorted, each once (V,)."""
        return np.unique([t for entry in self.plus + self.minus for t in entry])

    @property
    def weights(self) -> np.ndarray:
        """The margins' coefficients (K, V) on the logits of ``tokens``."""
        tokens, weights = self.tokens, np.zeros((len(self), len(self.tokens)), dtype=np.float32)
        for sign, side in ((1, self.plus), (-1, self.minus)):
            for k, entry in enumerate(side):
                np.add.at(weights[k], np.searchsorted(tokens, entry), sign)
        return weights

    def of_logits(self, logits: Float[torch.Tensor, "*batch d_vocab"]) -> torch.Tensor:
        """Margins (…, K) from a whole vocabulary's logits: the plain formula."""
        tokens = torch.as_tensor(self.tokens, device=logits.device)
        weights = torch.as_tensor(self.weights, device=logits.device)
        return logits[..., tokens].float() @ weights.T


class Readout:
    """Margins from the residual stream before the final norm.

    Args:
        tail: the modules between the last block and the unembedding, in order.
        head: the unembedding, a linear layer over the vocabulary.
        softcap: c where the model caps logits as c · tanh(ℓ / c), else None.
        outputs: the margins.

    Raises:
        ValueError: an id beyond the vocabulary, or an unembedding that is not in memory.
    """

    def __init__(
        self, tail: Sequence[nn.Module], head: nn.Module, softcap: float | None, outputs: Outputs
    ) -> None:
        self.tail, self.head, self.softcap, self.outputs = tail, head, softcap, outputs
        W_U, b_U = head.weight, getattr(head, "bias", None)
        if W_U.device.type == "meta":
            raise ValueError(
                "the unembedding is offloaded, so its rows cannot be read. Load the model with a "
                "device map that keeps the output layer in memory."
            )
        if outputs.tokens[-1] >= len(W_U):
            raise ValueError(
                f"token id {outputs.tokens[-1]} is beyond this model's {len(W_U)} tokens. Take the "
                "ids from the model's own tokenizer."
            )
        with torch.no_grad():
            ids = torch.as_tensor(outputs.tokens, device=W_U.device)
            rows = W_U[ids].float()
            bias = torch.zeros_like(rows[:, 0]) if b_U is None else b_U[ids].float()
            weights = torch.as_tensor(outputs.weights, device=W_U.device)
            self.weights = weights
            self.rows = weights @ rows if softcap is None else rows
            self.bias = weights @ bias if softcap is None else bias

    def __call__(self, resid: Float[torch.Tensor, "*batch D"]) -> Float[torch.Tensor, "*batch K"]:
        """Margins in float32, whatever the model's own precision."""
        for module in self.tail:
            resid = module(resid)
        y = resid.to(self.rows.device).float() @ self.rows.T + self.bias
        if self.softcap is None:
            return y
        return (self.softcap * torch.tanh(y / self.softcap)) @ self.weights.T
