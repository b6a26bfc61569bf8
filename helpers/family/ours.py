"""The family that is trained here, written as ordinary GPT-NeoX folders.

A reader with Pythia's files, or with a network, changes one parameter, and the same code runs on
them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from helpers.cache import cache_folder
from helpers.family.family import Family
from helpers.models import ModelConfig
from helpers.more_kinds import KINDS
from helpers.neox.model import neox
from helpers.neox.text import Text
from helpers.neox.training import Prose
from helpers.pretrained import folders
from helpers.pretrained.gguf_file import quiet
from helpers.runs import Run
from helpers.tasks.prose import END
from helpers.training import TrainConfig, Trained

OURS = "ours"
MODEL = ModelConfig(d_vocab=2048, n_ctx=64, n_layers=4, d_model=128, n_heads=4, d_mlp=512)
"""1.3 million parameters, of which the blocks have 0.8 million."""
NARROW = replace(MODEL, d_model=64, d_mlp=256)
"""Half as wide: 0.5 million parameters."""
CONFIG = TrainConfig(
    steps=700,
    batch_size=32,
    lr=3e-3,
    betas=(0.9, 0.95),
    warmup=50,
    floor=0.1,
    clip=1.0,
    keep_at=(50, 150, 350),
    eval_every=50,
)


def family_runs(
    text: Text,
    seeds: Sequence[int],
    *,
    model: ModelConfig = MODEL,
    config: TrainConfig = CONFIG,
) -> list[Run]:
    """The trainings of these seeds; seeds differ in weights and in the order of the data.

    ``replace(MODEL, d_model=64, d_mlp=256)`` and the like give other widths.
    """
    return [Run(Prose.of(text), model, config, seed) for seed in seeds]


def save_family(runs: Sequence[Run], trained: Sequence[Trained]) -> Family:
    """Folders with config.json, safetensors and tokenizer for each seed and kept step.

    Revisions are ``step0``, the untrained model, each step of ``keep_at``, and the last step.  They
    lie in the cache, under a key of the recipe and of all code that trains by it.

    Raises:
        ValueError: runs of different recipes, or results that are not those of ``runs``.
    """
    seeds = [run.seed for run in runs]
    if not runs or any(replace(run, seed=0) != replace(runs[0], seed=0) for run in runs):
        raise ValueError("a family is of one task, model and recipe: give runs that share them.")
    if seeds != [done.seed for done in trained]:
        raise ValueError(
            f"the runs have the seeds {seeds}, the results {[done.seed for done in trained]}."
        )
    text, key = runs[0].source.text(), recipe_key(runs[0])
    revisions: tuple[str, ...] = ()
    for run, done in zip(runs, trained, strict=True):
        start = neox(run.model, run.seed).state_dict()
        states = {0: start, **done.kept, done.stopped_at: done.state}
        revisions = tuple(f"step{step}" for step in sorted(states))
        for step, state in states.items():
            write = functools.partial(_write, run=run, state=state, text=text)
            folders.kept(f"family.{key}.seed{run.seed}", f"step{step}", write)
    return Family(str(cache_folder() / f"family.{key}.seed{{seed}}"), tuple(seeds), revisions)


def open_family(
    name: str,
    seeds: Sequence[int],
    revisions: Sequence[str] = (),
    *,
    runs: Sequence[Run] = (),
    trained: Sequence[Trained] = (),
) -> Family:
    """The family that a chapter's parameter names: ``"ours"``, or a pattern as in :class:`Family`.

    For ours, ``runs`` and ``trained`` are what was trained; ``seeds`` picks from them, and
    ``revisions``, where given, from the steps that were kept.

    Raises:
        ValueError: ours without its runs, or a seed or revision that was not trained or kept.
    """
    if name != OURS:
        return Family(name, tuple(seeds), tuple(revisions))
    if not runs:
        raise ValueError('the family "ours" is trained first: give its runs and their results.')
    saved = save_family(runs, trained)
    wrong = [s for s in seeds if s not in saved.seeds]
    wrong += [r for r in revisions if r not in saved.revisions]
    if wrong:
        raise ValueError(
            f"{wrong[0]!r} was not trained or kept. Seeds: {saved.seeds}; revisions: "
            f"{', '.join(saved.revisions)}."
        )
    return Family(saved.pattern, tuple(seeds), tuple(revisions) or saved.revisions)


def recipe_key(run: Run) -> str:
    """What decides the weights but the seed: task, sizes, recipe, code, versions of packages."""
    spec = run.source.spec()
    entry = KINDS[spec["kind"]].stored.entry(
        source=spec, model=asdict(run.model), config=asdict(run.config), seed=0, parent=None
    )
    return entry.name[:20]


def _write(folder: Path, *, run: Run, state: dict[str, torch.Tensor], text: Text) -> None:
    from transformers import PreTrainedTokenizerFast

    model = neox(run.model, run.seed)
    model.load_state_dict(state)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=text.parsed(), bos_token=END, eos_token=END
    )
    with quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    about = f"---\nlicense: mit\n---\nTrained on {text.corpus.said()}.\n"
    (folder / "README.md").write_text(about, encoding="utf-8")
