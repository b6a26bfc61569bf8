"""SAEs on disk: the folder that SAELens reads, and SAELens itself where it is installed."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.sae import ReluSAE, TopKSAE, from_saelens, load_saelens, save_saelens, to_saelens

K = 3


def random_sae(kind, seed=100, d_in=6, d_sae=24):
    g = torch.Generator().manual_seed(seed)
    W_dec = torch.randn(d_sae, d_in, generator=g)
    weights = {
        "W_enc": torch.randn(d_in, d_sae, generator=g),
        "b_enc": torch.randn(d_sae, generator=g),
        "W_dec": W_dec / W_dec.norm(dim=1, keepdim=True),
        "b_dec": torch.randn(d_in, generator=g),
    }
    return TopKSAE(**weights, k=K) if kind == "topk" else ReluSAE(**weights)


def rows(seed=101, n=50, d_in=6):
    return torch.randn(n, d_in, generator=torch.Generator().manual_seed(seed))


kinds = pytest.mark.parametrize("kind", ["standard", "topk"])


@kinds
def test_the_folder_holds_what_saelens_6_asks_for(kind, tmp_path):
    save_saelens(random_sae(kind), tmp_path / "sae", {"model_name": "dyck", "hook_name": "x"})
    assert sorted(path.name for path in (tmp_path / "sae").iterdir()) == [
        "cfg.json",
        "sae_weights.safetensors",
    ]
    cfg = json.loads((tmp_path / "sae" / "cfg.json").read_text(encoding="utf-8"))
    wanted = {
        "architecture": kind,
        "d_in": 6,
        "d_sae": 24,
        "dtype": "float32",
        "device": "cpu",
        "apply_b_dec_to_input": True,
        "normalize_activations": "none",
        "reshape_activations": "none",
    }
    if kind == "topk":
        wanted |= {"k": K, "rescale_acts_by_decoder_norm": False}
    metadata = cfg.pop("metadata")
    assert cfg == wanted
    assert metadata["model_name"] == "dyck" and metadata["hook_name"] == "x"
    assert int(metadata["sae_lens_version"].split(".")[0]) >= 6
    shapes = {
        name: tuple(value.shape)
        for name, value in load_file(tmp_path / "sae" / "sae_weights.safetensors").items()
    }
    assert shapes == {"W_enc": (6, 24), "b_enc": (24,), "W_dec": (24, 6), "b_dec": (6,)}


@kinds
def test_a_folder_read_back_is_the_same_sae(kind, tmp_path):
    sae = random_sae(kind)
    save_saelens(sae, tmp_path)
    again = load_saelens(tmp_path)
    assert type(again) is type(sae)
    torch.testing.assert_close(again.encode(rows()), sae.encode(rows()))
    torch.testing.assert_close(again(rows()), sae(rows()))


def test_a_folder_can_be_read_in_another_precision(tmp_path):
    save_saelens(random_sae("standard"), tmp_path)
    assert load_saelens(tmp_path, torch.float64).W_dec.dtype == torch.float64


def test_decoder_lengths_move_to_the_codes_and_the_reconstruction_stays():
    cfg, state = to_saelens(random_sae("standard"))
    lengths = torch.linspace(0.5, 2, 24)
    scaled = dict(state, W_dec=state["W_dec"] * lengths[:, None])
    codes = ((rows() - state["b_dec"]) @ state["W_enc"] + state["b_enc"]).relu()
    plain = codes @ scaled["W_dec"] + state["b_dec"]
    sae = from_saelens(cfg, scaled)
    torch.testing.assert_close(sae(rows()), plain)
    torch.testing.assert_close(sae.encode(rows()), codes * lengths)


def test_a_topk_decoder_of_other_lengths_is_refused():
    cfg, state = to_saelens(random_sae("topk"))
    with pytest.raises(ValueError, match="length 1"):
        from_saelens(cfg, dict(state, W_dec=2 * state["W_dec"]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architecture": "gated"}, "architecture 'gated'"),
        ({"normalize_activations": "layer_norm"}, "normalize_activations"),
        ({"apply_b_dec_to_input": False}, "apply_b_dec_to_input"),
        ({"rescale_acts_by_decoder_norm": True}, "rescale_acts_by_decoder_norm"),
    ],
)
def test_a_configuration_that_means_another_function_is_refused(change, message):
    cfg, state = to_saelens(random_sae("topk"))
    with pytest.raises(ValueError, match=message):
        from_saelens(cfg | change, state)


def test_missing_weights_are_named(tmp_path):
    save_saelens(random_sae("standard"), tmp_path)
    state = load_file(tmp_path / "sae_weights.safetensors")
    del state["b_enc"]
    save_file(state, tmp_path / "sae_weights.safetensors")
    with pytest.raises(ValueError, match="lack b_enc"):
        load_saelens(tmp_path)


def test_a_folder_without_an_sae_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"lacks cfg\.json and sae_weights"):
        load_saelens(tmp_path)


@kinds
def test_saelens_gives_the_same_codes_and_reconstructions(kind, tmp_path):
    sae_lens = pytest.importorskip("sae_lens", exc_type=ImportError)
    sae = random_sae(kind)
    save_saelens(sae, tmp_path)
    theirs = sae_lens.SAE.load_from_disk(tmp_path)
    x = rows()
    with torch.no_grad():
        np.testing.assert_allclose(theirs.encode(x), sae.encode(x), atol=1e-6)
        np.testing.assert_allclose(theirs(x), sae(x), atol=1e-5)


@kinds
def test_what_saelens_writes_is_read(kind, tmp_path):
    sae_lens = pytest.importorskip("sae_lens", exc_type=ImportError)
    sae = random_sae(kind)
    save_saelens(sae, tmp_path / "ours")
    sae_lens.SAE.load_from_disk(tmp_path / "ours").save_model(tmp_path / "theirs")
    torch.testing.assert_close(load_saelens(tmp_path / "theirs")(rows()), sae(rows()))
