"""Interventions and extraction at any position, with hooks on the model's own forward pass.

Slower than the last-token path, and plain.  In early layers the last token's stream is not yet all
there is: later layers read number again from earlier positions.  There, intervene on the head noun,
or on every position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from helpers.last_token.decoder import find_blocks, hidden_of
from helpers.last_token.extraction import Extraction
from helpers.last_token.groups import TOGETHER, in_groups
from helpers.last_token.outputs import Outputs, Readout


def _positions(
    positions: str | Sequence[int] | np.ndarray, tokens: Sequence[Sequence[int]]
) -> list[list[int]]:
    """For every prompt the positions meant, from 0 up."""
    if isinstance(positions, str):
        if positions not in ("all", "last"):
            raise ValueError(
                f"positions is 'all', 'last', or one index a prompt; got {positions!r}."
            )
        return [list(range(len(t))) if positions == "all" else [len(t) - 1] for t in tokens]
    chosen = [int(p) for p in positions]
    if len(chosen) != len(tokens):
        raise ValueError(f"got {len(chosen)} positions for {len(tokens)} prompts; give one each.")
    for i, (p, prompt) in enumerate(zip(chosen, tokens, strict=True)):
        if not -len(prompt) <= p < len(prompt):
            raise IndexError(f"prompt {i} has {len(prompt)} tokens, and no position {p}.")
    return [[p % len(prompt)] for p, prompt in zip(chosen, tokens, strict=True)]


def _forward(model: nn.Module, outputs: Outputs, ids: torch.Tensor) -> Callable:
    """Token ids (B, P) to margins (B, K), by the wanted rows of the unembedding alone.

    Where the model does more between its decoder and its logits, seen on one of the prompts
    ``ids``, by all of its logits.
    """

    def all_logits(ids: torch.Tensor) -> torch.Tensor:
        return outputs.of_logits(model(ids, use_cache=False, logits_to_keep=1).logits[:, -1])

    config, head = model.config.get_text_config(decoder=True), model.get_output_embeddings()
    if head.weight.device.type == "meta":  # offloaded: its rows are in memory in passing only
        return all_logits
    softcap = getattr(config, "final_logit_softcapping", None)
    readout = Readout((), head, softcap, outputs)

    def few(ids: torch.Tensor) -> torch.Tensor:
        return readout(model.base_model(ids, use_cache=False)[0][:, -1])

    with torch.no_grad():
        want, got = all_logits(ids[:1]), few(ids[:1])
    loose = 1e-4 if model.dtype == torch.float32 else 0.1
    near = (got - want.to(got.device)).abs().max() <= loose * max(1.0, float(want.abs().max()))
    return few if near else all_logits


def full_sweep(
    model: nn.Module,
    tokens: Sequence[Sequence[int]],
    outputs: Outputs,
    layer: int,
    edit: Callable[[torch.Tensor], torch.Tensor],
    positions: str | Sequence[int] | np.ndarray = "all",
) -> Float[np.ndarray, "N K"]:
    """Margins when ``edit`` changes ``blocks.{layer}.hook_resid_post`` at some positions.

    Args:
        model: a Hugging Face causal language model in eval mode.
        tokens: N prompts without padding.
        outputs: the K margins.
        layer: index of the block whose output is changed.
        edit: takes the residual streams (M, D) at the chosen positions, returns as many.
        positions: "all", "last", or one position a prompt, such as its head noun.

    Raises:
        ValueError: unknown positions, or an edit that returns another shape.
        IndexError: a layer or position that is not there.
    """
    blocks, chosen = find_blocks(model)[1], _positions(positions, tokens)
    if not 0 <= layer < len(blocks):
        raise IndexError(f"layer {layer} is not among 0…{len(blocks) - 1} of this model.")
    margins = np.empty((len(tokens), len(outputs)), dtype=np.float32)
    device = model.get_input_embeddings().weight.device
    forward = _forward(model, outputs, torch.tensor([list(tokens[0])], device=device))
    for where in in_groups(tokens, TOGETHER):
        mask = torch.zeros(len(where), len(tokens[where[0]]), dtype=torch.bool)
        for b, i in enumerate(where):
            mask[b, chosen[i]] = True

        def change(module, inputs, output, mask=mask):
            hidden = hidden_of(output).clone()
            here = mask.to(hidden.device)
            new = edit(hidden[here])
            if new.shape != hidden[here].shape:
                raise ValueError(
                    f"the edit got {tuple(hidden[here].shape)} and returned {tuple(new.shape)}."
                )
            hidden[here] = new.to(hidden)
            return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

        hook = blocks[layer].register_forward_hook(change)
        try:
            with torch.no_grad():
                ids = torch.tensor([list(tokens[i]) for i in where], device=device)
                margins[where] = forward(ids).cpu().numpy()
        finally:
            hook.remove()
    return margins


def full_extract(
    model: nn.Module,
    tokens: Sequence[Sequence[int]],
    outputs: Outputs,
    positions: str | Sequence[int] | np.ndarray = "last",
    *,
    layers: Sequence[int] | None = None,
) -> Extraction:
    """Residual streams and total derivatives at one position a prompt, at chosen layers.

    Unlike :func:`helpers.last_token.extract`, the derivative also goes through what later positions
    read from this one; at the last position nothing does, and both agree.

    Raises:
        ValueError: several positions a prompt, or unknown ones.
        IndexError: a layer or position that is not there.
    """
    if isinstance(positions, str) and positions == "all":
        raise ValueError("extraction needs one position a prompt: 'last' or N indices.")
    blocks, chosen = find_blocks(model)[1], _positions(positions, tokens)
    layers = tuple(range(len(blocks))) if layers is None else tuple(layers)
    if not layers or not all(0 <= layer < len(blocks) for layer in layers):
        raise IndexError(f"layers {layers} are not all among 0…{len(blocks) - 1} of this model.")
    N, K = len(tokens), len(outputs)
    D = model.config.get_text_config(decoder=True).hidden_size
    resid = np.empty((N, len(layers), D), dtype=np.float32)
    jacobian = np.empty((N, len(layers), K, D), dtype=np.float32)
    margins = np.empty((N, K), dtype=np.float32)
    device = model.get_input_embeddings().weight.device
    forward = _forward(model, outputs, torch.tensor([list(tokens[0])], device=device))
    for where in in_groups(tokens, TOGETHER):
        at = (torch.arange(len(where)), torch.tensor([chosen[i][0] for i in where]))
        seen: dict[int, torch.Tensor] = {}

        def watch(layer: int, lowest: int = min(layers), seen=seen):
            def note(module, inputs, output):
                hidden = hidden_of(output)
                if layer == lowest:  # the graph begins here, whatever the weights want
                    hidden = hidden.detach().requires_grad_()
                seen[layer] = hidden
                return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

            return blocks[layer].register_forward_hook(note)

        hooks = [watch(layer) for layer in layers]
        try:
            with torch.enable_grad():
                ids = torch.tensor([list(tokens[i]) for i in where], device=device)
                y = forward(ids)
        finally:
            for hook in hooks:
                hook.remove()
        streams = [seen[layer] for layer in layers]
        margins[where] = y.detach().cpu().numpy()
        for n, h in enumerate(streams):
            resid[where, n] = h.detach()[at].float().cpu().numpy()
        for k in range(K):
            grads = torch.autograd.grad(y[:, k].sum(), streams, retain_graph=k < K - 1)
            for n, g in enumerate(grads):
                jacobian[where, n, k] = g[at].float().cpu().numpy()
    return Extraction(resid, jacobian, margins, layers, tuple(range(K)))
