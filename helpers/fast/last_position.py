r"""A fast training step for tasks on two tokens (a, b), answered at b.

The model is :class:`helpers.models.SmallTransformer`, causal; only the logits at b count.  Four
things make a step cheap, and none of them changes what is computed:

- The first position sees itself alone, so its stream takes only p values: p rows, not one a pair.
- What the first layer's queries, keys and values read depends on one token: p rows a position.
- The last layer works at the last position only.
- Both passes are written out and compiled (:mod:`helpers.fast.passes`), without autograd, into
  memory that stays (:mod:`helpers.fast.memory`); all parameters lie in one vector
  (:mod:`helpers.fast.parameters`).

``tests/test_fast.py`` holds logits and gradients to those of the plain module.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from helpers.fast import kernels, memory, passes
from helpers.fast.parameters import Parameters
from helpers.models import ModelConfig


class LastPosition:
    """Forward and backward pass of one model over pairs of tokens.

    Args:
        config: the model; ``n_ctx`` must be 2.
        seed: the initial weights are those of ``SmallTransformer(config, seed)``.
        basis: (d_vocab, r), orthonormal columns to whose span the token embedding is confined.
        code_scale: how many times larger than its projection the confined embedding starts.

    Raises:
        ValueError: another context than two tokens, or a basis that is not (d_vocab, r) and
            orthonormal.
    """

    def __init__(
        self, config: ModelConfig, seed: int, basis: Tensor | None = None, code_scale: float = 1.0
    ) -> None:
        if config.n_ctx != 2:
            raise ValueError(
                f"this step reads pairs of tokens: set n_ctx to 2, not {config.n_ctx}."
            )
        if basis is not None:
            _check_basis(basis, config.d_vocab)
        self.config = config
        self.parameters = Parameters(config, seed, basis, code_scale)
        self._plans: dict[int, _Plan] = {}
        self._last: _Plan | None = None

    def logits(self, a: Int[Tensor, " n"], b: Int[Tensor, " n"]) -> Float[Tensor, "n d_vocab"]:
        """Logits at the second position."""
        return torch.from_numpy(self.forward(a, b).copy())

    def backward(self, dlogits: Float[Tensor, "n d_vocab"]) -> None:
        """Write the gradient of every parameter, from that of the last logits."""
        self.send_back(dlogits.contiguous().numpy())

    def forward(self, a: Int[Tensor, " n"], b: Int[Tensor, " n"]) -> Float[np.ndarray, "n d_vocab"]:
        """Logits, in memory that the next call over as many pairs writes over."""
        p, n = self.config.d_vocab, len(a)
        a, b = a.long().numpy(), b.long().numpy()
        _check_pairs(a, b, p)
        plan = self._plans.get(n) or self._plans.setdefault(n, _Plan(self.parameters, n))
        plan.place(a, b)
        x = plan.embedded
        passes.embed(self.parameters.tokens().numpy(), plan.positions, x)
        plan.inputs = []
        for layer in plan.layers:
            plan.inputs.append(x)
            x = passes.forward(*layer.forward(x))
        plan.inputs.append(x)
        self._last = plan
        passes.unembed(plan.norm, x, plan.head, plan.logits)
        return plan.logits

    def send_back(self, dlogits: Float[np.ndarray, "n d_vocab"]) -> None:
        """As :meth:`backward`, from an array."""
        plan = self._last
        *inputs, x = plan.inputs
        dx = passes.unembed_back(plan.norm, x, plan.head, plan.dhead, dlogits, plan.scratch)
        for layer, x in zip(reversed(plan.layers), reversed(inputs), strict=True):
            dx = passes.backward(*layer.backward(x, plan.scratch, dx))
        passes.embed_back(dx, plan.dtokens, plan.dpositions)
        self.parameters.set_token_grad(torch.from_numpy(plan.dtokens))


class _Layer:
    """A layer's memory, and the rows that it reads."""

    def __init__(self, parameters: Parameters, i: int, rows: np.ndarray, pairs: tuple) -> None:
        config, n = parameters.config, len(pairs[0])
        norms = {"pre": ("ln1", "ln2", "-"), "post": ("-", "ln1", "ln2"), "none": "---"}
        rows_in = 2 * config.d_vocab if i == 0 else config.d_vocab + n
        heights = (rows_in, len(rows), len(rows))
        self.norms = tuple(
            memory.norm(parameters, f"layers.{i}.{name}", height)
            for name, height in zip(norms[config.norm], heights, strict=True)
        )
        self.weights, self.grads = memory.weights(parameters, i)
        kept = memory.activations(config, rows_in, len(rows), n)
        self.rest = (pairs, rows, len(rows) - n, config.n_heads)
        self.kept, self.shared = kept, i == 0

    def forward(self, x: np.ndarray) -> tuple:
        """What :func:`helpers.fast.passes.forward` wants."""
        return (self.weights, *self.norms, self.kept, x, *self.rest)

    def backward(self, x: np.ndarray, scratch: memory.Gradients, dout: np.ndarray) -> tuple:
        """What :func:`helpers.fast.passes.backward` wants."""
        both = (self.weights, self.grads)
        return (*both, *self.norms, self.kept, x, *self.rest, scratch, self.shared, dout)


