"""From a GGUF file with 4-bit weights to an ordinary folder in float32.

transformers does the work. It reads the file's long lists of tokens three times, and builds its
table of names once for every module; remembering both makes it three to five times as fast, with
the same bytes as a result (`tests/test_pretrained_packaged.py` compares them).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def convert(file: Path, folder: Path) -> None:
    """Write config, weights (float32 safetensors) and tokenizer of the GGUF `file` to `folder`."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    with remembering(), quiet():
        model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(**where)
        # the weights are no longer quantised; the saved folder must not say that they are
        model.hf_quantizer = None
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.config.architectures = [type(model).__name__]
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    spelled = folder / "tokenizer.json"
    whole = json.loads(spelled.read_text(encoding="utf-8"))
    # without its indentation it is read in half the time
    spelled.write_text(json.dumps(whole, ensure_ascii=False, separators=(",", ":")), "utf-8")


@contextmanager
def remembering() -> Iterator[None]:
    """While this lasts, gguf reads each file once, from plain arrays, and builds each table once.

    An array over memory-mapped pages costs several calls in Python for every slice; the same pages
    seen as a plain array cost none of them.
    """
    import gguf
    import numpy as np
    from transformers import modeling_gguf_pytorch_utils as reading

    class PlainReader(gguf.GGUFReader):
        def _get(self, *args: Any, **kwargs: Any) -> Any:
            if isinstance(self.data, np.memmap):
                self.data = self.data.view(np.ndarray)
            return super()._get(*args, **kwargs)

    reader, names, bar = gguf.GGUFReader, gguf.get_tensor_name_map, reading.tqdm
    gguf.GGUFReader = functools.lru_cache(maxsize=1)(PlainReader)
    gguf.get_tensor_name_map = functools.lru_cache(maxsize=1)(names)
    reading.tqdm = functools.partial(bar, disable=True)  # the one that `quiet` does not reach
    try:
        yield
    finally:
        gguf.GGUFReader, gguf.get_tensor_name_map, reading.tqdm = reader, names, bar


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars of transformers; its warnings stay."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
