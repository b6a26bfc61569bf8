"""GPT-NeoX seeds: Pythia's architecture, the corpus as a task, runs that go on bit for bit."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from helpers.models import ModelConfig
from helpers.neox import text as neox_text
from helpers.neox import training
from helpers.neox.model import neox
from helpers.neox.training import Prose, RowStream
from helpers.tasks import prose
from helpers.tasks.prose import Corpus, CorpusError, Document, Part
from helpers.training import TrainConfig, train

MODEL = ModelConfig(d_vocab=300, n_ctx=8, n_layers=2, d_model=32, n_heads=2, d_mlp=64)
CONFIG = TrainConfig(steps=6, batch_size=4, lr=3e-3, warmup=2, clip=1.0, eval_every=3, keep_at=(3,))
WORDS = ["rows", "and", "columns", "of", "a", "matrix", "are", "read", "in", "order", "mean"]


@pytest.fixture(scope="module")
def text():
    rng = np.random.default_rng(100)
    said = [" ".join(rng.choice(WORDS, size=60)) for _ in range(80)]
    documents = tuple(Document(f"file{i}.py", words) for i, words in enumerate(said))
    corpus = Corpus(documents, {"planted": Part("1", "0" * 64, 0)})
    tokenizer = prose.train_tokenizer([*said, "Other signs: äöü, xyz, 0123, (a|b)."] * 3, 300)
    train_tokens, _ = prose.encode(tokenizer, [d.text for d in corpus.train])
    return neox_text.Text(corpus, tokenizer.to_str(), train_tokens)


@pytest.fixture
def task(text, monkeypatch):
    """The task on the planted text, which stands for the installed packages' own."""
    monkeypatch.setattr(training, "read_text", lambda *_, **__: text)
    return Prose.of(text)


def test_the_model_is_pythia_s_architecture_and_its_seed_decides_it():
    one, again, other = (neox(MODEL, seed) for seed in (100, 100, 101))
    config = one.config
    assert config.model_type == "gpt_neox" and config.use_parallel_residual
    assert not config.tie_word_embeddings
    assert config.rope_parameters["partial_rotary_factor"] == 0.25
    name = "gpt_neox.layers.1.attention.query_key_value.weight"
    values = [model.state_dict()[name] for model in (one, again, other)]
    assert torch.equal(values[0], values[1]) and not torch.equal(values[0], values[2])


def test_a_block_adds_attention_and_mlp_side_by_side():
    block, x = neox(MODEL, 100).eval().gpt_neox.layers[0], torch.randn(1, 1, MODEL.d_model)
    maps = block.attention
    with torch.no_grad():
        for tensor in block.parameters():
            tensor.add_(0.1 * torch.randn_like(tensor))
        # one position attends to itself alone, whatever its rotary angle: values go straight out
        qkv = maps.query_key_value(block.input_layernorm(x))
        v = qkv.unflatten(-1, (MODEL.n_heads, 3, MODEL.d_head))[..., 2, :].flatten(-2)
        wanted = x + maps.dense(v) + block.mlp(block.post_attention_layernorm(x))
        angles = (torch.ones(1, 1, 4), torch.zeros(1, 1, 4))
        got = block(x, attention_mask=None, position_embeddings=angles)
    got = got[0] if isinstance(got, tuple) else got
    torch.testing.assert_close(got.reshape(x.shape), wanted)


@pytest.mark.parametrize(
    ("change", "said"), [({"norm": "post"}, "pre-norm"), ({"n_heads": 8}, "multiple of 8")]
)
def test_sizes_that_gpt_neox_does_not_have_are_refused(change, said):
    with pytest.raises(ValueError, match=said):
        neox(replace(MODEL, **change), 100)


