"""Exact symmetries of the bracket model's weights: other weights, the same function.

Both take a state as :class:`helpers.dyck.model.DyckTransformer` has it, and return a new one.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

QKV = ("attn.q.weight", "attn.k.weight", "attn.v.weight")
READS = {"ln1.weight": QKV, "ln2.weight": ("mlp.fc_in.weight",)}  # behind each norm of a layer
WRITES = ("attn.o.weight", "mlp.fc_out.weight")
ROWS = ("tok_embed.weight", "pos_frame")  # whose rows are vectors of the residual stream


def fold_norms(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Every gain moved into the linear maps that read it: W ← W diag(gain), gain ← 1."""
    folded = {name: value.clone() for name, value in state.items()}
    for gain, maps in _readers(state).items():
        for name in maps:
            folded[name] = state[name] * state[gain]
        folded[gain] = torch.ones_like(state[gain])
    return folded


def rotate(state: dict[str, Tensor], R: Float[Tensor, "d_model d_model"]) -> dict[str, Tensor]:
    """The same function in another basis of the residual stream: x ↦ x R at every site.

    Rows of embedding and position frame become x R, maps that read W R, maps that write Rᵀ W.
    RMSNorm without gains commutes with R, so logits stay as they are.

    Raises:
        ValueError: R is not orthogonal, not of the stream's size, or gains are not folded.
    """
    d = state["tok_embed.weight"].shape[1]
    R = R.to(state["tok_embed.weight"])
    if R.shape != (d, d):
        raise ValueError(f"a rotation of this stream is ({d}, {d}); got {tuple(R.shape)}.")
    gap = float((R.T @ R - torch.eye(d).to(R)).abs().max())
    if not gap < 1e-4:
        raise ValueError(f"R must be orthogonal; RᵀR is off by {gap:.2g}.")
    readers = _readers(state)
    for gain in readers:
        if not torch.all(state[gain] == 1):
            raise ValueError(
                f"{gain} is not 1, and a norm with gains does not commute with a rotation: take "
                "fold_norms(state) first."
            )
    turned = {name: value.clone() for name, value in state.items()}
    for name in (*ROWS, *(name for maps in readers.values() for name in maps)):
        turned[name] = state[name] @ R
    for name in state:
        if name.endswith(WRITES):
            turned[name] = R.T @ state[name]
    return turned


def _readers(state: dict[str, Tensor]) -> dict[str, tuple[str, ...]]:
    """The maps behind each gain, by the gain's name."""
    readers = {"ln_out.weight": ("head.weight",)}
    for name in state:
        for gain, maps in READS.items():
            if name.startswith("layers.") and name.endswith(gain):
                layer = name.removesuffix(gain)
                readers[name] = tuple(layer + part for part in maps)
    return readers
