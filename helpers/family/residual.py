"""Residual streams of language models: streamed to disk in half precision, read back by site.

Sites under TransformerLens's names: the embedding, ``blocks.0.hook_resid_pre``, and
``blocks.L.hook_resid_post`` after each block.  A shard is a safetensors file with all sites of some
rows, so that neither writing nor reading ever holds more than a shard beside the site asked for.
Half precision has a relative error of 2⁻¹¹ at most: of a site's variance far less than what any map
between two models misses.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from joblib import Parallel, delayed
from safetensors import safe_open
from safetensors.torch import save_file

from helpers.family import family as family_module
from helpers.family.family import Family, fingerprint, untrained
from helpers.last_token.decoder import find_blocks, hidden_of
from helpers.pretrained import folders, load
from helpers.pretrained.model import Pretrained
from helpers.runs import available_cores

KIND = "family.residual"
TOKENS_AT_ONCE = 4096
"""Tokens in a forward pass, and in a shard."""


def residual_sites(n_layers: int) -> tuple[str, ...]:
    """The embedding and every block's end, in order: n_layers + 1 names."""
    return ("blocks.0.hook_resid_pre", *(f"blocks.{i}.hook_resid_post" for i in range(n_layers)))


@dataclass(frozen=True)
class Residual:
    """Residual streams (n, pos, d_model) of every site in ``folder``, in shards of rows."""

    folder: Path
    sites: tuple[str, ...]
    shape: tuple[int, int, int]
    rows_a_shard: int

    @staticmethod
    def at(folder: Path) -> Residual:
        """What lies in a folder."""
        said = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        return Residual(folder, tuple(said["sites"]), tuple(said["shape"]), said["rows_a_shard"])

    def site(
        self,
        name: str,
        rows: Int[np.ndarray, " some"] | None = None,
        *,
        skip: int = 0,
    ) -> Float[np.ndarray, "some pos d_model"]:
        """The stream at a site in float32, for these rows in their order (None: all).

        ``skip`` leaves out that many first positions: in many language models the first one is
        far larger than all others.  Files are mapped, and of each only these rows are copied.

        Raises:
            ValueError: an unknown site, or rows or positions that are not there.
        """
        n, pos, d_model = self.shape
        wanted = np.arange(n) if rows is None else np.asarray(rows)
        if name not in self.sites:
            raise ValueError(f"there is no site {name!r}; there are {', '.join(self.sites)}.")
        if not 0 <= skip < pos or not ((wanted >= 0) & (wanted < n)).all():
            raise ValueError(
                f"there are {n} rows of {pos} positions; got rows up to {wanted.max(initial=0)} "
                f"and skip = {skip}."
            )
        found = np.empty((len(wanted), pos - skip, d_model), dtype=np.float32)
        shard_of = wanted // self.rows_a_shard
        for shard in np.unique(shard_of):
            here = np.flatnonzero(shard_of == shard)
            with safe_open(self.folder / _shard(int(shard)), framework="np") as file:
                part = file.get_slice(name)
                for k, row in zip(here, wanted[here] % self.rows_a_shard, strict=True):
                    found[k] = part[int(row) : int(row) + 1, skip:, :][0]
        return found

    def positions(
        self, name: str, rows: Int[np.ndarray, " some"] | None = None, *, skip: int = 0
    ) -> Float[np.ndarray, "positions d_model"]:
        """:meth:`site` with all positions of all rows below one another."""
        return self.site(name, rows, skip=skip).reshape(-1, self.shape[2])