def test_training_lowers_the_loss_and_seeds_differ(task):
    long = replace(CONFIG, steps=60, keep_at=(), eval_every=30, lr=1e-2)
    runs = [train(task, MODEL, long, seed, progress=False) for seed in (100, 101)]
    for run in runs:
        assert run.loss[0] == pytest.approx(np.log(300), abs=0.2)  # knows nothing at first
        assert run.history["held_out_loss"][-1] < 4.0
    assert not np.array_equal(runs[0].loss, runs[1].loss)


def test_a_run_that_was_left_goes_on_bit_for_bit(task):
    config = replace(CONFIG, keep_at=(), eval_every=0)
    whole = train(task, MODEL, replace(config, decay=False), 100, progress=False)
    half = train(task, MODEL, replace(config, steps=3, decay=False), 100, progress=False)
    rest = replace(config, steps=3, decay=False, warmup=0)
    again = train(task, MODEL, rest, 100, start=half.final, progress=False)
    for name, value in whole.state.items():
        assert torch.equal(value, again.state[name]), name


def test_rows_are_shuffled_by_the_seed_and_the_position_comes_back(text):
    stream = RowStream(text.train, 4, 8, 100)
    first = next(stream)
    assert first.shape == (4, 9)
    rows = {tuple(row) for row in stream.data.tolist()}
    assert all(tuple(row) in rows for row in first.tolist())
    left = stream.state()
    wanted, other = next(stream), RowStream(text.train, 4, 8, 101)
    assert not np.array_equal(first, next(other))
    other.load(left)
    assert np.array_equal(next(other), wanted)


def test_the_loss_on_documents_that_were_held_out_is_the_plain_formula(task, text):
    learner = task.learner(MODEL, CONFIG, 100)
    rows = training.held_out_rows(text, training.N_EVAL, 9)
    with torch.no_grad():
        logits = learner.net(torch.from_numpy(rows[:, :-1]).long()).logits.log_softmax(-1)
    chosen = np.take_along_axis(logits.numpy(), rows[:, 1:, None].astype(np.int64), 2)
    assert task.evaluate(learner)["held_out_loss"] == pytest.approx(-chosen.mean(), abs=1e-5)
    held_out = prose.encode(text.parsed(), [d.text for d in text.corpus.held_out])[0]
    assert rows.reshape(-1).tolist() == held_out[: rows.size].tolist()
    with pytest.raises(ValueError, match="fewer than"):
        training.held_out_rows(text, 10**6, 9)


def test_a_task_comes_back_from_its_spec_and_refuses_another_text(task):
    assert training.from_spec(task.spec()) == task
    with pytest.raises(CorpusError, match=r"SHA-256 ffffffffffff.*Prose.of"):
        replace(task, sha256="f" * 64).text()


@pytest.mark.parametrize(
    ("model", "config", "said"),
    [
        ({"d_vocab": 301}, {}, "300 tokens"),
        ({}, {"dropout": 0.1}, "no dropout"),
    ],
)
def test_what_the_task_does_not_have_is_refused(task, model, config, said):
    with pytest.raises(ValueError, match=said):
        task.learner(replace(MODEL, **model), replace(CONFIG, **config), 100)


def test_the_task_has_its_own_rows(task):
    with pytest.raises(ValueError, match="leave n_sequences at 0"):
        task.batches(MODEL, replace(CONFIG, n_sequences=64), 100)


def test_the_installed_packages_give_the_pinned_corpus_or_are_named():
    """One small part, so that the test is quick: the others go the same way."""
    expected = prose.pinned()
    part = prose.find_source("torch")
    if part.version in expected["parts"]["torch"]:
        corpus = neox_text.read_corpus(["torch"])
        assert corpus.parts["torch"].sha256 == expected["parts"]["torch"][part.version]
        assert corpus.characters > 400_000
    else:
        with pytest.raises(CorpusError, match=f"torch {part.version} is installed"):
            neox_text.read_corpus(["torch"])
        assert neox_text.read_corpus(["torch"], expected=None).characters > 0
    with pytest.raises(ValueError, match="each once"):
        neox_text.read_corpus(["torch", "torch"])
