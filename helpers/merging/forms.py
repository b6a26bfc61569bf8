r"""One form for the book's small decoders, in which the residual stream has no preferred basis.

LayerNorm, :math:`\mathrm{gain} \odot (x - \bar x) / \sqrt{\mathrm{var}(x) + \varepsilon} +
\mathrm{bias}`, singles out the direction of ones and every coordinate's gain.  Three steps move
that into the neighbouring weights, with :math:`P = I - \mathbf{1}\mathbf{1}^\top / d`:

- whatever writes into the stream is centred, :math:`W \to W P`.  The stream then has mean 0, so
  that var(x) is mean(x²), and LayerNorm is RMSNorm with the same ε;
- whatever reads it takes gain and bias, :math:`W \to P\,\mathrm{diag}(\mathrm{gain})\, W` and
  :math:`b \to b + \mathrm{bias}\, W`;
- a bias of keys changes no attention, since all keys get the same.  Attention sums to 1, so a bias
  of values is one of what attention writes, :math:`b_O \to b_O + \sum_h b_V^h W_O^h`.

What is left, x/√(mean(x²) + ε), commutes with every rotation, for every ε: no logit changes.  A
change of the stream's *scale* would be a symmetry for ε = 0 only, and is not used.  RMSNorm has the
gain alone to fold.  A model without norms needs only the last step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from helpers.dyck.model import EPS, position_features
from helpers.models import ModelConfig, SmallTransformer
from helpers.symmetry.weights import Weights, check_arrays

LAYER_NORM_EPS = 1e-5  # PyTorch's own, which SmallTransformer has
TENSORS = ("W_E", "W_pos", "W_Q", "b_Q", "W_K", "W_V", "W_O", "b_O")
TENSORS += ("W_in", "b_in", "W_out", "b_out", "W_U", "b_U")


@dataclass(frozen=True, eq=False)
class Form:
    """A decoder with norms that have no parameters.  Float64; L layers, H heads of size k.

    ``W_E`` (d_vocab, d_model), ``W_pos`` (F, d_model), of which position t gets
    ``features[t] @ W_pos``; ``W_Q``, ``W_K``, ``W_V`` (L, H, d_model, k), ``b_Q`` (L, H, k),
    ``W_O`` (L, H, k, d_model), ``b_O`` (L, d_model), ``W_in`` (L, d_model, d_mlp), ``b_in`` (L,
    d_mlp), ``W_out`` (L, d_mlp, d_model), ``b_out`` (L, d_model), ``W_U`` (d_model, n), ``b_U``
    (n,); ``features`` (n_ctx, F) is fixed.  ``eps`` is the norms' ε; None: no norms.

    Raises:
        ValueError: shapes that do not fit each other, or NaN or infinity.
    """

    W_E: np.ndarray
    W_pos: np.ndarray
    W_Q: np.ndarray
    b_Q: np.ndarray
    W_K: np.ndarray
    W_V: np.ndarray
    W_O: np.ndarray
    b_O: np.ndarray
    W_in: np.ndarray
    b_in: np.ndarray
    W_out: np.ndarray
    b_out: np.ndarray
    W_U: np.ndarray
    b_U: np.ndarray
    features: np.ndarray
    eps: float | None

    def __post_init__(self) -> None:
        (L, H, d, k), m, n = self.W_Q.shape, self.b_in.shape[-1], self.b_U.shape[-1]
        reads = dict.fromkeys(("W_Q", "W_K", "W_V"), (L, H, d, k))
        wanted = reads | {
            "W_E": (len(self.W_E), d),
            "W_pos": (self.features.shape[1], d),
            "b_Q": (L, H, k),
            "W_O": (L, H, k, d),
            "b_O": (L, d),
            "W_in": (L, d, m),
            "b_in": (L, m),
            "W_out": (L, m, d),
            "b_out": (L, d),
            "W_U": (d, n),
            "b_U": (n,),
        }
        check_arrays(self, wanted)

    @property
    def n_layers(self) -> int:
        """L."""
        return len(self.W_Q)


def fold(state: Mapping[str, Tensor], config: ModelConfig) -> Form:
    """The form of a state of ``SmallTransformer`` or of ``DyckTransformer`` (known by its frame).

    The function is the same, to rounding in float64.

    Raises:
        ValueError: a post-norm model, whose norms stand *in* the stream, so that no rotation of it
            is a symmetry; or a state that is not one of ``config``.
    """
    if "pos_frame" in state:
        return _dyck(Weights.of(dict(state), config.n_heads), config)
    if config.norm == "post":
        raise ValueError(
            "a post-norm model has LayerNorm's gain in its residual stream, which no rotation "
            "leaves as it is: fold models with norm 'pre' or 'none'."
        )
    wanted = {name: v.shape for name, v in SmallTransformer(config).state_dict().items()}
    if wanted != {name: value.shape for name, value in state.items()}:
        wrong = sorted(set(wanted.items()) ^ {(n, v.shape) for n, v in state.items()})[0]
        raise ValueError(f"this state does not fit {config}: look at {wrong[0]} {tuple(wrong[1])}.")
    return _small({n: v.detach().cpu().double().numpy() for n, v in state.items()}, config)


def check_pair(one: Form, other: Form) -> None:
    """Raise a ``ValueError`` where two models differ in size: no line leads between them."""
    for name in (*TENSORS, "features"):
        shapes = getattr(one, name).shape, getattr(other, name).shape
        if shapes[0] != shapes[1]:
            raise ValueError(f"{name} has the shapes {shapes}: only models of one size are merged.")
    if one.eps != other.eps:
        raise ValueError(f"the norms' ε differ: {one.eps} and {other.eps}.")


def _small(state: dict[str, np.ndarray], config: ModelConfig) -> Form:
    d, heads = config.d_model, config.n_heads
    normed = config.norm == "pre"
    P = np.eye(d) - 1 / d if normed else np.eye(d)

    def read(norm: str, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Weight (d, n) and bias (n,) of a map behind a norm."""
        W = state[f"{name}.weight"].T
        b = state.get(f"{name}.bias", np.zeros(W.shape[1]))
        if not normed:
            return W, b
        return P @ (state[f"{norm}.weight"][:, None] * W), b + state[f"{norm}.bias"] @ W

    layers = []
    for i in range(config.n_layers):
        at = f"layers.{i}"
        (W_Q, b_Q), (W_K, _), (W_V, b_V) = (read(f"{at}.ln1", f"{at}.attn.{x}") for x in "qkv")
        W_in, b_in = read(f"{at}.ln2", f"{at}.mlp.fc_in")
        W_O, W_out = (state[f"{at}.{name}.weight"].T @ P for name in ("attn.o", "mlp.fc_out"))
        parts = {n: _heads(W, heads) for n, W in (("W_Q", W_Q), ("W_K", W_K), ("W_V", W_V))}
        layers.append(
            parts
            | {"b_Q": b_Q.reshape(heads, -1), "W_O": W_O.reshape(heads, -1, d)}
            | {"b_O": state[f"{at}.attn.o.bias"] @ P + b_V @ W_O, "W_in": W_in, "b_in": b_in}
            | {"W_out": W_out, "b_out": state[f"{at}.mlp.fc_out.bias"] @ P}
        )
    W_U, b_U = read("ln_out", "head")
    return Form(
        W_E=state["tok_embed.weight"] @ P,
        W_pos=state["pos.weight"] @ P,
        **{name: np.stack([layer[name] for layer in layers]) for name in layers[0]},
        W_U=W_U,
        b_U=b_U,
        features=np.eye(config.n_ctx),
        eps=LAYER_NORM_EPS if normed else None,
    )


def _dyck(weights: Weights, config: ModelConfig) -> Form:
    """No biases, no means: only gains, which ``Weights`` folds."""
    L, H, d, k = weights.W_Q.shape
    return Form(
        **vars(weights),
        b_Q=np.zeros((L, H, k)),
        b_O=np.zeros((L, d)),
        b_in=np.zeros((L, weights.W_in.shape[2])),
        b_out=np.zeros((L, d)),
        b_U=np.zeros(weights.W_U.shape[1]),
        features=position_features(config.n_ctx).double().numpy(),
        eps=EPS,
    )


def _heads(W: np.ndarray, heads: int) -> np.ndarray:
    """(d, heads · k) as (heads, d, k)."""
    return W.reshape(len(W), heads, -1).swapaxes(0, 1)
