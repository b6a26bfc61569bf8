"""What the last-token path refuses says what is wrong, and where."""

import functools

import numpy as np
import pytest
import torch

from helpers.last_token import (
    Intervention,
    Outputs,
    continue_from,
    extract,
    full_extract,
    full_sweep,
    prepare,
    sweep,
)

D, VOCAB = 16, 20
OUTPUTS = Outputs([3], [4])
ROWS = [[1, 2, 3], [4, 5], [6, 7, 8]]
BASIS, MEAN = np.eye(D)[:, :1], np.zeros(D)


@functools.cache
def tiny():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=D,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        attn_implementation="eager",
    )
    return LlamaForCausalLM(config).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def prefixes():
    return prepare(tiny(), ROWS, OUTPUTS)


@pytest.mark.parametrize(("plus", "minus"), [([], []), ([1], [1, 2]), ([[]], [1]), ([1], [-1])])
def test_impossible_outputs(plus, minus):
    with pytest.raises(ValueError, match=r"outputs? needs?"):
        Outputs(plus, minus)


def test_ids_beyond_the_vocabulary(prefixes):
    with pytest.raises(ValueError, match="token id 20 is beyond this model's 20"):
        prefixes.scored_on(Outputs([20], [1]))


@pytest.mark.parametrize(("rows", "what"), [([], "none"), ([[1, 2], [3]], "prompt 1 has 1")])
def test_prompts_without_a_prefix(rows, what):
    with pytest.raises(ValueError, match=what):
        prepare(tiny(), rows, OUTPUTS)


def test_an_empty_chunk():
    with pytest.raises(ValueError, match="chunk = 0"):
        prepare(tiny(), ROWS, OUTPUTS, chunk=0)


def test_a_model_in_training_mode():
    model = tiny()
    model.train()
    try:
        with pytest.raises(ValueError, match=r"model\.eval"):
            prepare(model, ROWS, OUTPUTS)
    finally:
        model.eval()


def test_an_attention_kernel_without_masks(monkeypatch):
    monkeypatch.setattr(tiny().config, "_attn_implementation_internal", "flash_attention_2")
    with pytest.raises(ValueError, match="attn_implementation='eager'"):
        prepare(tiny(), ROWS, OUTPUTS)


def test_a_model_without_unembedding():
    with pytest.raises(ValueError, match="AutoModelForCausalLM"):
        prepare(tiny().model, ROWS, OUTPUTS)


def test_a_layer_that_is_not_there(prefixes):
    H = prefixes.resid[:, 0]
    for layer in (-1, 2):
        with pytest.raises(IndexError, match="not among 0…1"):
            continue_from(prefixes, layer, H)
        with pytest.raises(IndexError, match="not among 0…1"):
            extract(prefixes, layers=[layer])
        with pytest.raises(IndexError, match="not among 0…1"):
            sweep(prefixes, [Intervention(layer, BASIS, MEAN, "keep")])
        with pytest.raises(IndexError, match="not"):
            full_sweep(tiny(), ROWS, OUTPUTS, layer, lambda h: h)
        with pytest.raises(IndexError, match="not"):
            full_extract(tiny(), ROWS, OUTPUTS, layers=[layer])
    with pytest.raises(ValueError, match="was not extracted"):
        extract(prefixes, layers=[1]).at(0)


def test_outputs_that_are_not_there(prefixes):
    with pytest.raises(IndexError, match="output 1 is not among"):
        extract(prefixes, outputs=[1])
    with pytest.raises(ValueError, match="at least one"):
        extract(prefixes, outputs=[])
    with pytest.raises(IndexError, match="own must name"):
        sweep(prefixes, [Intervention(0, BASIS, MEAN, "keep")], own=[1])


@pytest.mark.parametrize("shape", [(2, D), (3, D - 1), (3,), (3, 1, 1, D)])
def test_hidden_states_of_another_shape(prefixes, shape):
    with pytest.raises(ValueError, match="H must be"):
        continue_from(prefixes, 0, np.zeros(shape))


def test_hidden_states_with_nan_and_gradients_of_an_array(prefixes):
    with pytest.raises(ValueError, match="NaN"):
        continue_from(prefixes, 0, np.full((3, D), np.nan))
    with pytest.raises(ValueError, match="need a tensor"):
        continue_from(prefixes, 0, prefixes.resid[:, 0], grad=True)


@pytest.mark.parametrize(
    ("basis", "mean", "mode", "what"),
    [
        (BASIS[:-1], MEAN, "keep", "intervention 1: needs a basis"),
        (BASIS, MEAN[:-1], "keep", "intervention 1: needs a basis"),
        (BASIS, MEAN, "double", "'double'"),
        (BASIS * np.nan, MEAN, "keep", "intervention 1: basis or mean holds NaN"),
    ],
)
def test_interventions_that_do_not_fit(prefixes, basis, mean, mode, what):
    good = Intervention(0, BASIS, MEAN, "keep")
    with pytest.raises(ValueError, match=what):
        sweep(prefixes, [good, Intervention(1, basis, mean, mode)])


def test_no_intervention(prefixes):
    with pytest.raises(ValueError, match="sweep needs interventions"):
        sweep(prefixes, [])
    with pytest.raises(ValueError, match="sweep needs interventions"):
        sweep(prefixes, [Intervention(0, BASIS, MEAN, "keep")], own=[0, 0])


def test_rows_that_are_not_there(prefixes):
    with pytest.raises(IndexError):
        prefixes.select([3])
    with pytest.raises(IndexError, match="no prompt"):
        prefixes.select([])


def test_positions_that_are_not_there():
    with pytest.raises(ValueError, match="'all', 'last'"):
        full_sweep(tiny(), ROWS, OUTPUTS, 0, lambda h: h, "first")
    with pytest.raises(ValueError, match="2 positions for 3 prompts"):
        full_sweep(tiny(), ROWS, OUTPUTS, 0, lambda h: h, [0, 1])
    with pytest.raises(IndexError, match="prompt 1 has 2 tokens, and no position 2"):
        full_sweep(tiny(), ROWS, OUTPUTS, 0, lambda h: h, [2, 2, 2])
    with pytest.raises(ValueError, match="one position a prompt"):
        full_extract(tiny(), ROWS, OUTPUTS, "all")


def test_an_edit_that_changes_the_shape():
    with pytest.raises(ValueError, match="the edit got"):
        full_sweep(tiny(), ROWS, OUTPUTS, 0, lambda h: h[:, :-1])
    assert not any(m._forward_hooks for m in tiny().modules())


def test_an_unembedding_on_no_device():
    from helpers.last_token.outputs import Readout

    head = torch.nn.Linear(D, VOCAB, device="meta")
    with pytest.raises(ValueError, match="offloaded"):
        Readout((), head, None, OUTPUTS)
