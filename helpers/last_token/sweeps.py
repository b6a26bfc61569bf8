"""Changed residual streams at the last token, carried through the rest of the model together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from helpers.cores import Core
from helpers.last_token.groups import Group
from helpers.last_token.prefixes import Prefixes

ROWS = 128  # versions of a prompt side by side; more of them only enlarge the attention's table
AT_ONCE = 2048  # rows of all prompts together: 1024 to 3072 were the quickest, by processor
MODES = ("keep", "remove", "flip")


@dataclass(frozen=True)
class Intervention:
    """``mode`` keep, remove or flip, of the subspace ``basis`` (D, r) around ``mean`` (D,).

    At ``blocks.{layer}.hook_resid_post``, last position.
    """

    layer: int
    basis: np.ndarray
    mean: np.ndarray
    mode: str


def every_mode(layer: int, core: Core) -> list[Intervention]:
    """Keep, remove and flip of one core."""
    return [Intervention(layer, core.basis, core.mean, mode) for mode in MODES]


def edited(
    H: Float[torch.Tensor, "*batch D"],
    basis: Float[torch.Tensor, "D r"],
    mean: Float[torch.Tensor, " D"],
    mode: str,
) -> Float[torch.Tensor, "*batch D"]:
    """:func:`helpers.interventions.project` for tensors, through which gradients pass.

    Raises:
        ValueError: an unknown mode, or shapes that do not belong together.
    """
    if basis.ndim != 2 or basis.shape[0] != H.shape[-1] or mean.shape != H.shape[-1:]:
        raise ValueError(
            f"activations (…, D), basis (D, r) and mean (D,) must share D; got {tuple(H.shape)}, "
            f"{tuple(basis.shape)} and {tuple(mean.shape)}. Take all three from one layer."
        )
    if mode not in MODES:
        raise ValueError(f"mode must be 'keep', 'remove' or 'flip'; got {mode!r}.")
    z = (H - mean) @ basis @ basis.T
    return mean + z if mode == "keep" else H - z * (1 if mode == "remove" else 2)


def continue_from(
    prefixes: Prefixes,
    layer: int,
    H: np.ndarray | torch.Tensor,
    *,
    grad: bool = False,
) -> np.ndarray | torch.Tensor:
    """Margins (N, …, K) when ``blocks.{layer}.hook_resid_post`` at the last position is ``H``.

    Args:
        prefixes: N prompts; a batch of them through :meth:`Prefixes.select`.
        layer: index of the block after which ``H`` stands.
        H: (N, D), or (N, R, D) for R versions of each prompt.
        grad: keep the graph, so that a direction inside ``H`` can be trained.

    Returns:
        An array for an array; a tensor for a tensor.

    Raises:
        IndexError: no such layer.  ValueError: other shapes, NaN, or gradients of an array.
    """
    prefixes.check_layer(layer)
    array = not isinstance(H, torch.Tensor)
    if array and grad:
        raise ValueError("gradients need a tensor H; an array has none.")
    H = torch.as_tensor(np.asarray(H, dtype=np.float32)) if array else H
    D = prefixes.groups[0].resid.shape[-1]
    if H.ndim not in (2, 3) or H.shape[0] != prefixes.n_prompts or H.shape[-1] != D:
        raise ValueError(
            f"H must be (N, D) or (N, R, D) with N = {prefixes.n_prompts} and D = {D}; got "
            f"{tuple(H.shape)}."
        )
    if not torch.isfinite(H).all():
        raise ValueError("H holds NaN or infinity.")
    rows = H if H.ndim == 3 else H[:, None]
    size = max(1, AT_ONCE // min(ROWS, rows.shape[1]))
    parts, where = [], []
    with torch.set_grad_enabled(grad):
        for group in (some for whole in prefixes.groups for some in whole.split(size)):
            here = torch.as_tensor(group.where, device=H.device)
            pieces = []
            for hidden in rows[here].to(group.resid).split(ROWS, dim=1):
                hidden = group.through(layer + 1, hidden)
                pieces.append(prefixes.readout(hidden).to(H.device))
            parts.append(torch.cat(pieces, 1))
            where.append(here)
        margins = torch.cat(parts)[torch.argsort(torch.cat(where))]
        margins = margins if H.ndim == 3 else margins[:, 0]
    return margins.numpy() if array else margins


def _wave(prefixes: Prefixes, group: Group, edits: Sequence[tuple]) -> torch.Tensor:
    """Margins (B, R, K) of ``edits``, sorted by layer: rows join the wave as it goes up."""

    def joining(layer: int) -> list[torch.Tensor]:
        clean = group.resid[:, layer]
        return [edited(clean, Q, m, mode)[:, None] for at, Q, m, mode in edits if at == layer]

    first = edits[0][0]
    hidden = torch.cat(joining(first), 1)
    for layer in range(first + 1, prefixes.n_layers):
        hidden = torch.cat([group.block(layer, hidden), *joining(layer)], 1)
    return prefixes.readout(hidden)


def sweep(
    prefixes: Prefixes,
    interventions: Sequence[Intervention],
    *,
    own: Sequence[int] | np.ndarray | None = None,
) -> Float[np.ndarray, "N I *K"]:
    """Margins of every prompt under every intervention, (N, I, K) in float32.

    All layers go up together, each block called once for all rows below it.

    Args:
        prefixes: from :func:`helpers.last_token.prepare`.
        interventions: I of them, at any layers.
        own: for each intervention the one margin to return, which gives (N, I).

    Raises:
        IndexError: a layer or margin that is not there.
        ValueError: no intervention, or one whose basis or mean has another layer's shape or NaN.
    """
    D, K = prefixes.groups[0].resid.shape[-1], len(prefixes.outputs)
    if not interventions or (own is not None and len(own) != len(interventions)):
        raise ValueError(
            f"sweep needs interventions, and as many entries in own where it is given; got "
            f"{len(interventions)} and {'none' if own is None else len(own)}."
        )
    edits = []
    for i, one in enumerate(interventions):
        prefixes.check_layer(one.layer)
        basis, mean = np.asarray(one.basis), np.asarray(one.mean)
        if basis.ndim != 2 or len(basis) != D or mean.shape != (D,) or one.mode not in MODES:
            raise ValueError(
                f"intervention {i}: needs a basis ({D}, r), a mean ({D},) and a mode of {MODES}; "
                f"got {basis.shape}, {mean.shape} and {one.mode!r}."
            )
        if not (np.isfinite(basis).all() and np.isfinite(mean).all()):
            raise ValueError(f"intervention {i}: basis or mean holds NaN or infinity.")
        edits.append((int(one.layer), basis, mean, one.mode))
    if own is not None and not all(0 <= k < K for k in own):
        raise IndexError(f"own must name margins among 0…{K - 1}; got {min(own)}…{max(own)}.")
    order = sorted(range(len(edits)), key=lambda i: edits[i][0])
    back = torch.as_tensor(np.argsort(order))

    size = max(1, AT_ONCE // min(ROWS, len(edits)))

    def carry(group: Group) -> torch.Tensor:
        return torch.cat([carry_some(some) for some in group.split(size)])

    def carry_some(group: Group) -> torch.Tensor:
        ready = [
            (layer, *(torch.as_tensor(x).to(group.resid) for x in (Q, mean)), mode)
            for layer, Q, mean, mode in (edits[i] for i in order)
        ]
        parts = [
            _wave(prefixes, group, ready[start : start + ROWS])
            for start in range(0, len(ready), ROWS)
        ]
        margins = torch.cat(parts, 1).cpu()[:, back]
        return margins if own is None else margins[:, range(len(own)), [int(k) for k in own]]

    with torch.inference_mode():
        return prefixes.gather(carry)
