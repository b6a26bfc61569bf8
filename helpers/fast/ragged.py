r"""A fast training step for whole sequences of unequal lengths, answered at every position.

The model is :class:`helpers.dyck.model.DyckTransformer`.  What makes a step cheap changes nothing
of what is computed:

- Sequences lie one behind the other, without padding: a linear map sees the real tokens and no
  others, and attention's cost goes with a sequence's own length.
- Both passes are written out and compiled (:mod:`helpers.fast.ragged_passes`), without autograd,
  into memory that stays; all parameters lie in one vector, the frozen ones at its end.
- Small batches then cost no more a token than large ones.

``tests/test_dyck_training.py`` holds logits and gradients to those of the plain module.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from helpers.fast import ragged_kernels, ragged_passes
from helpers.fast.memory import empty

MAPS = ("attn.q", "attn.k", "attn.v", "attn.o", "mlp.fc_in", "mlp.fc_out", "ln1", "ln2")


class Tokens(NamedTuple):
    """Sequences without padding: sequence s has the places starts[s] … starts[s + 1] − 1."""

    tokens: Int[np.ndarray, " n"]
    positions: Int[np.ndarray, " n"]
    starts: Int[np.ndarray, " sequences_1"]

    @staticmethod
    def of(rows: Int[np.ndarray, "sequences pos"], mask: np.ndarray) -> Tokens:
        """What is real in these rows; a row's real places are its first."""
        lengths = mask.sum(axis=1)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        return Tokens(rows[mask], np.nonzero(mask)[1], starts)


class Layer(NamedTuple):
    """A layer's matrices (out, in) and gains, or their gradients."""

    qkv: np.ndarray
    o: np.ndarray
    fc_in: np.ndarray
    fc_out: np.ndarray
    ln1: np.ndarray
    ln2: np.ndarray


class Kept(NamedTuple):
    """What a layer leaves for its backward: a row a token, but for the patterns."""

    read1: np.ndarray
    rstd1: np.ndarray
    qkv: np.ndarray
    pattern: np.ndarray
    z: np.ndarray
    mid: np.ndarray
    read2: np.ndarray
    rstd2: np.ndarray
    hidden: np.ndarray


class Scratch(NamedTuple):
    """Gradients of activations; all layers share this memory."""

    qkv: np.ndarray
    z: np.ndarray
    mid: np.ndarray
    read: np.ndarray
    hidden: np.ndarray


