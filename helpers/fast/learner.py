"""What the trainer drives: one model on pairs of tokens, with AdamW."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from helpers.fast.last_position import LastPosition
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
        self._vector = parameters.flat
        self._vector.grad = parameters.grad
        self.optimizer = torch.optim.AdamW(
            [self._vector], 1e-3, betas, eps, weight_decay, fused=True
        )

    def step(self, batch: tuple[Tensor, Tensor, Tensor], lr: float) -> Float[Tensor, ""]:
        """One step on (a, b, c), each (n,); returns the mean loss before it, in nats."""
        a, b, c = batch
        log_probs = torch.log_softmax(self.net.logits(a, b), dim=1)
        loss = F.nll_loss(log_probs, c)
        dlogits = log_probs.exp_()
        dlogits.scatter_add_(1, c[:, None], dlogits.new_full((len(c), 1), -1.0))
        self.net.backward(dlogits.div_(len(c)))
        if self.clip:
            norm = self._vector.grad.norm()
            self._vector.grad.mul_((self.clip / (norm + 1e-6)).clamp(max=1.0))
        self.optimizer.param_groups[0]["lr"] = lr
        self.optimizer.step()
        return loss

    def accuracy(self, a: Int[Tensor, " n"], b: Int[Tensor, " n"], c: Int[Tensor, " n"]) -> Tensor:
        """Which of the answers are right, (n,) of bool."""
        return self.net.logits(a, b).argmax(1) == c

    def weights(self) -> dict[str, Tensor]:
        """Copies of the weights under ``SmallTransformer``'s names."""
        return self.net.parameters.weights()

    def state(self) -> dict[str, Tensor]:
        """All that a later start needs to go on with the same numbers."""
        moments = self.optimizer.state.get(self._vector, {})
        return {"flat": self._vector.clone(), **{k: v.clone() for k, v in moments.items()}}

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
        moments = {k: v.clone() for k, v in state.items() if k != "flat"}
        self.optimizer.state.clear()  # a state from before the first step has no moments
        if moments:
            self.optimizer.state[self._vector] = moments
