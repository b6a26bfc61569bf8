"""A family on disk: nine tiny GPT-NeoX seeds at two revisions, by the parameter a reader sets."""

import weakref
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from helpers import family as families
from helpers.cross_model import cross_model_report, prepare
from helpers.family import Family, Rows, residual, residual_sites, residual_streams
from helpers.family.rows import split_documents, token_rows
from helpers.pretrained import NoNetworkError, UnknownModelError, hub, toy
from helpers.pretrained.errors import ModelFileError
from helpers.sae import SAEConfig, train_saes
from helpers.tasks.prose import Document

SEEDS = tuple(range(101, 110))
REVISIONS = ("step3000", "step143000")
WORDS = ["the", "key", "to", "cabinets", "is", "are", "on", "table", "tables", "near", "with"]
LAST = "blocks.2.hook_resid_post"


def rng():
    return np.random.default_rng(100)


@pytest.fixture(scope="module")
def pattern(tmp_path_factory):
    """Nine seeds with two revisions each, as a reader's copy of Pythia would lie there."""
    root = tmp_path_factory.mktemp("models")
    for seed in SEEDS:
        for k, revision in enumerate(REVISIONS):
            folder = root / f"tiny-seed{seed}" / revision
            folder.mkdir(parents=True)
            toy.save("neox", folder, words=WORDS, seed=10 * seed + k)
    return str(root / "tiny-seed{seed}")


@pytest.fixture(scope="module")
def family(pattern):
    return families.open_family(pattern, SEEDS, REVISIONS)


@pytest.fixture(scope="module")
def rows(family):
    documents = [Document(f"{i}", " ".join(rng().choice(WORDS, 30 + 7 * i))) for i in range(12)]
    return token_rows(documents, family.load(SEEDS[0]), 8)


