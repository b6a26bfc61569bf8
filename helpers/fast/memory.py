"""Memory that stays: what the compiled passes read and write, by name.

Numba reads a named tuple of arrays as compiled code reads a struct.  All arrays are float32.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from helpers.fast.parameters import Parameters
from helpers.models import ModelConfig

PARTS = ("attn.qkv", "attn.o", "mlp.fc_in", "mlp.fc_out")


class Weights(NamedTuple):
    """A layer's matrices (out, in) and biases, or their gradients."""

    qkv: np.ndarray
    qkv_bias: np.ndarray
    o: np.ndarray
    o_bias: np.ndarray
    fc_in: np.ndarray
    fc_in_bias: np.ndarray
    fc_out: np.ndarray
    fc_out_bias: np.ndarray


class Norm(NamedTuple):
    """A LayerNorm, what it returned and what its backward needs; empty where there is none."""

    gain: np.ndarray
    bias: np.ndarray
    dgain: np.ndarray
    dbias: np.ndarray
    mean: np.ndarray
    rstd: np.ndarray
    y: np.ndarray
    dx: np.ndarray


class Activations(NamedTuple):
    """What a layer leaves for its backward.

    ``qkv`` has a row for each of the layer's input, ``share`` (attention's weights) for each pair,
    the others for each row that goes on.
    """

    qkv: np.ndarray
    share: np.ndarray
    z: np.ndarray
    mid: np.ndarray
    hidden: np.ndarray
    out: np.ndarray


class Gradients(NamedTuple):
    """Of activations, and of what the MLP (``into``) and attention (``normed``) read.

    All layers share this memory.
    """

    qkv: np.ndarray
    z: np.ndarray
    hidden: np.ndarray
    into: np.ndarray
    normed: np.ndarray


def empty(*shape: int) -> np.ndarray:
    """PyTorch's memory begins where a cache line does, which NumPy's need not."""
    return torch.empty(shape).numpy()


def weights(parameters: Parameters, layer: int) -> tuple[Weights, Weights]:
    """A layer's weights and their gradients."""
    names = [f"{part}.{kind}" for part in PARTS for kind in ("weight", "bias")]
    views = (parameters.values, parameters.grads)
    return tuple(Weights(*(v[f"layers.{layer}.{n}"].numpy() for n in names)) for v in views)


def norm(parameters: Parameters, name: str, rows: int) -> Norm:
    """The norm of that name for so many rows."""
    if f"{name}.weight" not in parameters.values:
        return Norm(*(empty(0) for _ in range(6)), empty(0, 0), empty(0, 0))
    kinds = [f"{name}.{kind}" for kind in ("weight", "bias")]
    arrays = [v[k].numpy() for v in (parameters.values, parameters.grads) for k in kinds]
    d = parameters.config.d_model
    return Norm(*arrays, empty(rows), empty(rows), empty(rows, d), empty(rows, d))


def activations(config: ModelConfig, rows_in: int, rows_out: int, n: int) -> Activations:
    """For a layer that reads and returns so many rows, of n pairs."""
    d = config.d_model
    share, hidden = empty(n, d), empty(rows_out, config.d_mlp)
    z, mid, out = (empty(rows_out, d) for _ in range(3))
    return Activations(empty(rows_in, 3 * d), share, z, mid, hidden, out)


def gradients(config: ModelConfig, rows: int) -> Gradients:
    """For layers of at most so many rows."""
    d = config.d_model
    wide, hidden = empty(rows, 3 * d), empty(rows, config.d_mlp)
    return Gradients(wide, empty(rows, d), hidden, empty(rows, d), empty(rows, d))
