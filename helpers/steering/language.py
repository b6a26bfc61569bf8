r"""Steering a language model: a difference of means over sentences, and what it makes likelier.

With :math:`\bar x^\pm` the mean over a class's sentences of the stream's mean over a sentence's
tokens, the direction is :math:`v = \bar x^+ - \bar x^-`.  A dose c adds c v at every position.  The
effect is the shift of

.. math:: \log P(a^+ \mid \text{prompt}) - \log P(a^- \mid \text{prompt})

in nats, for a pair of answers, where an answer of several tokens has the product of their
probabilities.  So any tokenizer will do, and lengths cancel in the shift.

Source: McCann 2026 (arXiv:2605.24577), steering of the Pythia-70m family; Turner et al. 2023
(arXiv:2308.10248), activation addition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from helpers.steering.contrasts import Contrast
from helpers.steering.directions import check_push

Tokenize = Callable[[Sequence[str]], list[list[int]]]
AT_ONCE = 512
"""Sequences in one forward pass."""
LOGITS_AT_ONCE = 2**26
"""Numbers that the logits of one forward pass hold, 256 MB: vocabularies can be large."""


def language_direction(
    bridge: Any, to_tokens: Tokenize, contrast: Contrast, site: str
) -> Float[np.ndarray, " d_model"]:
    """v of a contrast at a residual site, such as ``blocks.1.hook_resid_post``.

    Args:
        bridge: a TransformerBridge.
        to_tokens: token ids of each text; ``Pretrained.to_tokens`` of :mod:`helpers.pretrained`.
        contrast: the sentences.
        site: a hook point with the stream (batch, pos, d_model).

    Raises:
        ValueError: a site that the model does not have.
    """
    sentences = [*contrast.plus, *contrast.minus]
    tokens, real = padded(to_tokens(sentences))
    x = _stream(bridge, tokens, site).double()
    weight = real[:, :, None].double()
    means = (x * weight).sum(dim=1) / weight.sum(dim=1)
    plus, minus = means.split(len(contrast.plus))
    return (plus.mean(dim=0) - minus.mean(dim=0)).cpu().numpy()


class LanguageSteerer:
    """A language model that is steered behind one block; what stands before it runs once.

    Args:
        bridge: a TransformerBridge.
        to_tokens: as for :func:`language_direction`.
        contrast: its prompts and answers are asked.
        site: ``blocks.i.hook_resid_post``, with a block behind it.

    Raises:
        ValueError: another site, or the last block's.
    """

    def __init__(self, bridge: Any, to_tokens: Tokenize, contrast: Contrast, site: str) -> None:
        found = re.fullmatch(r"blocks\.(\d+)\.hook_resid_post", site)
        self.layer = int(found[1]) + 1 if found else bridge.cfg.n_layers
        if self.layer >= bridge.cfg.n_layers:
            raise ValueError(
                f"steer at blocks.i.hook_resid_post with i < {bridge.cfg.n_layers - 1}, so that a "
                f"block follows; got {site!r}."
            )
        self.bridge, self.shape = bridge, (len(contrast.prompts), len(contrast.answers), 2)
        texts = [
            (prompt, answer)
            for prompt in contrast.prompts
            for pair in contrast.answers
            for answer in pair
        ]
        rows, starts = [], []
        prompts = to_tokens([prompt for prompt, _ in texts])
        answers = _continuations(to_tokens, [answer for _, answer in texts])
        for prompt, answer in zip(prompts, answers, strict=True):
            rows.append([*prompt, *answer])
            starts.append(len(prompt))
        self.tokens, self.real = padded(rows)
        place = torch.arange(self.tokens.shape[1])
        asked = self.real & (place >= torch.tensor(starts)[:, None])
        self.asked = asked[:, 1:]  # by the position before
        self.stream = _stream(bridge, self.tokens, site)
        self.clean = self._scores(torch.zeros(1, self.stream.shape[-1]))[0]

    def __call__(
        self, direction: Float[np.ndarray, " d_model"], doses: Sequence[float | int]
    ) -> Float[np.ndarray, "doses prompts answers"]:
        """The shift in nats, for each dose, prompt and pair of answers.

        Raises:
            ValueError: a direction of another width, NaN or infinity, or no dose.
        """
        check_push(direction, doses, self.stream.shape[-1])
        added = torch.tensor([float(dose) for dose in doses])[:, None]
        return self._scores(added * torch.as_tensor(direction).float()) - self.clean

    def shifts(
        self, vectors: Float[np.ndarray, "m d_model"]
    ) -> Float[np.ndarray, "m prompts answers"]:
        """The shift in nats with each of m vectors added: as :meth:`__call__`, in fewer passes."""
        return self._scores(torch.as_tensor(vectors).float()) - self.clean

    @torch.no_grad()
    def _scores(self, added: Float[Tensor, "m d"]) -> Float[np.ndarray, "m prompts answers"]:
        """log P of the plus answer minus that of the minus one, with each vector added."""
        n, length = self.tokens.shape
        at_once = max(1, min(AT_ONCE, LOGITS_AT_ONCE // (length * self.bridge.cfg.d_vocab)))
        added, found = added.to(self.stream), []
        for pairs in torch.cartesian_prod(torch.arange(len(added)), torch.arange(n)).split(at_once):
            which, rows = pairs.T
            stream = self.stream[rows] + added[which][:, None]
            asked = self.asked[rows]
            logits = self.bridge(stream, start_at_layer=self.layer)[:, :-1][asked].double()
            right = self.tokens[rows, 1:][asked].to(logits.device)
            log_p = logits.log_softmax(dim=-1).gather(-1, right[:, None])[:, 0].cpu()
            total = torch.zeros(len(rows), dtype=torch.float64)
            found.append(total.index_add(0, asked.nonzero()[:, 0], log_p))
        scores = torch.cat(found).numpy().reshape(len(added), *self.shape)
        return scores[..., 0] - scores[..., 1]


def padded(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Tokens (n, longest), filled up behind with 0, and which of them are real, (n, longest)."""
    length = max(map(len, rows))
    tokens = torch.zeros(len(rows), length, dtype=torch.long)
    for i, row in enumerate(rows):
        tokens[i, : len(row)] = torch.tensor(row)
    return tokens, torch.arange(length) < torch.tensor([len(row) for row in rows])[:, None]


def _continuations(to_tokens: Tokenize, answers: Sequence[str]) -> list[list[int]]:
    """Tokens of texts that come behind another: without a token that begins a text."""
    rows = to_tokens(answers)
    first = {row[0] for row in to_tokens(["a", "1", "("])}
    begins = len(first) == 1  # three different texts that start alike start with BOS
    return [row[1:] if begins else row for row in rows]


@torch.no_grad()
def _stream(bridge: Any, tokens: Tensor, site: str) -> Float[Tensor, "n pos d"]:
    parts = []
    for part in tokens.split(AT_ONCE):
        _, cache = bridge.run_with_cache(part, names_filter=lambda name: name == site)
        if site not in cache:
            raise ValueError(f"the model has no hook point {site!r}; see its hook_dict.")
        parts.append(cache[site])
    return torch.cat(parts)
