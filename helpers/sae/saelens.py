"""SAEs as folders that SAELens reads: ``cfg.json`` and ``sae_weights.safetensors``.

The layout is that of SAELens 6 (written against 6.54.12), architectures *standard* and *topk*.
SAELens itself is no dependency: it asks for transformer-lens below 4.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from helpers.sae.model import SAE, ReluSAE, TopKSAE

CFG, WEIGHTS = "cfg.json", "sae_weights.safetensors"
VERSION = "6.54.12"
"""Whose format this is. Without it SAELens takes a folder for one from before version 6."""
ARCHITECTURES = {ReluSAE: "standard", TopKSAE: "topk"}
NAMES = ("W_enc", "b_enc", "W_dec", "b_dec")


def to_saelens(
    sae: SAE, metadata: dict[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """SAELens' configuration and state dict; ``metadata`` such as model_name and hook_name.

    Nothing is rescaled: both subtract b_dec from the raw input and read codes in its units.
    """
    state = {name: getattr(sae, name).detach().to("cpu", copy=True).contiguous() for name in NAMES}
    cfg = {
        "architecture": ARCHITECTURES[type(sae)],
        "d_in": sae.d_in,
        "d_sae": sae.d_sae,
        "dtype": str(sae.W_dec.dtype).removeprefix("torch."),
        "device": "cpu",
        "apply_b_dec_to_input": True,
        "normalize_activations": "none",
        "reshape_activations": "none",
        "metadata": {"sae_lens_version": VERSION, **(metadata or {})},
    }
    if isinstance(sae, TopKSAE):
        cfg |= {"k": sae.k, "rescale_acts_by_decoder_norm": False}
    return cfg, state


def from_saelens(cfg: dict[str, Any], state: dict[str, Tensor]) -> SAE:
    """The SAE that a configuration and a state dict describe.

    A standard one may have decoder rows of any length; lengths go to the codes, which leaves the
    reconstruction as it is.

    Raises:
        ValueError: another architecture, inputs that SAELens would change before encoding, missing
            weights, or a top-k SAE whose decoder rows are not of length 1.
    """
    wanted = {"apply_b_dec_to_input": True, "normalize_activations": "none"}
    wanted |= {"reshape_activations": "none", "rescale_acts_by_decoder_norm": False}
    for name, value in wanted.items():
        if cfg.get(name, value) != value:
            raise ValueError(f"{name} = {cfg[name]!r} is not supported, only {value!r}.")
    if cfg.get("architecture") not in ARCHITECTURES.values():
        raise ValueError(
            f"architecture {cfg.get('architecture')!r} is not supported; "
            f"known: {', '.join(ARCHITECTURES.values())}."
        )
    if missing := [name for name in NAMES if name not in state]:
        raise ValueError(f"the weights lack {', '.join(missing)}; found {', '.join(state)}.")
    weights = {name: state[name].clone() for name in NAMES}
    if cfg["architecture"] == "topk":
        # lengths may not move here: they would change which k are the largest
        return TopKSAE(**weights, k=int(cfg["k"]))
    lengths = weights["W_dec"].norm(dim=1)
    if not lengths.min() > 0:
        raise ValueError("a decoder row is zero, and has no direction: leave that feature out.")
    weights["W_dec"] /= lengths[:, None]
    weights["W_enc"] *= lengths
    weights["b_enc"] *= lengths
    return ReluSAE(**weights)


def save_saelens(sae: SAE, folder: Path, metadata: dict[str, Any] | None = None) -> None:
    """Write the folder; ``SAE.load_from_disk(folder)`` of SAELens opens it."""
    cfg, state = to_saelens(sae, metadata)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state, folder / WEIGHTS)
    (folder / CFG).write_text(json.dumps(cfg, indent=2) + "\n", encoding="utf-8")


def load_saelens(folder: Path, dtype: torch.dtype | None = None) -> SAE:
    """Read a folder, in ``dtype`` if given.

    Raises:
        FileNotFoundError: the folder lacks one of its two files.
        ValueError: as :func:`from_saelens`.
    """
    if missing := [name for name in (CFG, WEIGHTS) if not (folder / name).is_file()]:
        raise FileNotFoundError(f"{folder} lacks {' and '.join(missing)}: is it an SAE's folder?")
    cfg = json.loads((folder / CFG).read_text(encoding="utf-8"))
    state = load_file(folder / WEIGHTS)
    return from_saelens(cfg, {name: w.to(dtype or w.dtype) for name, w in state.items()})
