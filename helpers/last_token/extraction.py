r"""Activations and Jacobians of the last token at every layer, from one graph.

:math:`J_{l,k} = \partial y_k / \partial h_l`: the derivative of margin k with respect to
``blocks.{l}.hook_resid_post`` at the last position, everything at earlier positions held fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from helpers.last_token.groups import Group
from helpers.last_token.prefixes import Prefixes

TOGETHER = 16  # outputs differentiated at once, which bounds the memory


@dataclass(frozen=True)
class Extraction:
    """What ACE takes: ``resid`` (N, L, D), ``jacobian`` (N, L, K, D), and ``margins`` (N, K).

    ``layers`` and ``outputs`` say which layers and margins axes L and K of the first two stand for;
    ``margins`` holds all of them.
    """

    resid: np.ndarray
    jacobian: np.ndarray
    margins: np.ndarray
    layers: tuple[int, ...]
    outputs: tuple[int, ...]

    def at(self, layer: int) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, "N K D"]]:
        """Activations and Jacobian of one layer, as :func:`helpers.cores.ace` takes them.

        Raises:
            ValueError: a layer that was not extracted.
        """
        if layer not in self.layers:
            raise ValueError(f"layer {layer} was not extracted; there are {self.layers}.")
        at = self.layers.index(layer)
        return self.resid[:, at], self.jacobian[:, at]


def _jacobians(
    prefixes: Prefixes, group: Group, layers: Sequence[int], outputs: Sequence[int]
) -> torch.Tensor:
    """(B, L, K, D): the last token's streams at all layers are one graph."""
    first = min(layers)
    with torch.enable_grad():
        streams = {first: group.resid[:, first, None].clone().requires_grad_()}
        for layer in range(first + 1, prefixes.n_layers):
            streams[layer] = group.block(layer, streams[layer - 1])
        margins = prefixes.readout(streams[prefixes.n_layers - 1])[:, 0, list(outputs)].sum(0)
        wanted = [streams[layer] for layer in layers]
        if len(outputs) == 1:
            grads = [g[None] for g in torch.autograd.grad(margins[0], wanted)]
            parts = [_stacked(grads, margins.device)]
        else:  # several outputs in one way back: half the time of one after the other
            parts = [
                _stacked(
                    torch.autograd.grad(
                        margins, wanted, seeds, retain_graph=True, is_grads_batched=True
                    ),
                    margins.device,
                )
                for seeds in torch.eye(len(outputs), device=margins.device).split(TOGETHER)
            ]
    return torch.cat(parts, 2)


def _stacked(grads: Sequence[torch.Tensor], device: torch.device) -> torch.Tensor:
    """One (K, B, 1, D) a layer to (B, L, K, D)."""
    return torch.stack([g[:, :, 0].float().to(device) for g in grads]).permute(2, 0, 1, 3)


def extract(
    prefixes: Prefixes,
    *,
    layers: Sequence[int] | np.ndarray | None = None,
    outputs: Sequence[int] | np.ndarray | None = None,
) -> Extraction:
    """Residual streams, margins and Jacobians of the last position, in float32.

    Args:
        prefixes: from :func:`helpers.last_token.prepare`.
        layers: which to extract, by default all; the graph begins at the lowest.
        outputs: which of the K margins to differentiate, by default all.  The Jacobian takes
            4 N L K D bytes, so many margins go with few layers.

    Raises:
        IndexError: a layer or output that is not there.
        ValueError: none asked for.
    """
    layers = tuple(range(prefixes.n_layers)) if layers is None else tuple(int(n) for n in layers)
    K = len(prefixes.outputs)
    outputs = tuple(range(K)) if outputs is None else tuple(int(k) for k in outputs)
    if not layers or not outputs:
        raise ValueError("extract needs at least one layer and one output.")
    for layer in layers:
        prefixes.check_layer(layer)
    for k in outputs:
        if not 0 <= k < K:
            raise IndexError(f"output {k} is not among the {K} margins 0…{K - 1}.")
    at = list(layers)
    return Extraction(
        resid=prefixes.gather(lambda group: group.resid[:, at].float()),
        jacobian=prefixes.gather(lambda group: _jacobians(prefixes, group, layers, outputs)),
        margins=prefixes.margins,
        layers=layers,
        outputs=outputs,
    )
