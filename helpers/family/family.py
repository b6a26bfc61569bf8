"""Where the models of a family live: one pattern for folders on this machine and for the hub."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.pretrained import NoNetworkError, UnknownModelError, folders, hub, load
from helpers.pretrained.model import Pretrained, settle

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge


@dataclass(frozen=True)
class Family:
    """Seeds of one recipe at several revisions.

    ``pattern`` holds ``{seed}``.  It names a repository of the hub, such as
    ``EleutherAI/pythia-70m-seed{seed}``, whose branches or tags are the ``revisions``; or a folder
    on this machine, such as ``models/seed{seed}``, in which each revision is a folder of its own.
    Without revisions it is the folder itself, or the hub's main branch.

    Args:
        pattern: as above.
        seeds: at least one, each once.
        revisions: from the first to the last of training; where none is asked for, the last one.

    Raises:
        ValueError: a pattern without ``{seed}``, or seeds or revisions that repeat.
    """

    pattern: str
    seeds: tuple[int, ...]
    revisions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "seeds", tuple(self.seeds))
        object.__setattr__(self, "revisions", tuple(self.revisions))
        try:
            named = self.pattern.format(seed=0) != self.pattern.format(seed=1)
        except (KeyError, IndexError, ValueError):
            named = False
        if not named:
            raise ValueError(
                f"the family's pattern {self.pattern!r} must hold {{seed}} and nothing else in "
                "braces, as EleutherAI/pythia-70m-seed{seed} does."
            )
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds must be different, at least one; got {self.seeds}.")
        if len(set(self.revisions)) != len(self.revisions):
            raise ValueError(f"revisions must be different; got {self.revisions}.")

    def name(self, seed: int) -> str:
        """The seed's folder or repository.

        Raises:
            ValueError: a seed that the family does not have.
        """
        if seed not in self.seeds:
            raise ValueError(f"the family has the seeds {self.seeds}, and not {seed}.")
        return self.pattern.format(seed=seed)

    @property
    def local(self) -> bool:
        """Whether the models are folders on this machine."""
        return any(Path(self.name(seed)).expanduser().is_dir() for seed in self.seeds)

    def folder(self, seed: int, revision: str | None = None) -> Path:
        """The folder with this model's files; one from the hub is fetched, unless it is here.

        Raises:
            PretrainedError: a subclass says whether the model, the revision or the network is
                missing, and what to do.
        """
        name, revision = self.name(seed), self._known(revision)
        if self.local:
            folder = Path(name).expanduser() / (revision or "")
            if not (folder / "config.json").is_file():
                inside = Path(name).expanduser()
                there = sorted(path.parent.name for path in inside.glob("*/config.json"))
                raise UnknownModelError(
                    f"there is no model in {folder}. "
                    + (f"Revisions there: {', '.join(there)}." if there else "Is the seed right?")
                )
            return folder
        if not hub.looks_like_id(name):
            raise UnknownModelError(
                f"{name!r} is neither a folder on this machine nor an id of the hub (owner/name)."
            )
        try:
            return hub.fetch(name, revision)[0]
        except NoNetworkError as error:
            raise NoNetworkError(
                f"{name} at {revision or 'main'} is not on this machine, and the hub was not "
                'reached. Connect to a network once, or set family = "ours", which needs none.'
            ) from error

    def load(self, seed: int, revision: str | None = None) -> Pretrained:
        """The model, through chapter 3's loader, in float32.

        Raises:
            PretrainedError: as :meth:`folder`, or the files are damaged.
        """
        import torch

        folder, name = self.folder(seed, revision), self.name(seed)
        found = load(str(folder), dtype=torch.float32)
        label = self._known(revision) or "main"
        source = "a folder on this machine" if self.local else f"Hugging Face hub, {name}"
        if not self.local:
            label = f"{label} = {folder.name}"  # the hub's folder is named after the commit
        short = Path(name).name if self.local else name
        return dataclasses.replace(found, name=short, source=source, revision=label)

    def bridge(self, seed: int, revision: str | None = None) -> TransformerBridge:
        """The model as a TransformerBridge; errors as :meth:`load`."""
        return self.load(seed, revision).bridge()

    def untrained(self, seed: int, revision: str | None = None) -> Pretrained:
        """The same architecture and tokenizer with random weights, drawn from ``seed``."""
        return untrained(self.load(seed, revision), seed)

    def fingerprint(self, seed: int, revision: str | None = None) -> str:
        """The hash of the model's files: weights, configuration and tokenizer."""
        return fingerprint(self.folder(seed, revision))

    def _known(self, revision: str | None) -> str | None:
        if revision is None:
            return self.revisions[-1] if self.revisions else None
        if revision not in self.revisions:
            raise ValueError(
                f"the family has the revisions {', '.join(self.revisions) or '(none)'}, and not "
                f"{revision!r}."
            )
        return revision


def untrained(model: Pretrained, seed: int) -> Pretrained:
    """A model of the same architecture and tokenizer with random weights, drawn from ``seed``."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = AutoModelForCausalLM.from_config(
            model.model.config, attn_implementation="eager", dtype=torch.float32
        )
    return dataclasses.replace(
        model, model=settle(made), source="random weights", revision="untrained"
    )


def fingerprint(folder: Path) -> str:
    """The hash of a model folder's safetensors, configuration and tokenizer."""
    files = [*sorted(folder.glob("*.safetensors")), folder / "config.json"]
    files += [path for path in [folder / "tokenizer.json"] if path.is_file()]
    hashes = {path.name: folders.file_hash(path) for path in files}
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()
