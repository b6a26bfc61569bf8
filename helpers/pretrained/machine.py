"""Which dtype and which device: decided by the model's size and the machine's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

ROOM = 1.25  # activations, keys and values, and the loader's own copies, as a share of the weights


@dataclass(frozen=True)
class Placement:
    """`device` is "cpu", "cuda" and the like, or "auto": accelerate spreads the weights."""

    device: str
    dtype: str

    def __str__(self) -> str:
        spread = "spread over the devices by accelerate"
        return f"{self.dtype}, {spread if self.device == 'auto' else f'on {self.device}'}"


def place(n_parameters: int, *, cpu_bytes: int, cuda_bytes: int | None) -> Placement:
    """Where `n_parameters` weights go, given the free memory (`cuda_bytes` None: no GPU).

    On a GPU: float32 where that takes at most a quarter of its free memory, since logits in
    bfloat16 are known to three digits only; else bfloat16; spread over GPUs and main memory where
    that does not fit either. Without one: float32 where it fits, else bfloat16, else spread, with
    the rest on disk. Apple's GPU is left alone: name it with `device="mps"` if you want it.
    """
    if cuda_bytes is not None:
        if 4 * n_parameters * 4 <= cuda_bytes:
            return Placement("cuda", "float32")
        if 2 * n_parameters * ROOM <= cuda_bytes:
            return Placement("cuda", "bfloat16")
        return Placement("auto", "bfloat16")
    for dtype, width in (("float32", 4), ("bfloat16", 2)):
        if width * n_parameters * ROOM <= cpu_bytes:
            return Placement("cpu", dtype)
    return Placement("auto", "bfloat16")


def decide(n_parameters: int, dtype: torch.dtype | None, device: str | None) -> Placement:
    """`place` on this machine; what the caller has chosen stays as it is."""
    import psutil
    import torch

    cuda = None
    if device is None and torch.cuda.is_available():
        cuda = torch.cuda.mem_get_info()[0]
    elif device is not None and device.startswith("cuda"):
        cuda = torch.cuda.mem_get_info(device)[0]
    free = psutil.virtual_memory().available
    found = place(n_parameters, cpu_bytes=free, cuda_bytes=cuda)
    chosen = found.dtype if dtype is None else str(dtype).removeprefix("torch.")
    return Placement(device or found.device, chosen)
