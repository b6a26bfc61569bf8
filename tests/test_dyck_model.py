"""The bracket model: its count, its hooked twin, and symmetries that leave its function alone."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ortho_group

from helpers.dyck import (
    SMALL,
    DyckTransformer,
    fold_norms,
    position_features,
    position_frame,
    rotate,
    to_hooked,
)
from helpers.dyck.model import OUTPUTS, RMSNorm
from helpers.models import ModelConfig
from helpers.tasks import dyck

TINY = ModelConfig(40, 16, n_layers=2, d_model=16, n_heads=2, d_mlp=24)


def shaken(config=SMALL, seed=100, frame="shared") -> DyckTransformer:
    """A model with every parameter away from its start, so that no gain can hide."""
    model = DyckTransformer(config, seed, frame).eval()
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=draw)
    return model


def rows(n=6, n_ctx=64) -> torch.Tensor:
    return torch.from_numpy(dyck.train_rows(np.random.default_rng(100), n))[:, :n_ctx]


def turn(seed: int, d=64) -> torch.Tensor:
    return torch.from_numpy(ortho_group.rvs(d, random_state=seed))


def double(model: DyckTransformer) -> dict[str, torch.Tensor]:
    return {name: value.double() for name, value in model.state_dict().items()}


# ---- the lean module


def test_it_has_the_paper_s_104448_parameters():
    sizes = {name: p.numel() for name, p in DyckTransformer().named_parameters()}
    assert sum(sizes.values()) == 104_448
    assert sizes["tok_embed.weight"] == 2560
    assert sizes["head.weight"] == 3264
    assert sum(n for name, n in sizes.items() if "attn" in name) == 32_768
    assert sum(n for name, n in sizes.items() if "mlp" in name) == 65_536
    assert sum(n for name, n in sizes.items() if "ln" in name) == 320


def test_the_outputs_fill_the_logits():
    covered = [i for part in OUTPUTS.values() for i in range(part.start, part.stop)]
    assert covered == list(range(51))


def test_the_seed_decides_the_weights():
    one, same, other = (
        DyckTransformer(seed=100),
        DyckTransformer(seed=100),
        DyckTransformer(seed=101),
    )
    for name, value in one.state_dict().items():
        assert torch.equal(value, same.state_dict()[name])
        assert torch.equal(value, other.state_dict()[name]) is (name == "pos_frame" or "ln" in name)


def test_rms_norm_is_its_formula():
    norm = RMSNorm(4)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 2.0, 0.5, -1.0]))
    x = torch.tensor([[3.0, 0.0, 4.0, 0.0]])  # its mean square is 25/4
    wanted = x / math.sqrt(25 / 4 + 1e-5) * norm.weight
    torch.testing.assert_close(norm(x), wanted)


def test_features_of_a_position():
    f = position_features(64)
    assert f.shape == (64, 6)
    assert f.abs().max() <= 1
    wanted = [16 / 64, 1 / 17, math.log(17) / math.log(64), 0, 0, 1]  # a quarter of the circle
    assert f[16].tolist() == pytest.approx(wanted, abs=1e-6)
    assert f[:, 3].tolist() == [1] + [0] * 63


def test_positions_enter_through_the_frame_alone():
    model = DyckTransformer(seed=100)
    x = model.embed(torch.full((1, 64), 3))[0]
    torch.testing.assert_close(x - model.tok_embed.weight[3], model.features @ model.pos_frame)
    assert torch.equal(model.pos_frame, torch.eye(6, 64))


def test_an_own_frame_is_orthonormal_and_the_seed_s():
    one, two = position_frame("own", 64, 100), position_frame("own", 64, 101)
    torch.testing.assert_close(one @ one.T, torch.eye(6), atol=1e-6, rtol=0)
    assert torch.equal(one, position_frame("own", 64, 100))
    assert (one @ two.T).abs().max() < 0.7
    # frames of two seeds have nothing in common: the squared overlap is 6 · 6 / 64
    overlaps = [
        position_frame("own", 64, s) @ position_frame("own", 64, s + 1).T for s in range(100, 160)
    ]
    assert np.mean([float(o.square().sum()) for o in overlaps]) == pytest.approx(36 / 64, rel=0.15)


def test_an_own_frame_changes_nothing_else():
    one, own = DyckTransformer(seed=100).state_dict(), DyckTransformer(seed=100, frame="own")
    differing = [n for n, v in own.state_dict().items() if not torch.equal(v, one[n])]
    assert differing == ["pos_frame"]


@pytest.mark.parametrize(("kind", "d"), [("free", 64), ("shared", 5)])
def test_a_frame_that_is_none(kind, d):
    with pytest.raises(ValueError, match="'shared' or 'own', in six dimensions"):
        position_frame(kind, d, 0)


@torch.no_grad()
def test_no_position_sees_a_later_one():
    model, tokens = shaken(), rows()
    changed = tokens.clone()
    changed[:, 20:] = 8
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :20], after[:, :20])
    assert (before[:, 20:] - after[:, 20:]).abs().max() > 0.1


@pytest.mark.parametrize(
    "config",
    [ModelConfig(40, 64, norm="post"), ModelConfig(41, 64), ModelConfig(40, 64, norm="none")],
)
def test_another_norm_or_vocabulary_is_refused(config):
    with pytest.raises(ValueError, match="vocabulary of 40; got norm"):
        DyckTransformer(config)


# ---- the hooked twin


@torch.no_grad()
@pytest.mark.parametrize("frame", ["shared", "own"])
def test_hooked_and_lean_logits_agree(frame):
    model = shaken(frame=frame)
    hooked = to_hooked(model.state_dict())
    torch.testing.assert_close(hooked(rows()), model(rows()), atol=1e-5, rtol=1e-5)


BLOCK = ("resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post")
INSIDE = ("attn.hook_q", "attn.hook_k", "attn.hook_v", "attn.hook_attn_scores")
INSIDE += ("attn.hook_pattern", "attn.hook_z", "mlp.hook_pre", "mlp.hook_post")
INSIDE += tuple(f"ln{i}.hook_{kind}" for i in (1, 2) for kind in ("scale", "normalized"))
HOOKS = ["hook_embed", "hook_pos_embed", "ln_final.hook_scale", "ln_final.hook_normalized"]
HOOKS += [f"blocks.{i}.hook_{name}" for i in range(2) for name in BLOCK]
HOOKS += [f"blocks.{i}.{name}" for i in range(2) for name in INSIDE]


@torch.no_grad()
def test_every_hook_lies_on_the_way_to_the_logits():
    hooked, tokens = to_hooked(shaken(TINY).state_dict(), TINY), rows(n_ctx=16)
    logits, cache = hooked.run_with_cache(tokens)
    assert sorted(cache) == sorted(HOOKS)
    draw = torch.Generator().manual_seed(0)
    for name in HOOKS:
        noise = 0.3 * torch.randn(cache[name].shape, generator=draw)
        changed = hooked.run_with_hooks(
            tokens, fwd_hooks=[(name, lambda value, hook, noise=noise: value + noise)]
        )
        assert (changed - logits).abs().max() > 1e-3, name


@torch.no_grad()
def test_patterns_are_causal_and_sum_to_one():
    hooked = to_hooked(shaken().state_dict())
    _, cache = hooked.run_with_cache(rows())
    for layer in range(2):
        pattern = cache[f"blocks.{layer}.attn.hook_pattern"]
        torch.testing.assert_close(pattern.sum(-1), torch.ones(6, 4, 64))
        assert pattern.triu(1).abs().max() == 0


@torch.no_grad()
def test_weights_by_transformer_lens_s_names_compute_what_the_hooks_hold():
    hooked = to_hooked(shaken().state_dict())
    _, cache = hooked.run_with_cache(rows())
    close = {"atol": 1e-4, "rtol": 1e-4}
    assert torch.equal(cache["hook_embed"], hooked.W_E[rows()])
    for i in range(2):
        read = cache[f"blocks.{i}.ln1.hook_normalized"] * hooked.blocks[i].ln1.norm.weight
        for name, maps in (("q", hooked.W_Q), ("k", hooked.W_K), ("v", hooked.W_V)):
            wanted = torch.einsum("bpm,hmd->bphd", read, maps[i])
            torch.testing.assert_close(cache[f"blocks.{i}.attn.hook_{name}"], wanted, **close)
        out = torch.einsum("bphd,hdm->bpm", cache[f"blocks.{i}.attn.hook_z"], hooked.W_O[i])
        torch.testing.assert_close(cache[f"blocks.{i}.hook_attn_out"], out, **close)
        read = cache[f"blocks.{i}.ln2.hook_normalized"] * hooked.blocks[i].ln2.norm.weight
        torch.testing.assert_close(
            cache[f"blocks.{i}.mlp.hook_pre"], read @ hooked.W_in[i], **close
        )
        out = cache[f"blocks.{i}.mlp.hook_post"] @ hooked.W_out[i]
        torch.testing.assert_close(cache[f"blocks.{i}.hook_mlp_out"], out, **close)
    read = cache["ln_final.hook_normalized"] * hooked.ln_final.norm.weight
    torch.testing.assert_close(read @ hooked.W_U, hooked(rows()), **close)


@torch.no_grad()
def test_a_run_from_any_site_on_ends_at_the_same_logits():
    hooked = to_hooked(shaken().state_dict())
    logits, cache = hooked.run_with_cache(rows())
    assert len(hooked.sites) == 7
    for site in hooked.sites:
        again = hooked(start_at=site, resid=cache[site])
        torch.testing.assert_close(again, logits, atol=1e-5, rtol=1e-5)
        moved = hooked(start_at=site, resid=cache[site] + torch.linspace(-1, 1, 64))
        assert (moved - logits).abs().max() > 1e-3, site


@torch.no_grad()
def test_a_run_from_a_site_runs_only_what_follows():
    hooked = to_hooked(shaken().state_dict())
    _, cache = hooked.run_with_cache(rows())
    site = "blocks.0.hook_resid_post"
    _, rest = hooked.run_with_cache(start_at=site, resid=cache[site])
    assert not any(n.startswith("blocks.0.") and n != site for n in rest)
    assert site in rest
    doubled = hooked.run_with_hooks(
        start_at=site, resid=cache[site], fwd_hooks=[(site, lambda value, hook: 2 * value)]
    )
    torch.testing.assert_close(doubled, hooked(start_at=site, resid=2 * cache[site]))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"tokens": torch.zeros(1, 65, dtype=torch.int64)}, "65 tokens do not fit in n_ctx = 64"),
        ({"start_at": "hook_embed", "resid": torch.zeros(1, 4, 64)}, "no site 'hook_embed'; a run"),
        (
            {"start_at": "blocks.0.hook_resid_pre", "resid": torch.zeros(1, 65, 64)},
            "65 tokens do not fit",
        ),
        ({}, "give tokens alone"),
        ({"start_at": "blocks.0.hook_resid_pre"}, "give tokens alone"),
        (
            {"tokens": torch.zeros(1, 4, dtype=torch.int64), "resid": torch.zeros(1, 4, 64)},
            "give tokens alone",
        ),
    ],
)
def test_a_run_that_cannot_start(arguments, says):
    with pytest.raises(ValueError, match=says):
        to_hooked(DyckTransformer().state_dict())(**arguments)


def test_more_tokens_than_the_context_do_not_fit_the_lean_module():
    with pytest.raises(ValueError, match="65 tokens do not fit in n_ctx = 64"):
        DyckTransformer()(torch.zeros(1, 65, dtype=torch.int64))


# ---- symmetries


@torch.no_grad()
def test_folded_norms_leave_the_logits():
    model = shaken()
    state = double(model)
    folded = fold_norms(state)
    assert all(torch.all(v == 1) for name, v in folded.items() if "ln" in name)
    wanted, found = to_hooked(state)(rows()), to_hooked(folded)(rows())
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-6)
    assert not torch.all(state["layers.0.ln1.weight"] == 1)  # the old one is untouched


@torch.no_grad()
@pytest.mark.parametrize(
    "name", ["head.weight", "layers.1.attn.k.weight", "layers.0.mlp.fc_in.weight"]
)
def test_a_gain_that_was_not_folded_would_be_seen(name):
    state = double(shaken())
    mutant = {**fold_norms(state), name: state[name]}
    assert (to_hooked(mutant)(rows()) - to_hooked(state)(rows())).abs().max() > 1e-2


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["shared", "own"]), st.integers(1, 3))
@torch.no_grad()
def test_a_rotation_leaves_the_logits_and_turns_every_site(seed, frame, layers):
    config = ModelConfig(40, 16, n_layers=layers, d_model=16, n_heads=2, d_mlp=24)
    state, R = fold_norms(double(shaken(config, 100 + seed, frame))), turn(seed, 16)
    one, two = to_hooked(state, config), to_hooked(rotate(state, R), config)
    logits, cache = one.run_with_cache(rows(n_ctx=16))
    turned, other = two.run_with_cache(rows(n_ctx=16))
    torch.testing.assert_close(turned, logits, atol=1e-10, rtol=1e-10)
    for site in one.sites:
        torch.testing.assert_close(other[site], cache[site] @ R, atol=1e-10, rtol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize(
    "name", ["pos_frame", "tok_embed.weight", "layers.1.attn.o.weight", "layers.0.attn.q.weight"]
)
def test_a_weight_that_was_not_turned_would_be_seen(name):
    state = fold_norms(double(shaken()))
    mutant = {**rotate(state, turn(0)), name: state[name]}
    assert (to_hooked(mutant)(rows()) - to_hooked(state)(rows())).abs().max() > 1e-2


def test_rotating_there_and_back_is_no_change():
    state, R = fold_norms(double(shaken())), turn(1)
    back = rotate(rotate(state, R), R.T)
    for name, value in state.items():
        torch.testing.assert_close(back[name], value, atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("R", "says"),
    [
        (torch.ones(64, 64), "must be orthogonal"),
        (torch.full((64, 64), math.nan), "must be orthogonal"),
        (torch.eye(32), r"\(64, 64\); got \(32, 32\)"),
    ],
)
def test_what_is_no_rotation_of_this_stream(R, says):
    with pytest.raises(ValueError, match=says):
        rotate(fold_norms(shaken().state_dict()), R)


def test_gains_must_be_folded_before_a_rotation():
    with pytest.raises(ValueError, match=r"fold_norms\(state\) first"):
        rotate(shaken().state_dict(), torch.eye(64))
