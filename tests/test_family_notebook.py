"""Chapter 4b on another family: folders of GPT-NeoX models, through the parameter a reader changes.

Nine seeds with two revisions each, as the paper's Pythia models have, at a tiny size.
"""

import json
import shutil
import subprocess
import sys

import pytest
import yaml

from helpers.neox.text import read_corpus
from helpers.tasks.prose import train_tokenizer

SEEDS, REVISIONS = range(1, 10), ("step3000", "step143000")
D_VOCAB = 300


@pytest.fixture(scope="module")
def pattern(tmp_path_factory):
    """Where the nine seeds lie."""
    import torch
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, PreTrainedTokenizerFast

    home = tmp_path_factory.mktemp("pythia")
    texts = [document.text for document in read_corpus().train[:40]]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=train_tokenizer(texts, D_VOCAB))
    config = GPTNeoXConfig(
        vocab_size=D_VOCAB,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        initializer_range=0.2,
    )
    for seed in SEEDS:
        torch.manual_seed(seed)
        model = GPTNeoXForCausalLM(config)
        for revision in REVISIONS:  # the later one has moved a little
            folder = home / f"seed{seed}" / revision
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            with torch.no_grad():
                for weight in model.parameters():
                    weight.add_(0.02 * torch.randn_like(weight))
    return str(home / "seed{seed}")


@pytest.fixture
def book(tmp_path, root, pattern):
    """The book with this one chapter, and a profile that names the other family."""
    (tmp_path / "notebooks" / "profiles").mkdir(parents=True)
    for name in ("helpers", "book", "_config.yml", "_toc.yml", "pyproject.toml"):
        (tmp_path / name).symlink_to(root / name)
    shutil.copy(root / "notebooks" / "04b_family.ipynb", tmp_path / "notebooks")
    profiles = root / "notebooks" / "profiles"
    shutil.copy(profiles / "limits.yml", tmp_path / "notebooks" / "profiles")
    quick = yaml.safe_load((profiles / "quick.yml").read_text(encoding="utf-8"))["04b_family"]
    quick |= {
        "family": pattern,
        "revisions": list(REVISIONS),
        "first_seed": SEEDS[0],
        "n_seeds": len(SEEDS),
    }
    quick |= {"n_sae": 12, "n_fit": 12, "n_score": 8, "sae_steps": 5, "sparse_steps": 5}
    quick |= {"n_power": 4, "doses": [2], "n_random": 2, "ig_points": 2, "n_attribution": 2}
    made = tmp_path / "notebooks" / "profiles" / "quick.yml"
    made.write_text(yaml.safe_dump({"04b_family": quick}), encoding="utf-8")
    return tmp_path


def test_the_whole_chapter_runs_on_nine_seeds_with_two_revisions_in_folders(book, root):
    command = [sys.executable, "-m", "helpers", "run", "04b", "--profile", "quick"]
    done = subprocess.run(
        [*command, "--root", str(book)], cwd=root, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads((book / "_build" / "records" / "quick" / "04b_family.json").read_text())
    assert len(record["entries"]) == 14
    assert {entry["n"] for entry in record["entries"]} == {len(SEEDS)}
    notebook = (
        book / "_build" / "executed" / "quick" / "04b_family" / "notebook.ipynb"
    ).read_text()
    assert "step3000 and step143000" in notebook  # the checkpoints of one run
    assert "This family has one width" in notebook
