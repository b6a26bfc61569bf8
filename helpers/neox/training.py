"""Next-token prediction on the corpus, as the trainer sees it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from helpers.models import ModelConfig
from helpers.neox.model import neox
from helpers.neox.text import Text, read_text
from helpers.tasks.prose import END, CorpusError
from helpers.tasks.streams import Shuffled
from helpers.training.autograd import AutogradLearner
from helpers.training.config import TrainConfig

N_EVAL = 64
"""Rows of documents not trained on, for the loss during training."""


@dataclass(frozen=True)
class Prose:
    """The text with hash ``sha256``, of these parts, under its own BPE of ``d_vocab`` tokens.

    Make it by :meth:`of`.  A batch is of rows of n_ctx + 1 tokens, cut from the training documents,
    which stand one after the other in one order; the seed draws the order of rows, anew each epoch.
    """

    sha256: str
    parts: tuple[str, ...]
    d_vocab: int = 2048

    @staticmethod
    def of(text: Text) -> Prose:
        """The task of learning this text."""
        return Prose(text.corpus.sha256, tuple(text.corpus.parts), text.parsed().get_vocab_size())

    def text(self) -> Text:
        """The text, from the installed packages.

        Raises:
            CorpusError: they give another one.
        """
        found = read_text(self.parts, d_vocab=self.d_vocab, expected=None)
        if found.corpus.sha256 != self.sha256:
            raise CorpusError(
                f"this run belongs to a text with SHA-256 {self.sha256[:12]}…; the installed "
                f"packages give {found.corpus.said()}. Make the task anew: Prose.of(read_text())."
            )
        return found

    def spec(self) -> dict[str, Any]:
        """The task as plain values."""
        return {"kind": "prose", **asdict(self), "parts": list(self.parts)}

    def learner(self, model: ModelConfig, config: TrainConfig, seed: int) -> AutogradLearner:
        """A GPT-NeoX at its start.

        Raises:
            ValueError: the model's vocabulary is not the tokenizer's, or dropout.
        """
        if model.d_vocab != self.d_vocab or config.dropout:
            raise ValueError(
                f"the tokenizer has {self.d_vocab} tokens, and there is no dropout; got d_vocab = "
                f"{model.d_vocab} and dropout = {config.dropout}."
            )
        return AutogradLearner(neox(model, seed), _loss, config)

    def batches(self, model: ModelConfig, config: TrainConfig, seed: int) -> RowStream:
        """Rows in the seed's order.

        Raises:
            ValueError: the recipe asks for a fixed set, or the text is shorter than one batch.
        """
        if config.n_sequences:
            raise ValueError("this task has its own rows: leave n_sequences at 0.")
        return RowStream(self.text().train, config.batch_size, model.n_ctx, seed)

    def evaluate(self, learner: AutogradLearner) -> dict[str, float]:
        """``held_out_loss``: mean cross-entropy on documents not trained on, in nats a token."""
        text = self.text()
        n_ctx = learner.net.config.max_position_embeddings
        rows = torch.from_numpy(held_out_rows(text, N_EVAL, n_ctx + 1)).long()
        with torch.no_grad():
            loss = _loss(learner.net, rows.numpy())
        return {"held_out_loss": float(loss)}


class RowStream:
    """Batches (batch, n_ctx + 1) of rows that do not overlap, shuffled each epoch."""

    def __init__(
        self, tokens: Int[np.ndarray, " tokens"], batch_size: int, n_ctx: int, seed: int
    ) -> None:
        n = len(tokens) // (n_ctx + 1)
        self.data = tokens[: n * (n_ctx + 1)].reshape(n, n_ctx + 1)
        self.rows = Shuffled(n, batch_size, np.random.default_rng([seed, 1]))

    def __next__(self) -> Int[np.ndarray, "batch pos"]:
        return self.data[next(self.rows)]

    def state(self) -> dict[str, Any]:
        """The position."""
        return self.rows.state()

    def load(self, state: dict[str, Any]) -> None:
        """Go to a position."""
        self.rows.load(state)


def held_out_rows(text: Text, n: int, length: int) -> Int[np.ndarray, "n length"]:
    """The first ``n`` rows of the held-out documents, ended by token 0 and put one after another.

    Raises:
        ValueError: there are fewer.
    """
    tokenizer, flat = text.parsed(), []
    end = tokenizer.token_to_id(END)
    for document in text.corpus.held_out:
        if len(flat) >= n * length:
            break
        flat += [*tokenizer.encode(document.text).ids, end]
    if len(flat) < n * length:
        raise ValueError(
            f"the held-out documents give {len(flat)} tokens, fewer than {n * length}."
        )
    return np.array(flat[: n * length], dtype=np.int32).reshape(n, length)


def next_token_logits(
    net: nn.Module, tokens: Int[Tensor, "batch pos"]
) -> Float[Tensor, "batch pos d_vocab"]:
    """Logits of the next token at every position."""
    return net(input_ids=tokens, use_cache=False).logits


def _loss(net: nn.Module, rows: np.ndarray) -> Tensor:
    tokens = torch.from_numpy(rows).long().to(net.device)
    logits = next_token_logits(net, tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def from_spec(spec: dict[str, Any]) -> Prose:
    """Rebuild a task from :meth:`Prose.spec`."""
    return Prose(spec["sha256"], tuple(spec["parts"]), spec["d_vocab"])
