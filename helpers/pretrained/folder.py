"""Read an ordinary model folder: safetensors only, nobody's code, and damage named beforehand."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.cache import cache_folder
from helpers.pretrained.errors import ModelFileError, NoSafetensorsError, PretrainedError
from helpers.pretrained.gguf_file import quiet
from helpers.pretrained.licences import Licence

if TYPE_CHECKING:
    from helpers.pretrained.machine import Placement

_SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token", "mask_token")
_TABLES = ("tokenizer.model", "spiece.model", "vocab.json", "vocab.txt")


def count_parameters(folder: Path) -> int:
    """How many numbers the folder's safetensors hold, from their headers alone.

    Raises NoSafetensorsError where there are none, ModelFileError for a file that is damaged or
    cut short.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        others = sorted(p.name for kind in ("*.bin", "*.pt", "*.pth") for p in folder.glob(kind))
        raise NoSafetensorsError(
            f"{folder} holds no safetensors"
            + (f", only {', '.join(others)}" if others else "")
            + ". Pickled weights can run code when they are read, so we do not. Load the model "
            "elsewhere, and save it with save_pretrained()."
        )
    total = 0
    for file in files:
        header, end = _header(file)
        entries = [entry for tensor, entry in header.items() if tensor != "__metadata__"]
        if end + max((entry["data_offsets"][1] for entry in entries), default=0) != _size(file):
            raise _damaged(file, "it is cut short, or too long")
        total += sum(math.prod(entry["shape"]) for entry in entries)
    return total


def read_model(folder: Path, placement: Placement) -> Any:
    """The decoder in a folder, with eager attention, in `placement`'s dtype and on its device.

    Raises ModelFileError and PretrainedError with transformers's own words where it cannot.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    where: dict[str, Any] = {}
    if placement.device == "auto":
        where = {"device_map": "auto", "offload_folder": str(cache_folder() / "offload")}
    elif placement.device != "cpu":
        where = {"device_map": {"": placement.device}}
    try:
        with quiet():
            return AutoModelForCausalLM.from_pretrained(
                str(folder),
                dtype=getattr(torch, placement.dtype),
                attn_implementation="eager",
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                **where,
            )
    except SafetensorError as error:
        raise ModelFileError(f"a weight file in {folder} is damaged: {error}.") from error
    except (OSError, ValueError, KeyError) as error:
        raise PretrainedError(f"{folder} does not hold a decoder that loads: {error}") from error


def read_tokenizer(folder: Path) -> Any:
    """The tokenizer in a folder, as tokenizer.json says it; without that file, as its class does.

    We do not ask for a class where we need none: a class named after the architecture takes the
    table apart and puts it together by rules of its own (5 s for a vocabulary of 262,144), and
    gives an empty one, without a word, where the files are absent or of another kind.
    Raises PretrainedError where there is no tokenizer.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    spelled, settings = folder / "tokenizer.json", folder / "tokenizer_config.json"
    try:
        if spelled.is_file():
            said = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
            special = {name: said[name] for name in _SPECIAL if said.get(name)}
            for name, token in special.items():
                special[name] = token["content"] if isinstance(token, dict) else token
            return PreTrainedTokenizerFast(tokenizer_file=str(spelled), **special)
        if not any((folder / name).is_file() for name in _TABLES):
            raise OSError(f"there is none of {spelled.name}, {', '.join(_TABLES)}")
        return AutoTokenizer.from_pretrained(
            str(folder), trust_remote_code=False, local_files_only=True
        )
    except (OSError, ValueError, KeyError) as error:
        raise PretrainedError(
            f"{folder} holds no tokenizer that loads: {error}. Put one there (save_pretrained)."
        ) from error


def folder_licence(folder: Path, link: str = "") -> Licence:
    """The licence that README.md's head names, and the text of a LICENSE file, where there are."""
    readme, name = folder / "README.md", "not stated"
    if readme.is_file():
        head = re.match(r"---\n(.*?)\n---", readme.read_text(encoding="utf-8"), re.DOTALL)
        stated = re.search(r"^license(?:_name)?: *(\S.*)$", head[1], re.MULTILINE) if head else None
        name = stated[1].strip("'\" ") if stated else name
    texts = sorted(path for path in folder.glob("LICEN[SC]E*") if path.is_file())
    return Licence(name, link, texts[0].read_text(encoding="utf-8") if texts else "")


def _header(file: Path) -> tuple[dict[str, Any], int]:
    """A safetensors file's header, and where its data begin."""
    try:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            if length > _size(file):
                raise _damaged(file, "its header is longer than the file")
            return json.loads(opened.read(length)), 8 + length
    except ValueError:
        raise _damaged(file, "its header cannot be read") from None


def _size(file: Path) -> int:
    return file.stat().st_size


def _damaged(file: Path, what: str) -> ModelFileError:
    return ModelFileError(f"the weight file {file} is damaged: {what}. Fetch or save it again.")