def residual_streams(
    family: Family,
    tokens: Int[np.ndarray, "n pos"],
    *,
    seeds: Sequence[int] | None = None,
    revision: str | None = None,
    untrained: bool = False,
    n_jobs: int | None = None,
) -> dict[int, Residual]:
    """Residual streams of these seeds (None: all) at one revision, by seed.

    Kept under a key of the models' files, the tokens and this code.  Seeds run side by side, one
    thread each.  ``untrained`` takes random weights of the same architecture, drawn from the seed.

    Raises:
        PretrainedError: a model that cannot be had.
        ValueError: tokens beyond the vocabulary, or an empty matrix.
        FloatingPointError: a stream beyond what half precision holds (65504).
    """
    if not tokens.size:
        raise ValueError(f"the token matrix {tokens.shape} is empty.")
    wanted = family.seeds if seeds is None else seeds
    places = {seed: family.folder(seed, revision) for seed in wanted}
    tokens = np.ascontiguousarray(tokens, dtype=np.int64)
    jobs = min(n_jobs or available_cores(), len(places))
    make = [
        delayed(_kept)(str(folder), tokens, seed if untrained else None)
        for seed, folder in places.items()
    ]
    found = Parallel(n_jobs=jobs, batch_size=1)(make)
    return {seed: Residual.at(Path(folder)) for seed, folder in zip(places, found, strict=True)}


def _kept(folder: str, tokens: np.ndarray, random_seed: int | None) -> str:
    """The folder of one model's streams, written where it is not there."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so that results do not depend on the machine
    try:
        write = functools.partial(_write, model_folder=folder, tokens=tokens, seed=random_seed)
        return str(folders.kept(KIND, _key(Path(folder), tokens, random_seed), write))
    finally:
        torch.set_num_threads(threads)


def _key(folder: Path, tokens: np.ndarray, random_seed: int | None) -> str:
    parts = [
        fingerprint(folder),
        hashlib.sha256(tokens.tobytes()).hexdigest(),
        tokens.shape,
        random_seed,
        *(metadata.version(package) for package in ("torch", "transformers")),
        *(
            folders.file_hash(Path(str(module.__file__)))
            for module in (family_module, sys.modules[__name__])
        ),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:40]


def _write(to: Path, *, model_folder: str, tokens: np.ndarray, seed: int | None) -> None:
    model = load(model_folder, dtype=torch.float32)
    stream_to(to, model if seed is None else untrained(model, seed), tokens)


def stream_to(to: Path, model: Pretrained, tokens: Int[np.ndarray, "n pos"]) -> None:
    """Write a model's residual streams on these tokens to the folder ``to``; errors as above."""
    if tokens.min() < 0 or tokens.max() >= model.d_vocab:
        raise ValueError(
            f"token {tokens.max()} is not in the vocabulary of {model.name}, {model.d_vocab} "
            "tokens: make the rows with this family's tokenizer."
        )
    n, pos = tokens.shape
    rows = max(1, TOKENS_AT_ONCE // pos)
    sites = residual_sites(model.n_layers)
    about = {"sites": sites, "shape": [n, pos, model.d_model], "rows_a_shard": rows}
    (to / "about.json").write_text(json.dumps(about), encoding="utf-8")
    for shard, start in enumerate(range(0, n, rows)):
        streams = _streams(model, torch.from_numpy(tokens[start : start + rows]))
        for site, stream in zip(sites, streams, strict=True):
            if not stream.isfinite().all():
                raise FloatingPointError(
                    f"{model.name} has a value beyond 65504 at {site}, which half precision does "
                    "not hold (or it is not a number at all)."
                )
        save_file(dict(zip(sites, streams, strict=True)), to / _shard(shard))


def _streams(model: Pretrained, tokens: torch.Tensor) -> list[torch.Tensor]:
    """Half-precision streams (rows, pos, d_model) by site; no logits are made."""
    _, blocks = find_blocks(model.model)
    found: list[torch.Tensor] = []

    def note(stream: torch.Tensor) -> None:
        found.append(stream.detach().to("cpu", torch.float16).contiguous())

    def before(module, inputs):
        note(inputs[0])

    def after(module, inputs, output):
        note(hidden_of(output))

    hooks = [blocks[0].register_forward_pre_hook(before)]
    hooks += [block.register_forward_hook(after) for block in blocks]
    try:
        with torch.no_grad():
            model.model.base_model(tokens.to(model.model.device), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def _shard(number: int) -> str:
    return f"rows-{number:05d}.safetensors"
