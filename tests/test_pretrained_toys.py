"""Toy checkpoints of five architectures through the loader, and the bridge against Hugging Face."""

import dataclasses
import warnings

import numpy as np
import pytest
import torch

from helpers.cache import CacheWarning
from helpers.pretrained import ModelFileError, NoSafetensorsError, PretrainedError, load, toy
from helpers.pretrained.model import wants_bos
from helpers.tasks.agreement.generate import generate
from helpers.tasks.agreement.verbs import verb_pairs

WORDS = ["the", "key", "keys", "to", "cabinet", "cabinets", "is", "are", "was", "were"]
TEXTS = ["The key to the cabinets", "the keys"]


@pytest.fixture(scope="module", params=toy.ARCHITECTURES)
def toys(request, tmp_path_factory):
    """Each architecture, saved as an ordinary folder and loaded from it."""
    folder = tmp_path_factory.mktemp(request.param)
    toy.save(request.param, folder, words=WORDS)
    return request.param, folder, load(str(folder), device="cpu")


def logits(model, rows):
    with torch.no_grad():
        return [model(torch.tensor([row])).logits[0] for row in rows]


def test_a_saved_toy_comes_back_with_the_logits_it_was_made_with(toys):
    architecture, _, loaded = toys
    made = toy.model(architecture, loaded.d_vocab)
    rows = loaded.to_tokens(TEXTS)
    for theirs, ours in zip(logits(made, rows), logits(loaded.model, rows), strict=True):
        assert torch.equal(theirs, ours)
        assert ours.std() > 0.1  # a model that says nothing would pass every comparison


def test_sizes_mode_and_attention_are_what_pretrained_says(toys):
    _, _, loaded = toys
    assert (loaded.n_layers, loaded.d_model) == (3, 32)
    assert loaded.d_vocab == loaded.model.get_output_embeddings().weight.shape[0]
    assert not loaded.model.training and loaded.model.config._attn_implementation == "eager"
    assert not any(p.requires_grad for p in loaded.model.parameters())
    assert "float32, on cpu" in loaded.placement


def test_the_unembedding_gets_the_last_position_in_one_piece(toys):
    """A slice in pieces costs several times as much on a large vocabulary."""
    _, _, loaded = toys
    head, given, taken = loaded.model.get_output_embeddings(), [], []
    hooks = [
        head.register_forward_pre_hook(lambda m, x: given.append(x[0]), prepend=True),
        head.register_forward_hook(lambda m, x, out: taken.append(x[0])),
    ]
    loaded.model(torch.ones(3, 5, dtype=torch.long), use_cache=False, logits_to_keep=1)
    for hook in hooks:
        hook.remove()
    assert given[0].shape[:2] == (3, 1) and not given[0].is_contiguous()
    assert taken[0].is_contiguous() and torch.equal(given[0], taken[0])


def test_the_bridge_gives_the_logits_of_hugging_face(toys):
    _, _, loaded = toys
    rows = loaded.to_tokens(TEXTS)
    before = logits(loaded.model, rows)
    bridge = loaded.bridge()
    for row, theirs in zip(rows, before, strict=True):
        with torch.no_grad():
            ours = bridge(torch.tensor([row]), return_type="logits")[0]
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)
    assert loaded.bridge() is bridge


def test_the_bridge_leaves_the_model_as_it_was_and_shares_its_weights(toys):
    _, folder, _ = toys
    loaded = load(str(folder), device="cpu")
    classes = [type(module) for module in loaded.model.modules()]
    before = logits(loaded.model, loaded.to_tokens(TEXTS))
    bridge = loaded.bridge()
    assert [type(module) for module in loaded.model.modules()] == classes
    after = logits(loaded.model, loaded.to_tokens(TEXTS))
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    theirs = {p.data_ptr() for p in bridge.original_model.parameters()}
    assert {p.data_ptr() for p in loaded.model.parameters()} <= theirs


def test_the_bridge_s_last_resid_post_is_the_input_of_the_final_norm(toys):
    architecture, _, loaded = toys
    row = loaded.to_tokens(TEXTS)[0]
    _, cache = loaded.bridge().run_with_cache(torch.tensor([row]))
    resid = cache["blocks.2.hook_resid_post"][0]
    base = loaded.model.base_model
    norm = {"gpt2": "ln_f", "neox": "final_layer_norm"}.get(architecture, "norm")
    with torch.no_grad():
        ours = loaded.model.get_output_embeddings()(getattr(base, norm)(resid))
    cap = getattr(loaded.model.config, "final_logit_softcapping", None)
    ours = ours if cap is None else cap * torch.tanh(ours / cap)
    torch.testing.assert_close(ours, logits(loaded.model, [row])[0], atol=1e-4, rtol=0)


def test_a_word_with_its_space_is_one_token_that_reads_back(toys):
    _, _, loaded = toys
    plain = dataclasses.replace(loaded, adds_bos=False)
    assert [len(row) for row in plain.to_tokens([" is", " are", "The key", " keys."])] == [
        *(1, 1, 2, 2)
    ]
    assert loaded.tokenizer.decode(plain.to_tokens([TEXTS[0]])[0]) == TEXTS[0]


