"""What the trainer drives: one model on pairs of tokens, with AdamW."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from helpers.fast import kernels
from helpers.fast.adamw import AdamW
from helpers.fast.last_position import LastPosition, check_tokens
from helpers.models import ModelConfig


class PairLearner:
    """Cross-entropy of c given (a, b), a step of AdamW at a time.

    Every parameter decays, biases and gains included, as ``torch.optim.AdamW`` does by default.

    Args:
        config: the model (two tokens).
        seed: its initial weights.
        betas, eps, weight_decay: AdamW's.
        clip: the largest norm of the whole gradient; 0 for no limit.
        basis, code_scale: see :class:`LastPosition`.
    """

    def __init__(
        self,
        config: ModelConfig,
        seed: int,
        *,
        betas: tuple[float, float],
        weight_decay: float,
        eps: float = 1e-8,
        clip: float = 0.0,
        basis: Tensor | None = None,
        code_scale: float = 1.0,
    ) -> None:
        self.net, self.clip = LastPosition(config, seed, basis, code_scale), clip
        parameters = self.net.parameters
        self._vector, self._grad = parameters.flat, parameters.grad
        self.optimizer = AdamW(self._vector, self._grad, betas, eps, weight_decay)

    def step(self, batch: tuple[Tensor, Tensor, Tensor], lr: float) -> Float[Tensor, ""]:
        """One step on (a, b, c), each (n,); returns the mean loss before it, in nats."""
        a, b, c = batch
        logits, answers = self.net.forward(a, b), c.long().numpy()
        check_tokens(answers, self.net.config.d_vocab)
        log_probs = torch.log_softmax(torch.from_numpy(logits), 1)
        dlogits = log_probs.exp().numpy()
        loss = kernels.cross_entropy(log_probs.numpy(), dlogits, answers)
        self.net.send_back(dlogits)
        if self.clip:
            norm = self._grad.norm()
            self._grad.mul_((self.clip / (norm + 1e-6)).clamp(max=1.0))
        self.optimizer.step(lr)
        return torch.tensor(loss, dtype=torch.float32)

    def accuracy(self, a: Int[Tensor, " n"], b: Int[Tensor, " n"], c: Int[Tensor, " n"]) -> Tensor:
        """Which of the answers are right, (n,) of bool."""
        return self.net.logits(a, b).argmax(1) == c

    def weights(self) -> dict[str, Tensor]:
        """Copies of the weights under ``SmallTransformer``'s names."""
        return self.net.parameters.weights()

    def state(self) -> dict[str, Tensor]:
        """All that a later start needs to go on with the same numbers."""
        return {"flat": self._vector.clone(), **self.optimizer.state()}

    def load(self, state: dict[str, Tensor]) -> None:
        """Go on from :meth:`state`.

        Raises:
            ValueError: the state belongs to a model of another size.
        """
        if state["flat"].shape != self._vector.shape:
            raise ValueError(
                f"this state has {len(state['flat'])} parameters, the model {len(self._vector)}; "
                "start from a run of the same model."
            )
        self._vector.copy_(state["flat"])
        self.optimizer.load(state)  # a state from before the first step has no moments