class _Plan:
    """Memory for one number of pairs, and which rows they are in each layer."""

    def __init__(self, parameters: Parameters, n: int) -> None:
        config = parameters.config
        p, d = config.d_vocab, config.d_model
        # The first layer reads 2p rows, a row a token and position; later ones p + n, of which
        # the last n are the pairs' second positions.
        every = np.arange(p + n)
        self._first, self._rows = np.empty(n, np.int64), every.copy()
        self.layers = []
        for i in range(config.n_layers):
            rows = self._rows if i == 0 else every
            goes_on = rows if i < config.n_layers - 1 else rows[p:]
            self.layers.append(_Layer(parameters, i, goes_on, (self._first, rows[p:])))
        self.embedded, self.logits = memory.empty(2 * p, d), memory.empty(n, p)
        self.dtokens = memory.empty(p, d)
        self.positions = parameters.values["pos.weight"].numpy()
        self.dpositions = parameters.grads["pos.weight"].numpy()
        self.norm = memory.norm(parameters, "ln_out", n)
        self.head = parameters.values["head.weight"].numpy()
        self.dhead = parameters.grads["head.weight"].numpy()
        self.scratch = memory.gradients(config, max(p + n, 2 * p))
        self.inputs: list[np.ndarray] = []

    def place(self, a: np.ndarray, b: np.ndarray) -> None:
        """Read these pairs."""
        n = len(a)
        self._first[:] = a
        np.add(b, len(self._rows) - n, out=self._rows[-n:])


def _check_pairs(a: np.ndarray, b: np.ndarray, p: int) -> None:
    """The kernels look at no bounds: a wrong token would read and write other memory."""
    if a.shape != b.shape or a.ndim != 1 or not len(a):
        raise ValueError(
            f"pairs are two rows of as many tokens; got {tuple(a.shape)} and {tuple(b.shape)}."
        )
    check_tokens(a, p)
    check_tokens(b, p)


def check_tokens(tokens: np.ndarray, p: int) -> None:
    """Raise a ``ValueError`` unless all tokens are of the vocabulary."""
    low, high = kernels.ends(tokens)
    if low < 0 or high >= p:
        raise ValueError(f"tokens lie in 0…{p - 1}; got {low}…{high}.")


def _check_basis(basis: Tensor, p: int) -> None:
    if basis.ndim != 2 or len(basis) != p or not 1 <= basis.shape[1] <= p:
        raise ValueError(f"a basis of token embeddings is ({p}, r); got {tuple(basis.shape)}.")
    gap = (basis.T @ basis - torch.eye(basis.shape[1], dtype=basis.dtype)).abs().max()
    if not gap < 1e-5:
        raise ValueError(
            f"the basis' columns must be orthonormal; they are off by {float(gap):.2g}. "
            "Orthonormalise them first, for instance with torch.linalg.qr."
        )