@pytest.fixture(scope="module")
def streams(family, rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(residual, "TOKENS_AT_ONCE", 40)  # five rows a shard, and many shards
        return residual_streams(family, rows.tokens, n_jobs=1)


def test_every_seed_and_revision_is_a_model_of_its_own(family):
    hashes = {family.fingerprint(seed, revision) for seed in SEEDS for revision in REVISIONS}
    assert len(hashes) == 18
    assert family.fingerprint(101) == family.fingerprint(101, "step143000")  # the last by default
    loaded = family.load(103, "step3000")
    assert (loaded.name, loaded.revision) == ("tiny-seed103", "step3000")
    assert loaded.model.config.model_type == "gpt_neox"


def test_streams_are_those_of_the_bridge_up_to_half_precision(family, rows, streams):
    bridge = family.bridge(SEEDS[1])
    _, cache = bridge.run_with_cache(torch.from_numpy(rows.tokens))
    assert streams[SEEDS[1]].sites == residual_sites(3)
    for site in residual_sites(3):
        full, half = cache[site].numpy(), streams[SEEDS[1]].site(site)
        assert half.dtype == np.float32
        bound = 2.0**-11 * np.abs(full) + 2.0**-24  # a half's spacing is 2⁻¹⁰, below 2⁻¹⁴ fixed
        error = np.abs(half - full)
        assert (error <= bound + 1e-5).all() and error.max() > 1e-5  # 1e-5: two ways to add up
        explained = 1 - (error**2).sum() / ((full - full.mean((0, 1))) ** 2).sum()
        assert explained > 1 - 1e-6


def test_rows_come_back_in_the_order_asked_for_across_shards(streams):
    kept, every = streams[SEEDS[0]], streams[SEEDS[0]].site(LAST)
    wanted = np.array([17, 3, 4, 5, 17, 0])
    assert len(list(kept.folder.glob("rows-*.safetensors"))) == -(-len(every) // 5)
    np.testing.assert_array_equal(kept.site(LAST, wanted, skip=2), every[wanted, 2:])
    np.testing.assert_array_equal(kept.positions(LAST, wanted), every[wanted].reshape(-1, 32))
    with pytest.raises(ValueError, match=r"no site 'blocks.9.*blocks.0.hook_resid_pre"):
        kept.site("blocks.9.hook_resid_post")
    with pytest.raises(ValueError, match="rows up to 999"):
        kept.site(LAST, np.array([999]))


def test_the_same_tokens_and_files_are_not_run_again(family, rows, streams, monkeypatch):
    monkeypatch.setattr(residual, "stream_to", None)
    monkeypatch.setattr(residual, "TOKENS_AT_ONCE", 40)
    again = residual_streams(family, rows.tokens, seeds=SEEDS[:2], n_jobs=1)
    assert again == {seed: streams[seed] for seed in SEEDS[:2]}
    with pytest.raises(TypeError):  # another revision is another key
        residual_streams(family, rows.tokens, seeds=SEEDS[:1], revision="step3000", n_jobs=1)


def test_random_weights_stand_beside_the_trained_ones(family, rows, streams):
    found = [
        residual_streams(family, rows.tokens, seeds=[seed], untrained=True, n_jobs=1)[seed]
        for seed in SEEDS[:2]
    ]
    values = [streams[SEEDS[0]].site(LAST), *(kept.site(LAST) for kept in found)]
    assert not any(np.allclose(values[i], values[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


def test_what_is_held_is_one_shard_whatever_the_number_of_rows(family, rows, tmp_path, monkeypatch):
    """Bytes handed to the disk at a time; each shard is gone when the one after next comes."""
    held, earlier = [], []

    def note(tensors, path):
        assert all(ref() is None for ref in earlier)
        held.append(sum(t.numel() * t.element_size() for t in tensors.values()))
        earlier[:] = [weakref.ref(t) for t in tensors.values()]
        save_file(tensors, path)

    monkeypatch.setattr(residual, "save_file", note)
    monkeypatch.setattr(residual, "TOKENS_AT_ONCE", 40)
    residual.stream_to(tmp_path, family.load(SEEDS[0]), rows.tokens)
    assert len(held) > 10 and max(held) == 40 * 32 * 2 * 4  # tokens, width, bytes, sites
    pythia = 4096 * 512 * 2 * 7
    assert pythia < 2e9 / 30


def test_a_value_that_half_precision_does_not_hold_is_refused(family, rows, tmp_path):
    model = family.load(SEEDS[0])
    with torch.no_grad():
        model.model.get_input_embeddings().weight.mul_(1e6)
    with pytest.raises(FloatingPointError, match=r"beyond 65504 at blocks.0.hook_resid_pre"):
        residual.stream_to(tmp_path, model, rows.tokens)


def test_tokens_of_another_tokenizer_are_refused(family, rows, tmp_path):
    with pytest.raises(ValueError, match="this family's tokenizer"):
        residual.stream_to(tmp_path, family.load(SEEDS[0]), rows.tokens + 10**4)
    with pytest.raises(ValueError, match="empty"):
        residual_streams(family, rows.tokens[:0])


def test_the_cross_model_report_takes_two_seeds(family, rows, streams):
    parts = split_documents(rows, (1, 1, 1), rng())
    fit, train, score = ({s: streams[s].positions(LAST, p) for s in SEEDS[:2]} for p in parts)
    config = SAEConfig(expansion=2, l1=0.01, steps=60, batch=64)
    saes = train_saes(list(train.values()), config, init_seeds=[0, 1], data_seed=0)
    pairs = zip(SEEDS[:2], saes, strict=True)
    sides = [prepare(fit[seed], score[seed], done.sae, rng()) for seed, done in pairs]
    found = partial(cross_model_report, draws=99)(*sides, rng()).row()
    assert found["frobenius"] ** 2 == pytest.approx(2 * 32 - 2 * found["trace"])
    assert np.isfinite(list(found.values())).all()


@given(st.integers(0, 2**32), st.lists(st.integers(1, 40), min_size=4, max_size=30))
@settings(max_examples=40, deadline=None)
def test_no_document_is_in_two_parts_and_no_row_is_lost(seed, sizes):
    document = np.repeat(np.arange(len(sizes)), sizes)
    rows = Rows(np.zeros((len(document), 2), dtype=np.int64), document)
    parts = split_documents(rows, (2, 1, 1), np.random.default_rng(seed))
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(document)))
    seen = [set(document[part]) for part in parts]
    assert all(seen) and sum(map(len, seen)) == len(sizes)


def test_parts_have_about_their_shares():
    document = np.repeat(np.arange(100), rng().integers(1, 40, 100))
    rows = Rows(np.zeros((len(document), 2), dtype=np.int64), document)
    sizes = [len(part) / len(document) for part in split_documents(rows, (2, 1, 1), rng())]
    np.testing.assert_allclose(sizes, [0.5, 0.25, 0.25], atol=0.03)
    with pytest.raises(ValueError, match="each part needs a document"):
        split_documents(rows.take(np.arange(1)), (1, 1), rng())


def test_rows_are_whole_and_know_their_document(family):
    model = family.load(SEEDS[0])
    said = [" ".join(WORDS[:k]) for k in (5, 9, 3, 8)]
    rows = token_rows([Document(str(i), text) for i, text in enumerate(said)], model, 4)
    assert rows.document.tolist() == [0, 1, 1, 3, 3]
    assert rows.tokens[1:3].reshape(-1).tolist() == model.to_tokens([said[1]])[0][:8]
    for n_pos, n, text in ((4, 99, "fewer than 99"), (65, None, "1 to 64 tokens")):
        with pytest.raises(ValueError, match=text):
            token_rows([Document("0", said[0])], model, n_pos, n=n)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("no-seed", (1,)), "must hold {seed}"),
        (("a/{seed}/{step}", (1,)), "must hold {seed}"),
        (("a/{seed}", ()), "at least one"),
        (("a/{seed}", (1, 1)), "seeds must be different"),
        (("a/{seed}", (1,), ("x", "x")), "revisions must be different"),
        (("ours", (100,)), "give its runs"),
    ],
)
def test_a_family_that_cannot_be_is_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        families.open_family(*arguments)


