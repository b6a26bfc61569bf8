r"""Text from a language model with an edit at one layer, and with the same luck as without it.

At block ``layer`` the residual stream after the block is replaced, at the prompt's last position
and at each new token, by edit(h).  Tokens are drawn by inverting the cumulative distribution at a
uniform number that depends on the seed, the prompt's row and the step alone.  Clean and edited text
so share their random numbers, and a difference between them comes from the edit.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from helpers.axes import Axis
from helpers.last_token.decoder import find_blocks, hidden_of

Edit = Callable[[Tensor], Tensor]
"""resid_post (n, D) to what takes its place, (n, D)."""


def axis_edit(axis: Axis, strength: float = 2.0) -> Edit:
    """h ↦ h − strength · u (w·(h − mean)): 0 leaves h as it is, 1 removes, 2 flips."""

    def edit(h: Tensor) -> Tensor:
        wide = h.to(torch.promote_types(h.dtype, torch.float32))  # the mean would lose digits
        w, u, mean = (torch.as_tensor(v).to(wide) for v in (axis.read, axis.write, axis.mean))
        return (wide - strength * ((wide - mean) @ w)[:, None] * u).to(h)

    return edit


def causal_lm(model: Any) -> torch.nn.Module:
    """The Hugging Face causal model itself, or the ``model`` of what holds one."""
    return model if isinstance(model, torch.nn.Module) else model.model


@contextmanager
def edited(model: torch.nn.Module, layer: int, edit: Edit, first: int) -> Iterator[None]:
    """While open, block ``layer`` gives edit(h) from position ``first`` of its input on.

    Raises:
        ValueError: a layer that the model lacks, or an edit that changes the shape.
    """
    _, blocks = find_blocks(model)
    if not 0 <= layer < len(blocks):
        raise ValueError(f"layer {layer} is not among the model's blocks 0…{len(blocks) - 1}.")

    def hook(_: Any, inputs: tuple, output: Any) -> Any:
        resid = hidden_of(output)
        # with a cache, later calls carry new tokens only, and each of those is edited
        start = first if resid.shape[1] > first else 0
        old = resid[:, start:].reshape(-1, resid.shape[-1])
        new = edit(old)
        if new.shape != old.shape:
            raise ValueError(f"the edit must keep the shape {tuple(old.shape)}; got {new.shape}.")
        resid = torch.cat([resid[:, :start], new.reshape_as(resid[:, start:]).to(resid)], dim=1)
        return resid if isinstance(output, Tensor) else (resid, *output[1:])

    handle = blocks[layer].register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def uniforms(n: int, n_new: int, seed: int) -> Float[Tensor, "n n_new"]:
    """The random numbers in [0, 1) of n prompts and n_new steps, in float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n, n_new, dtype=torch.float64, generator=generator)


def draw(
    logits: Float[Tensor, "n V"], temperature: float, u: Float[Tensor, " n"]
) -> Int[Tensor, " n"]:
    """The token at which the cumulative softmax(logits / temperature) passes u; 0 takes the best.

    Summed in float64: in float32 the sum over a large vocabulary is too rough for the tail.
    """
    if temperature == 0:
        return logits.argmax(dim=-1)
    cumulative = (logits / temperature).softmax(dim=-1).cumsum(dim=-1, dtype=torch.float64)
    whole = cumulative[:, -1:]
    target = u.to(cumulative.device)[:, None] * whole
    target = torch.minimum(target, torch.nextafter(whole, torch.zeros_like(whole)))
    return torch.searchsorted(cumulative, target, right=True)[:, 0]


@torch.no_grad()
def generate(
    model: Any,
    tokens: Sequence[Sequence[int]],
    n_new: int,
    *,
    edit: Edit | None = None,
    layer: int | None = None,
    temperature: float = 1.0,
    seed: int = 0,
    forbid: Collection[int] = (),
    batch: int = 64,
    cache: bool = True,
) -> Int[np.ndarray, "n n_new"]:
    """n_new tokens after each prompt, with ``edit`` at block ``layer`` if one is given.

    Prompts of one length run together, ``batch`` at a time, which changes no draw.  ``forbid``
    lists tokens that are never written, such as the end of text.  ``cache=False`` runs each step
    from the start: the plain form, for tests.

    Raises:
        ValueError: an empty prompt, a bad temperature, or an edit without a layer (or the reverse).
    """
    if (edit is None) != (layer is None):
        raise ValueError("edit and layer belong together: give both, or neither.")
    if not temperature >= 0 or n_new < 1:
        raise ValueError(f"temperature ≥ 0 and n_new ≥ 1, please; got {temperature} and {n_new}.")
    model = causal_lm(model)
    device, luck = next(model.parameters()).device, uniforms(len(tokens), n_new, seed)
    # transformers 5 renamed the argument and the output's field
    known = inspect.signature(model.forward).parameters
    kept = "cache" if "cache" in known else "past_key_values"
    written = np.zeros((len(tokens), n_new), dtype=np.int64)
    for rows in _batches([len(prompt) for prompt in tokens], batch):
        ids = torch.tensor([list(tokens[row]) for row in rows], device=device)
        past, given = None, ids
        for step in range(n_new):
            first = len(tokens[rows[0]]) - 1 if past is None else 0
            with nullcontext() if edit is None else edited(model, layer, edit, first):
                out = model(given, use_cache=cache, logits_to_keep=1, **{kept: past})
            logits = out.logits[:, -1].clone()
            logits[:, list(forbid)] = -torch.inf
            new = draw(logits, temperature, luck[rows, step])
            written[rows, step] = new.cpu().numpy()
            ids = torch.cat([ids, new[:, None]], dim=1)
            past, given = (out[kept], new[:, None]) if cache else (None, ids)
    return written


def _batches(lengths: Sequence, batch: int) -> Iterator[np.ndarray]:
    """Row numbers of equal length, at most ``batch`` at a time."""
    shapes = np.array(lengths).reshape(len(lengths), -1)
    if not len(shapes) or not shapes.all():
        raise ValueError("every prompt and continuation needs at least one token.")
    for shape in np.unique(shapes, axis=0):
        rows = np.flatnonzero((shapes == shape).all(axis=1))
        yield from (rows[at : at + batch] for at in range(0, len(rows), batch))


@torch.no_grad()
def perplexity(
    model: Any,
    prompts: Sequence[Sequence[int]],
    continuations: Sequence[Sequence[int]] | Int[np.ndarray, "n m"],
    *,
    batch: int = 64,
) -> Float[np.ndarray, " n"]:
    """exp of the mean −log p a token of each continuation, given its prompt, without any edit.

    Raises:
        ValueError: an empty prompt or continuation, or numbers of them that differ.
    """
    if len(prompts) != len(continuations):
        raise ValueError(f"{len(prompts)} prompts for {len(continuations)} continuations.")
    model, values = causal_lm(model), np.zeros(len(prompts))
    device = next(model.parameters()).device
    pairs = zip(prompts, continuations, strict=True)
    for rows in _batches([(len(prompt), len(after)) for prompt, after in pairs], batch):
        whole = [[*prompts[row], *map(int, continuations[row])] for row in rows]
        ids, start = torch.tensor(whole, device=device), len(prompts[rows[0]])
        keep = ids.shape[1] - start + 1
        logits = model(ids, use_cache=False, logits_to_keep=keep).logits[:, :-1]
        for row, scores, after in zip(rows, logits, ids[:, start:], strict=True):
            # one text at a time: a vocabulary in float64 is large
            chosen = scores.double().log_softmax(dim=-1).gather(-1, after[:, None])
            values[row] = float((-chosen.mean()).exp())
    return values
