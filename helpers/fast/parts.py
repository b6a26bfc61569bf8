"""The parts of a transformer with both passes written out, into memory that is there already.

Each backward writes the gradients of its weights and returns that of its input.  What a part
returns is its own memory: the next call of the same part with the same shape writes over it.
Matrix products are PyTorch's, the rest is :mod:`helpers.fast.kernels`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from helpers.fast import kernels
from helpers.fast.parameters import Parameters

EPS = np.float32(1e-5)  # PyTorch's own for LayerNorm


class Parts:
    """Dense layers, norms and two-position attention over one set of parameters."""

    def __init__(self, parameters: Parameters) -> None:
        self.config = parameters.config
        self.values, self.grads = parameters.values, parameters.grads
        self._arrays = {name: value.detach().numpy() for name, value in self.values.items()}
        self._grad_arrays = {name: value.numpy() for name, value in self.grads.items()}
        self._buffers: dict[tuple, tuple[Tensor, np.ndarray]] = {}

    def buffer(self, slot: str, *shape: int) -> tuple[Tensor, np.ndarray]:
        """Memory of this shape that belongs to ``slot``, as a tensor and as an array."""
        key = (slot, shape)
        if key not in self._buffers:
            tensor = torch.empty(shape)
            self._buffers[key] = tensor, tensor.numpy()
        return self._buffers[key]

    def dense(self, name: str, x: Tensor) -> Tensor:
        """x Wᵀ + b."""
        W = self.values[f"{name}.weight"]
        out, _ = self.buffer(f"out {name}", len(x), len(W))
        return torch.addmm(self.values[f"{name}.bias"], x, W.T, out=out)

    def dense_relu(self, name: str, x: Tensor) -> Tensor:
        """max(x Wᵀ + b, 0)."""
        W = self.values[f"{name}.weight"]
        out, array = self.buffer(f"out {name}", len(x), len(W))
        torch.mm(x, W.T, out=out)
        kernels.relu_bias(array, self._arrays[f"{name}.bias"])
        return out

    def dense_add(self, name: str, x: Tensor, other: Tensor, rows: np.ndarray) -> Tensor:
        """x Wᵀ + b + other[rows]."""
        W = self.values[f"{name}.weight"]
        out, array = self.buffer(f"out {name}", len(x), len(W))
        torch.mm(x, W.T, out=out)
        kernels.add_rows(array, self._arrays[f"{name}.bias"], other.numpy(), rows)
        return out

    def dense_back(self, name: str, x: Tensor, dy: Tensor, *, bias: bool = True) -> Tensor:
        """dW = dyᵀ x, db = Σ dy; returns dy W.  ``bias=False`` where db is written already."""
        torch.mm(dy.T, x, out=self.grads[f"{name}.weight"])
        if bias:
            torch.sum(dy, 0, out=self.grads[f"{name}.bias"])
        out, _ = self.buffer(f"back {name.rpartition('.')[2]}", len(dy), x.shape[1])
        return torch.mm(dy, self.values[f"{name}.weight"], out=out)

    def relu_back(self, name: str, hidden: Tensor, dhidden: Tensor) -> Tensor:
        """Gradient before the ReLU, in place, and the gradient of layer ``name``'s bias."""
        bias = self._grad_arrays[f"{name}.bias"]
        kernels.relu_back(dhidden.numpy(), hidden.numpy(), bias)
        return dhidden

    def norm(self, name: str, x: Tensor) -> tuple[Tensor, tuple]:
        """LayerNorm and what its backward needs; the identity where the model has no such norm."""
        if f"{name}.weight" not in self.values:
            return x, ()
        y, y_array = self.buffer(f"norm {name}", *x.shape)
        _, xhat = self.buffer(f"xhat {name}", *x.shape)
        _, rstd = self.buffer(f"rstd {name}", len(x))
        gain, bias = self._arrays[f"{name}.weight"], self._arrays[f"{name}.bias"]
        kernels.norm(x.numpy(), gain, bias, EPS, y_array, xhat, rstd)
        return y, (xhat, rstd)

    def norm_back(self, name: str, saved: tuple, dy: Tensor) -> Tensor:
        """Gradient of the norm's input."""
        if not saved:
            return dy
        gain, grads = self._arrays[f"{name}.weight"], self._grad_arrays
        dx, dx_array = self.buffer(f"norm back {name}", *dy.shape)
        dgain, dbias = grads[f"{name}.weight"], grads[f"{name}.bias"]
        kernels.norm_back(dy.numpy(), *saved, gain, dx_array, dgain, dbias)
        return dx

    def attend(
        self, layer: int, qkv: Tensor, rows: tuple, keep_first: bool
    ) -> tuple[Tensor, tuple]:
        """z from the rows of qkv, whose first p belong to the first position.

        ``rows`` holds, for each pair, the row of its first and of its second position.  The first
        position attends to itself alone: its z = v, put before the pairs' with ``keep_first``.
        """
        p, d = self.config.d_vocab, self.config.d_model
        first, second = rows
        skip = p if keep_first else 0
        z, z_array = self.buffer(f"z {layer}", skip + len(first), d)
        _, w = self.buffer(f"w {layer}", len(first), self.config.n_heads)
        z[:skip] = qkv[:skip, 2 * d :]
        kernels.attend(qkv.numpy(), first, second, self.config.n_heads, z_array[skip:], w)
        return z, (qkv.numpy(), first, second, w, skip)

    def attend_back(self, saved: tuple, dz: Tensor) -> Tensor:
        """Gradient of qkv from that of z."""
        qkv, first, second, w, skip = saved
        dqkv, array = self.buffer("dqkv", *qkv.shape)
        dqkv.zero_()
        dqkv[:skip, 2 * self.config.d_model :] = dz[:skip]
        kernels.attend_back(dz.numpy()[skip:], qkv, first, second, w, array)
        return dqkv