def test_what_the_family_lacks_is_named(family, pattern, tmp_path):
    for seed, revision, said in ((7, None, "and not 7"), (101, "step9", "not 'step9'")):
        with pytest.raises(ValueError, match=said):
            family.load(seed, revision)
    with pytest.raises(UnknownModelError, match="Revisions there: step143000, step3000"):
        Family(pattern, SEEDS, ("step7",)).load(101)
    with pytest.raises(UnknownModelError, match="neither a folder"):
        Family(str(tmp_path / "none{seed}"), (1,)).load(1)


def test_a_damaged_file_is_named(family, tmp_path):
    folder = tmp_path / "m1"
    toy.save("neox", folder, words=WORDS)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ModelFileError, match=r"model.safetensors is damaged"):
        Family(str(tmp_path / "m{seed}"), (1,)).load(1)


def test_the_hub_is_asked_for_seed_and_revision(family, monkeypatch):
    asked = []

    def fetch(name, revision):
        asked.append((name, revision))
        return family.folder(102, revision), "commit"

    monkeypatch.setattr(hub, "fetch", fetch)
    pythia = Family("EleutherAI/pythia-70m-seed{seed}", (1, 2), REVISIONS)
    loaded = pythia.load(2, "step3000")
    assert asked[0] == ("EleutherAI/pythia-70m-seed2", "step3000")
    assert loaded.source.endswith("pythia-70m-seed2")
    assert pythia.fingerprint(1) == family.fingerprint(102) and asked[-1][1] == "step143000"


def test_without_a_network_the_error_says_how_to_go_on(monkeypatch):
    def fetch(name, revision):
        raise NoNetworkError("no route")

    monkeypatch.setattr(hub, "fetch", fetch)
    with pytest.raises(NoNetworkError, match=r"pythia-70m-seed1 at step0 .*family = .ours"):
        Family("EleutherAI/pythia-70m-seed{seed}", (1,), ("step0",)).load(1)
