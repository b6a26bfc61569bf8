"""Language models that nobody here trained, ready to be looked into.

    from helpers.pretrained import load
    smollm2 = load("smollm2")            # from a Python package, no network
    gpt2 = load("gpt2", revision="…")    # from the Hugging Face hub
    mine = load("path/to/folder")        # config, safetensors and tokenizer in a folder
    toy = load("toy:llama")              # tiny and random, for tests

Every one is a Hugging Face decoder in evaluation mode, with eager attention and without gradients
of its weights. A file that is not the pinned one is refused by name before anything reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.pretrained.errors import (
    GatedModelError,
    ModelAbsentError,
    ModelFileError,
    NoNetworkError,
    NoSafetensorsError,
    PretrainedError,
    UnknownModelError,
)
from helpers.pretrained.licences import Licence, card

if TYPE_CHECKING:
    import torch

    from helpers.pretrained.model import Pretrained

__all__ = [
    "GatedModelError",
    "Licence",
    "ModelAbsentError",
    "ModelFileError",
    "NoNetworkError",
    "NoSafetensorsError",
    "PretrainedError",
    "UnknownModelError",
    "card",
    "load",
]


def load(
    name: str,
    *,
    dtype: torch.dtype | None = None,
    device: str | None = None,
    revision: str | None = None,
) -> Pretrained:
    """A pretrained decoder: a packaged one, a toy, a folder, or one from the Hugging Face hub.

    `name` is `"smollm2"` or `"gemma3"`; `"toy:gpt2"`, `"toy:llama"`, `"toy:gemma2"`,
    `"toy:qwen2"` or `"toy:neox"`; the path of a folder; or an id such as `"gpt2"`, with `revision`
    (branch, tag or, best, commit). Without `dtype` and `device` the machine decides, as
    `helpers.pretrained.machine.place` says; `Pretrained.placement` tells what was chosen. No code
    of the model's authors is run, and only safetensors are read.

    Raises PretrainedError, whose subclasses say which way it failed; ValueError for a `revision`
    of a model that is not from the hub.
    """
    from helpers.pretrained import sources

    return sources.find(name, revision).load(name, dtype=dtype, device=device)