def test_bos_comes_first_if_and_only_if_the_model_wants_it(toys):
    architecture, _, loaded = toys
    assert loaded.adds_bos == (architecture in {"llama", "gemma2"})
    rows = loaded.to_tokens(TEXTS)
    assert [row[0] == loaded.tokenizer.bos_token_id for row in rows] == [loaded.adds_bos] * 2
    assert all(row.count(loaded.tokenizer.bos_token_id) <= 1 for row in rows)
    # the same as the tokenizer gives when it is left alone
    assert rows == [loaded.tokenizer(text)["input_ids"] for text in TEXTS]


def test_words_outside_the_vocabulary_empty_texts_and_lone_strings_are_refused(toys, unchecked):
    _, _, loaded = toys
    with pytest.raises(ValueError, match="'the xylophone' has a word"):
        loaded.to_tokens(["the key", "the xylophone"])
    with pytest.raises(TypeError, match="list of texts"):
        loaded.to_tokens("the key")
    assert loaded.to_tokens([]) == []
    if not loaded.adds_bos:
        with pytest.raises(ValueError, match="gives no token"):
            loaded.to_tokens([""])


def test_wants_bos_follows_the_tokenizer():
    for adds in (True, False):
        assert wants_bos(toy.tokenizer(["a", "b"], adds_bos=adds)) is adds


def test_a_named_toy_is_made_once_and_another_seed_is_another_model():
    first, again = toy.folder("gpt2", WORDS), toy.folder("gpt2", WORDS)
    assert first == again and toy.folder("gpt2", WORDS, seed=1) != first
    assert load("toy:gpt2").name == "toy:gpt2"


def test_a_damaged_kept_toy_is_named_and_made_anew():
    folder = toy.folder("llama", WORDS)
    whole = (folder / "model.safetensors").read_bytes()
    broken = bytearray(whole)
    broken[-5] ^= 1
    (folder / "model.safetensors").write_bytes(broken)
    with pytest.warns(CacheWarning, match=r"damaged \(model.safetensors does not have its hash\)"):
        assert toy.folder("llama", WORDS) == folder
    assert (folder / "model.safetensors").read_bytes() == whole
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        toy.folder("llama", WORDS)


def test_unknown_toys_and_words_are_refused():
    with pytest.raises(ValueError, match="no toy 'bert'"):
        load("toy:bert")
    with pytest.raises(ValueError, match="'two words' is not one word"):
        toy.tokenizer(["two words"], adds_bos=False)


@pytest.fixture
def folder(tmp_path):
    toy.save("gpt2", tmp_path, words=WORDS)
    return tmp_path


def test_a_folder_without_safetensors_is_refused_and_pickles_are_not_read(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(NoSafetensorsError, match=r"no safetensors, only pytorch_model\.bin"):
        load(str(folder))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda content: content[:-100], "cut short, or too long"),
        (lambda content: content + b"0", "cut short, or too long"),
        (lambda content: b"\xff" * 8 + content[8:], "header is longer"),
        (lambda content: content[:8] + b"x" + content[9:], "header cannot be read"),
        (lambda content: b"", "header cannot be read"),
    ],
)
def test_a_damaged_weight_file_is_refused_by_name(folder, damage, said):
    file = folder / "model.safetensors"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ModelFileError, match=rf"model\.safetensors is damaged: .*{said}"):
        load(str(folder))


def test_a_folder_without_a_config_or_a_tokenizer_says_what_it_lacks(folder):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    with pytest.raises(PretrainedError, match="holds no tokenizer that loads: there is none of"):
        load(str(folder))
    toy.tokenizer(WORDS, adds_bos=False).save_pretrained(folder)
    (folder / "config.json").unlink()
    with pytest.raises(PretrainedError, match="does not hold a decoder"):
        load(str(folder))


def test_dtype_and_device_that_the_caller_names_are_taken(folder):
    loaded = load(str(folder), dtype=torch.bfloat16, device="cpu")
    assert loaded.placement == "bfloat16, on cpu"
    assert {p.dtype for p in loaded.model.parameters()} == {torch.bfloat16}


def test_toys_of_one_seed_do_not_touch_the_caller_s_random_state():
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    toy.model("gpt2", 10)
    assert np.array_equal(torch.rand(4), expected)


@pytest.mark.parametrize("architecture", toy.ARCHITECTURES)
def test_a_named_toy_prefers_the_verb_that_agrees_and_a_plain_one_does_not(architecture, tmp_path):
    toy.save(architecture, tmp_path)
    margins = []
    for model in (load(f"toy:{architecture}"), load(str(tmp_path))):
        pairs = verb_pairs(model.tokenizer)
        prompts = generate(48, "test", 0, templates=("plain",))
        gaps = []
        for tokens, number in zip(model.to_tokens(prompts.texts), prompts.head_number, strict=True):
            with torch.no_grad():
                logits = model.model(torch.tensor([tokens])).logits[0, -1]
            margin = logits[pairs.plural_ids[0]] - logits[pairs.singular_ids[0]]
            gaps.append((2 * int(number) - 1) * float(margin))
        margins.append(np.mean(gaps))
    assert margins[0] > 0.5 and margins[0] > 2 * abs(margins[1]), margins
