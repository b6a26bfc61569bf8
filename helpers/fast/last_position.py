r"""A fast training step for tasks on two tokens (a, b), answered at b.

The model is :class:`helpers.models.SmallTransformer`, causal; only the logits at b count.  Four
things make a step cheap, and none of them changes what is computed:

- The first position sees itself alone, so its stream takes only p values: p rows, not one a pair.
- What the first layer's queries, keys and values read depends on one token: p rows a position.
- The last layer works at the last position only.
- Both passes are written out (:mod:`helpers.fast.parts`), without autograd, into memory that
  stays; all parameters lie in one vector (:mod:`helpers.fast.parameters`).

``tests/test_fast.py`` holds logits and gradients to those of the plain module.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from helpers.fast import kernels
from helpers.fast.parameters import Parameters
from helpers.fast.parts import Parts
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
        self._parts = Parts(self.parameters)
        self._tape: list[dict] = []

    def logits(self, a: Int[Tensor, " n"], b: Int[Tensor, " n"]) -> Float[Tensor, "n d_vocab"]:
        """Logits at the second position.  The next call writes over what backward needs."""
        config, parts = self.config, self._parts
        p, n, post = config.d_vocab, len(a), config.norm == "post"
        a, b = a.long(), b.long()
        _check_pairs(a, b, p)
        tokens, pos = self.parameters.tokens(), self.parameters.values["pos.weight"]
        x = torch.cat([tokens + pos[0], tokens + pos[1]])
        # The first layer reads 2p rows, a row a token and position; later ones p + n, of which
        # the last n are the pairs' second positions.
        first, second = a.numpy(), (p + b).numpy()
        self._tape = []
        for i in range(config.n_layers):
            name, more = f"layers.{i}", i < config.n_layers - 1
            normed, ln1 = parts.norm(f"{name}.ln1", x) if config.norm == "pre" else (x, ())
            qkv = parts.dense(f"{name}.attn.qkv", normed)
            z, attend = parts.attend(i, qkv, (first, second), more)
            rows = np.concatenate([np.arange(p), second]) if more else second
            mid = parts.dense_add(f"{name}.attn.o", z, x, rows)
            into, middle = parts.norm(f"{name}.{'ln1' if post else 'ln2'}", mid)
            hidden = parts.dense_relu(f"{name}.mlp.fc_in", into)
            base, every = (into if post else mid), np.arange(len(mid))
            tape = {"normed": normed, "ln1": ln1, "attend": attend, "rows": rows}
            tape |= {"z": z, "middle": middle, "into": into, "hidden": hidden}
            x = parts.dense_add(f"{name}.mlp.fc_out", hidden, base, every)
            if post:
                x, tape["ln2"] = parts.norm(f"{name}.ln2", x)
            self._tape.append(tape)
            second = np.arange(p, p + n)
        read, ln_out = parts.norm("ln_out", x)
        self._tape.append({"read": read, "ln_out": ln_out})
        return read @ self.parameters.values["head.weight"].T

    def backward(self, dlogits: Float[Tensor, "n d_vocab"]) -> None:
        """Write the gradient of every parameter, from that of the last logits."""
        parts, end, p = self._parts, self._tape[-1], self.config.d_vocab
        torch.mm(dlogits.T, end["read"], out=self.parameters.grads["head.weight"])
        dx = dlogits @ self.parameters.values["head.weight"]
        dx = parts.norm_back("ln_out", end["ln_out"], dx)
        for i in reversed(range(self.config.n_layers)):
            dx = self._layer_back(i, dx)
        torch.sum(dx.unflatten(0, (2, p)), 1, out=self.parameters.grads["pos.weight"])
        self.parameters.set_token_grad(dx[:p] + dx[p:])

    def _layer_back(self, i: int, dx: Tensor) -> Tensor:
        norm, parts, tape, name = self.config.norm, self._parts, self._tape[i], f"layers.{i}"
        if norm == "post":
            dx = parts.norm_back(f"{name}.ln2", tape["ln2"], dx)
        dhidden = parts.dense_back(f"{name}.mlp.fc_out", tape["hidden"], dx)
        dhidden = parts.relu_back(f"{name}.mlp.fc_in", tape["hidden"], dhidden)
        dmid = parts.dense_back(f"{name}.mlp.fc_in", tape["into"], dhidden, bias=False)
        if norm == "post":
            dmid = parts.norm_back(f"{name}.ln1", tape["middle"], dmid.add_(dx))
        else:
            dmid = parts.norm_back(f"{name}.ln2", tape["middle"], dmid).add_(dx)
        dz = parts.dense_back(f"{name}.attn.o", tape["z"], dmid)
        dqkv = parts.attend_back(tape["attend"], dz)
        dnormed = parts.dense_back(f"{name}.attn.qkv", tape["normed"], dqkv)
        if norm == "pre":
            dnormed = parts.norm_back(f"{name}.ln1", tape["ln1"], dnormed)
        kernels.sum_rows(dnormed.numpy(), tape["rows"], dmid.numpy())
        return dnormed


def _check_pairs(a: Tensor, b: Tensor, p: int) -> None:
    """The kernels look at no bounds: a wrong token would read and write other memory."""
    if a.shape != b.shape or a.ndim != 1 or not len(a):
        raise ValueError(
            f"pairs are two rows of as many tokens; got {tuple(a.shape)} and {tuple(b.shape)}."
        )
    ends = [int(end) for x in (a, b) for end in torch.aminmax(x)]
    if min(ends) < 0 or max(ends) >= p:
        raise ValueError(f"tokens lie in 0…{p - 1}; got {min(ends)}…{max(ends)}.")


def _check_basis(basis: Tensor, p: int) -> None:
    if basis.ndim != 2 or len(basis) != p or not 1 <= basis.shape[1] <= p:
        raise ValueError(f"a basis of token embeddings is ({p}, r); got {tuple(basis.shape)}.")
    gap = (basis.T @ basis - torch.eye(basis.shape[1], dtype=basis.dtype)).abs().max()
    if not gap < 1e-5:
        raise ValueError(
            f"the basis' columns must be orthonormal; they are off by {float(gap):.2g}. "
            "Orthonormalise them first, for instance with torch.linalg.qr."
        )