class Ragged:
    """Forward and backward pass of one model.

    ``values`` and ``grads`` are views of ``flat`` and ``grad`` by the module's names.

    Args:
        state: the start, under ``DyckTransformer``'s names.
        n_heads: heads a layer.
        features: (n_ctx, 6) of the positions.
        last: names of parameters that shall stand at the vector's end, such as frozen ones.
    """

    def __init__(
        self,
        state: dict[str, Tensor],
        n_heads: int,
        features: Float[Tensor, "n_ctx 6"],
        last: tuple[str, ...] = (),
    ) -> None:
        self.n_heads, self.n_ctx = n_heads, len(features)
        self.n_layers = sum(name.endswith("ln1.weight") for name in state)
        layers = [f"layers.{i}.{name}.weight" for i in range(self.n_layers) for name in MAPS]
        names = [*layers, "ln_out.weight", "tok_embed.weight", "head.weight"]
        self.names = sorted(names, key=lambda name: name in last)  # stable: the rest as it was
        self.shapes = [state[name].shape for name in self.names]
        self.flat = torch.cat([state[name].flatten() for name in self.names])
        self.grad = torch.zeros_like(self.flat)
        self.fixed = {n: v.clone() for n, v in state.items() if n not in self.names}
        self.values, self.grads = self._views(self.flat), self._views(self.grad)
        self.table = (features @ self.fixed["pos_frame"]).numpy()
        self._layers = [self._layer(self.values, i) for i in range(self.n_layers)]
        self._dlayers = [self._layer(self.grads, i) for i in range(self.n_layers)]
        self._memory: dict[int, _Memory] = {}

    def _views(self, flat: Tensor) -> dict[str, Tensor]:
        parts = flat.split([math.prod(shape) for shape in self.shapes])
        named = zip(self.names, parts, self.shapes, strict=True)
        return {name: part.view(shape) for name, part, shape in named}

    def _layer(self, views: dict[str, Tensor], i: int) -> Layer:
        parts = [views[f"layers.{i}.{name}.weight"] for name in MAPS]
        d = parts[0].shape[1]
        qkv = parts[0].as_strided((3 * d, d), (d, 1))  # q, k and v are neighbours in the vector
        return Layer(qkv.numpy(), *(part.numpy() for part in parts[3:]))

    def forward(self, batch: Tokens) -> Float[np.ndarray, "n 51"]:
        """Logits, in memory that the next call over as many sequences writes over."""
        self._check(batch)
        sequences, n = len(batch.starts) - 1, len(batch.tokens)
        memory = self._memory.get(sequences)
        if memory is None:
            memory = self._memory[sequences] = _Memory(self, sequences)
        streams = [stream[:n] for stream in memory.streams]
        embedding = self.values["tok_embed.weight"].numpy()
        ragged_kernels.embed(batch.tokens, batch.positions, embedding, self.table, streams[0])
        for i, layer in enumerate(self._layers):
            reads = (memory.kept[i], streams[i], batch.starts, self.n_heads)
            ragged_passes.forward(layer, *reads, streams[i + 1])
        logits, read = memory.logits[:n], memory.read[:n]
        gain, head = (self.values[f"{name}.weight"].numpy() for name in ("ln_out", "head"))
        ragged_passes.unembed(streams[-1], gain, head, read, memory.rstd, logits)
        self._last = (batch, memory, streams)
        return logits

    def backward(self, dlogits: Float[np.ndarray, "n 51"]) -> None:
        """Write the gradient of every parameter, from that of the last logits."""
        batch, memory, streams = self._last
        n = len(batch.tokens)
        (gain, head), (dgain, dhead) = (
            (views["ln_out.weight"].numpy(), views["head.weight"].numpy())
            for views in (self.values, self.grads)
        )
        dx, read = memory.dstream[:n], memory.read[:n]
        saved = (streams[-1], gain, head, read, memory.rstd)
        dread = memory.scratch.read[:n]
        ragged_passes.unembed_back(dlogits, *saved, dgain, dhead, dread, dx)
        for i in reversed(range(self.n_layers)):
            both = (self._layers[i], self._dlayers[i], memory.kept[i], memory.scratch)
            ragged_passes.backward(*both, streams[i], batch.starts, self.n_heads, dx)
        ragged_kernels.embed_back(dx, batch.tokens, self.grads["tok_embed.weight"].numpy())

    def weights(self) -> dict[str, Tensor]:
        """Copies under the module's names, ready for ``load_state_dict``."""
        return {name: v.clone() for name, v in (self.values | self.fixed).items()}

    def _check(self, batch: Tokens) -> None:
        """The loops look at no bounds: a wrong number would read and write other memory."""
        tokens, positions, starts = batch
        vocabulary = len(self.values["tok_embed.weight"])
        if not (len(tokens) and 0 <= tokens.min() <= tokens.max() < vocabulary):
            raise ValueError(f"a batch has tokens, and they lie in 0…{vocabulary - 1}.")
        lengths = np.diff(starts)
        if starts[0] != 0 or starts[-1] != len(tokens) or lengths.min() < 1:
            raise ValueError("starts must rise from 0 to the number of tokens.")
        if len(positions) != len(tokens) or not 0 <= positions.min() <= positions.max():
            raise ValueError("every token has a position from 0 on.")
        if max(lengths.max(), positions.max() + 1) > self.n_ctx:
            raise ValueError(f"{lengths.max()} tokens do not fit in n_ctx = {self.n_ctx}.")


class _Memory:
    """For so many sequences; the longest that there may be."""

    def __init__(self, net: Ragged, sequences: int) -> None:
        rows, d = sequences * net.n_ctx, net.table.shape[1]
        d_mlp, patterns = len(net._layers[0].fc_in), rows * net.n_ctx * net.n_heads
        self.kept = [
            Kept(
                empty(rows, d),
                empty(rows),
                empty(rows, 3 * d),
                empty(patterns),
                empty(rows, d),
                empty(rows, d),
                empty(rows, d),
                empty(rows),
                empty(rows, d_mlp),
            )
            for _ in range(net.n_layers)
        ]
        self.streams = [empty(rows, d) for _ in range(net.n_layers + 1)]
        wide, hidden = empty(rows, 3 * d), empty(rows, d_mlp)
        self.scratch = Scratch(wide, empty(rows, d), empty(rows, d), empty(rows, d), hidden)
        self.logits = empty(rows, len(net.values["head.weight"]))
        self.read, self.rstd, self.dstream = empty(rows, d), empty(rows), empty(rows, d)
