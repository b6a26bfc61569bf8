r"""Several SAEs side by side, one batched product for all, with the gradient written out.

For one SAE and a minibatch x (B, d_in), with x' = x − b_dec and the residual r = x̂ − x,

.. math:: L = \frac1B \sum_b \Bigl(\lVert r_b\rVert^2 + \lambda \sum_i f_{bi}\Bigr),

.. math::
    g_r = 2r/B, \quad \partial W_{dec} = f^\top g_r, \quad
    g_h = (g_r W_{dec}^\top + \lambda/B) \odot [f > 0], \quad
    \partial W_{enc} = x'^\top g_h, \quad \partial b_{enc} = \textstyle\sum_b g_h, \quad
    \partial b_{dec} = \textstyle\sum_b g_r - \partial b_{enc} W_{enc}^\top .

That is five products a step, of which autograd makes six.  A top-k code needs only the first one,
and a few rows of the others (:mod:`helpers.fast.top_k`).  Every sum is over one SAE's entries, so
each is trained as it would be alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real

import torch
from jaxtyping import Float
from torch import Tensor

from helpers.fast.top_k import top_k_step
from helpers.sae.model import SAE, ReluSAE, TopKSAE


class Stack:
    """m SAEs whose weights are views of one vector ``x``, and their gradients views of ``grad``.

    W_enc_rows (m, d_sae, d_in), the encoder by features, W_dec (m, d_sae, d_in), b_enc (m, 1,
    d_sae), b_dec (m, 1, d_in).  Decoder rows start uniform on the sphere, the encoder as the
    decoder's transpose, b_enc at 0, b_dec at ``centre``.  SAE j's start depends on
    ``init_seeds[j]`` and its centre alone, wherever it stands.
    """

    def __init__(
        self,
        centre: Float[Tensor, "m d_in"],
        d_sae: int,
        init_seeds: Sequence[int],
        *,
        l1: Real,
        k: int | None,
    ) -> None:
        m, d_in = centre.shape
        self.l1, self.k = l1, k
        sizes = {
            "W_enc_rows": (m, d_sae, d_in),
            "W_dec": (m, d_sae, d_in),
            "b_enc": (m, 1, d_sae),
            "b_dec": (m, 1, d_in),
        }
        length = 2 * m * d_in * d_sae + m * (d_in + d_sae)
        self.x = torch.zeros(length, device=centre.device)
        self.grad = torch.zeros_like(self.x)
        self.weights, self.grads = _views(self.x, sizes), _views(self.grad, sizes)
        self.weights["b_dec"].copy_(centre[:, None])
        for j, seed in enumerate(init_seeds):
            # drawn on the CPU, so that a seed means the same weights on every device
            rows = torch.randn(d_sae, d_in, generator=torch.Generator().manual_seed(seed))
            rows /= rows.norm(dim=1, keepdim=True)
            self.weights["W_dec"][j] = rows
            self.weights["W_enc_rows"][j] = rows
        self._kept = torch.empty(0)

    def backward(self, x: Float[Tensor, "m B d_in"]) -> Float[Tensor, " m"]:
        """Fill ``grad`` for the minibatch; the loss L of each SAE."""
        w, g = self.weights, self.grads
        shape = (2, len(x), x.shape[1], w["b_enc"].shape[2])
        if self._kept.shape != shape:  # kept between steps: fresh memory costs time
            self._kept = x.new_empty(shape)
        if self.k is not None and x.device.type == "cpu":
            loss = self._backward_by_rows(x)
        else:
            loss = self._backward_dense(x)
        g["b_dec"].sub_(torch.bmm(g["b_enc"], w["W_enc_rows"]))
        self._project()
        return loss

    def _backward_by_rows(self, x: Tensor) -> Tensor:
        w, g = self.weights, self.grads
        pre = torch.bmm(x - w["b_dec"], w["W_enc_rows"].mT, out=self._kept[0])
        loss = torch.empty(len(x))
        names = ("W_enc_rows", "W_dec", "b_enc", "b_dec")
        arrays = [part[name].numpy() for part in (w, g) for name in names]
        top_k_step(self.k, pre.numpy(), x.numpy(), *arrays, loss.numpy())
        return loss

    def _backward_dense(self, x: Tensor) -> Tensor:
        w, g, B = self.weights, self.grads, x.shape[1]
        centred, (f, back) = x - w["b_dec"], self._kept
        torch.baddbmm(w["b_enc"], centred, w["W_enc_rows"].mT, out=f)
        if self.k is not None:
            values, places = f.topk(self.k, dim=-1, sorted=False)
            f.zero_().scatter_(-1, places, values)
        f.clamp_(min=0)
        r = torch.baddbmm(w["b_dec"], f, w["W_dec"]).sub_(x)
        loss = (r.square().sum(dim=(1, 2)) + self.l1 * f.sum(dim=(1, 2))) / B
        r *= 2 / B
        torch.bmm(f.mT, r, out=g["W_dec"])
        torch.bmm(r, w["W_dec"].mT, out=back)
        back += self.l1 / B
        torch.ops.aten.threshold_backward(back, f, 0.0, grad_input=back)  # times [f > 0]
        torch.bmm(back.mT, centred, out=g["W_enc_rows"])
        torch.sum(back, dim=1, keepdim=True, out=g["b_enc"])
        torch.sum(r, dim=1, keepdim=True, out=g["b_dec"])
        return loss

    def _project(self) -> None:
        """Take from ∂W_dec what would only change the rows' lengths."""
        rows, grad = self.weights["W_dec"], self.grads["W_dec"]
        grad.addcmul_((grad * rows).sum(dim=2, keepdim=True), rows, value=-1)

    def renormalise(self) -> None:
        """Give the decoder's rows length 1 again, after a step."""
        rows = self.weights["W_dec"]
        rows /= torch.linalg.vector_norm(rows, dim=2, keepdim=True)

    def sae(self, j: int, scale: float = 1.0) -> SAE:
        """SAE j for raw activations, where the stack has seen scale · x.

        σ is positively homogeneous, so biases over ``scale`` make the same SAE in other units.
        """
        rows, W_dec, b_enc, b_dec = (value[j].clone() for value in self.weights.values())
        weights = (rows.T.contiguous(), b_enc[0] / scale, W_dec, b_dec[0] / scale)
        return ReluSAE(*weights) if self.k is None else TopKSAE(*weights, self.k)


def _views(vector: Tensor, sizes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    parts = vector.split([torch.Size(shape).numel() for shape in sizes.values()])
    return {name: part.view(sizes[name]) for name, part in zip(sizes, parts, strict=True)}
