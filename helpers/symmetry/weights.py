"""The bracket model's weights under TransformerLens's names, with the gains of its norms folded in.

Supported is what :class:`helpers.dyck.model.DyckTransformer` is: RMSNorm before each part, no
biases, a ReLU MLP, embedding and unembeddings untied, positions written by a frame.  Biases, norms
with means, rotary positions or grouped heads have other symmetries; they are refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from helpers.dyck.model import N_FEATURES, N_LOGITS, OUTPUTS
from helpers.dyck.symmetry import fold_norms

FIELDS = ("W_E", "W_pos", "W_Q", "W_K", "W_V", "W_O", "W_in", "W_out", "W_U")
ENDS = {"W_E": "tok_embed.weight", "W_pos": "pos_frame", "W_U": "head.weight"}
LAYER = {"W_Q": "attn.q", "W_K": "attn.k", "W_V": "attn.v", "W_O": "attn.o"}
LAYER |= {"W_in": "mlp.fc_in", "W_out": "mlp.fc_out"}
GAINS = ("ln1", "ln2")
SUPPORTED = (
    "Supported is the state of helpers.dyck.DyckTransformer: RMSNorm before each part, no biases, "
    "a ReLU MLP, untied embedding and unembeddings, a position frame."
)


def check_arrays(holder: object, wanted: dict[str, tuple[int, ...]]) -> None:
    """Each named array of ``holder`` has its shape and is finite.

    Raises:
        ValueError: it has not; the message names the array.
    """
    for name, shape in wanted.items():
        value = getattr(holder, name)
        if value.shape != shape:
            raise ValueError(f"{name} has the shape {value.shape}; the others ask for {shape}.")
        if not np.isfinite(value).all():
            raise ValueError(f"{name} holds NaN or infinity. Look at the run that made it.")


@dataclass(frozen=True, eq=False)
class Weights:
    """Float64 weights; vectors of the residual stream are rows of what writes, columns of W_read.

    ``W_E`` (d_vocab, d_model), ``W_pos`` (6, d_model): what writes the position features;
    ``W_Q``, ``W_K``, ``W_V`` (layer, head, d_model, d_head), ``W_O`` (layer, head, d_head,
    d_model), ``W_in`` (layer, d_model, d_mlp), ``W_out`` (layer, d_mlp, d_model), ``W_U``
    (d_model, 51).  All gains are 1.

    Raises:
        ValueError: shapes that do not fit each other, or NaN or infinity.
    """

    W_E: np.ndarray
    W_pos: np.ndarray
    W_Q: np.ndarray
    W_K: np.ndarray
    W_V: np.ndarray
    W_O: np.ndarray
    W_in: np.ndarray
    W_out: np.ndarray
    W_U: np.ndarray

    def __post_init__(self) -> None:
        d_model, (layers, d_mlp) = self.W_E.shape[-1], self.W_out.shape[:2]
        heads, d_head = self.W_O.shape[1:3]
        reads, writes = (layers, heads, d_model, d_head), (layers, heads, d_head, d_model)
        wanted = {
            "W_E": (len(self.W_E), d_model),
            "W_pos": (N_FEATURES, d_model),
            **{"W_Q": reads, "W_K": reads, "W_V": reads, "W_O": writes},
            "W_in": (layers, d_model, d_mlp),
            "W_out": (layers, d_mlp, d_model),
            "W_U": (d_model, N_LOGITS),
        }
        check_arrays(self, wanted)

    @staticmethod
    def of(state: dict[str, Tensor], n_heads: int) -> Weights:
        """The weights of a state, gains folded: W ← W diag(gain), in float64.

        Raises:
            ValueError: a state of another kind of model, or heads that do not divide its width.
        """
        layers = 1 + max(
            (int(n.split(".")[1]) for n in state if n.startswith("layers.")), default=-1
        )
        missing = [name for name in _names(layers) if name not in state]
        unknown = [name for name in state if name not in _names(layers)]
        if not layers or missing or unknown:
            what = f"lacks {missing[0]!r}" if missing else f"also has {unknown[:1] or 'no layer'}"
            raise ValueError(f"this state {what}. {SUPPORTED}")
        state = fold_norms({name: value.detach().cpu().double() for name, value in state.items()})
        d_model = state[ENDS["W_E"]].shape[1]
        if n_heads < 1 or d_model % n_heads:
            raise ValueError(f"{n_heads} heads do not divide d_model = {d_model}.")
        parts = {name: state[key].numpy() for name, key in ENDS.items()}
        parts["W_U"] = parts["W_U"].T
        for name, key in LAYER.items():
            value = np.stack([state[f"layers.{i}.{key}.weight"].numpy().T for i in range(layers)])
            if name == "W_O":
                value = value.reshape(layers, n_heads, -1, d_model)
            elif name in ("W_Q", "W_K", "W_V"):
                value = value.reshape(layers, d_model, n_heads, -1).swapaxes(1, 2)
            parts[name] = value
        return Weights(**{name: np.array(value, order="C") for name, value in parts.items()})

    def state(self, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
        """A state that ``DyckTransformer`` loads, with gains of 1."""
        d_model = self.W_E.shape[1]
        state = {ENDS[name]: getattr(self, name) for name in ENDS}
        state["head.weight"] = self.W_U.T
        for i in range(len(self.W_Q)):
            for name, key in LAYER.items():
                value = getattr(self, name)[i]
                if name in ("W_Q", "W_K", "W_V"):
                    value = value.swapaxes(0, 1).reshape(d_model, -1)
                state[f"layers.{i}.{key}.weight"] = value.reshape(-1, value.shape[-1]).T
            state |= {f"layers.{i}.{gain}.weight": np.ones(d_model) for gain in GAINS}
        state["ln_out.weight"] = np.ones(d_model)
        return {name: torch.tensor(np.array(value), dtype=dtype) for name, value in state.items()}

    def tensors(self) -> dict[str, Float[np.ndarray, ...]]:
        """Each tensor that bar P compares, by name: ``W_E``, ``W_pos``, ``blocks.0.W_Q`` …, and
        the three unembeddings ``W_U.copy``, ``W_U.depth``, ``W_U.sticky``, each by itself."""
        parts = {"W_E": self.W_E, "W_pos": self.W_pos}
        for i in range(len(self.W_Q)):
            parts |= {f"blocks.{i}.{name}": getattr(self, name)[i] for name in LAYER}
        return parts | {f"W_U.{name}": self.W_U[:, part] for name, part in OUTPUTS.items()}

    def vectors(self) -> dict[str, Float[np.ndarray, "n d_model"]]:
        """The same tensors as rows that live in the residual stream: what each part writes, and the
        directions that it reads.  A rotation R takes every row x to x R."""
        d_model, rows = self.W_E.shape[1], {}
        for name, value in self.tensors().items():
            if name.endswith(("W_Q", "W_K", "W_V")):
                value = value.swapaxes(1, 2)
            elif name.endswith("W_in") or name.startswith("W_U"):
                value = value.T
            rows[name] = value.reshape(-1, d_model)
        return rows


def check_pair(source: Weights, target: Weights) -> None:
    """Raise a ``ValueError`` where two models have other sizes: no symmetry leads between them."""
    for name in FIELDS:
        shapes = getattr(source, name).shape, getattr(target, name).shape
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"{name} has the shapes {shapes}: only models of one size are aligned."
            )


def _names(layers: int) -> list[str]:
    parts = [*(f"{key}.weight" for key in LAYER.values()), *(f"{gain}.weight" for gain in GAINS)]
    inner = [f"layers.{i}.{part}" for i in range(layers) for part in parts]
    return [*ENDS.values(), *inner, "ln_out.weight"]
