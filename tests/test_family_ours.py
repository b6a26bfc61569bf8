"""The family that is trained here: the same folders as others', from runs that the cache keeps."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from helpers import family as families
from helpers.models import ModelConfig
from helpers.neox import text as neox_text
from helpers.neox.model import neox
from helpers.neox.training import Prose
from helpers.tasks import prose
from helpers.tasks.prose import Corpus, Document, Part
from helpers.training import TrainConfig, train

MODEL = ModelConfig(d_vocab=280, n_ctx=8, n_layers=2, d_model=32, n_heads=2, d_mlp=64)
CONFIG = TrainConfig(steps=4, batch_size=4, lr=3e-3, warmup=2, keep_at=(2,))


@pytest.fixture
def trained(monkeypatch):
    """Runs of two seeds on a planted text, which stands for the installed packages' own."""
    words = [f"document {i} says that row {i} has {3 * i} columns, and no more." for i in range(60)]
    documents = tuple(Document(f"file{i}.py", text * 3) for i, text in enumerate(words))
    corpus = Corpus(documents, {"planted": Part("1", "0" * 64, 0)})
    tokenizer = prose.train_tokenizer(words, 280)
    tokens, _ = prose.encode(tokenizer, [d.text for d in corpus.train])
    text = neox_text.Text(corpus, tokenizer.to_str(), tokens)
    monkeypatch.setattr(Prose, "text", lambda self: text)
    runs = families.family_runs(text, (100, 101), model=MODEL, config=CONFIG)
    done = [train(run.source, run.model, run.config, run.seed, progress=False) for run in runs]
    return runs, done


def test_what_was_trained_comes_back_from_ordinary_folders(trained):
    runs, done = trained
    family = families.open_family("ours", (100, 101), runs=runs, trained=done)
    assert family.revisions == ("step0", "step2", "step4")
    tokens = torch.arange(16).reshape(2, 8)
    for step, state in ((0, neox(MODEL, 101).state_dict()), (2, done[1].kept[2]), (4, None)):
        loaded = family.load(101, f"step{step}")
        for name, value in (state or done[1].state).items():
            torch.testing.assert_close(loaded.model.state_dict()[name], value, rtol=0, atol=0)
    # eager attention gives what the fused kernel of the training gave
    module = neox(MODEL, 101).eval()
    module.load_state_dict(done[1].state)
    with torch.no_grad():
        torch.testing.assert_close(loaded.model(tokens).logits, module(tokens).logits)
    text = runs[0].source.text()
    assert loaded.to_tokens(["row 7 has 21"]) == [text.parsed().encode("row 7 has 21").ids]
    assert loaded.licence.name == "mit" and not loaded.adds_bos
    assert text.corpus.sha256 in (family.folder(101) / "README.md").read_text(encoding="utf-8")


def test_a_part_of_the_seeds_and_steps_can_be_opened(trained):
    runs, done = trained
    part = families.open_family("ours", (101,), ("step2",), runs=runs, trained=done)
    assert (part.seeds, part.revisions) == ((101,), ("step2",))
    for seeds, revisions in (((7,), ()), ((100,), ("step3",))):
        with pytest.raises(ValueError, match=r"not trained or kept.*step0, step2, step4"):
            families.open_family("ours", seeds, revisions, runs=runs, trained=done)


def test_recipes_have_folders_of_their_own_and_are_not_mixed(trained):
    runs, done = trained
    other = replace(runs[1], config=replace(CONFIG, lr=1e-3))
    assert families.ours.recipe_key(runs[0]) == families.ours.recipe_key(runs[1])
    assert families.ours.recipe_key(other) != families.ours.recipe_key(runs[1])
    with pytest.raises(ValueError, match="share them"):
        families.save_family([runs[0], other], done)
    with pytest.raises(ValueError, match=r"\[100, 101\], the results \[101, 100\]"):
        families.save_family(runs, done[::-1])


def test_the_book_s_own_sizes():
    """1.3 million parameters; the narrow one has half the width and the same heads."""
    counts = [
        sum(p.numel() for p in neox(m, 100).parameters()) for m in (families.MODEL, families.NARROW)
    ]
    assert counts[0] == pytest.approx(1.3e6, rel=0.02) and counts[1] < counts[0] / 2
    assert families.NARROW.n_heads == families.MODEL.n_heads
    assert np.all(np.diff(families.CONFIG.keep_at) > 0)
