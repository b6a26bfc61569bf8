"""The bracket model's symmetry group: gains folded, other weights, the same logits."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.alignment.haar import haar
from helpers.dyck import SMALL, DyckTransformer, fold_norms, rotate, to_hooked
from helpers.models import ModelConfig
from helpers.symmetry import Symmetry, Weights, apply, balancing, compose, random_element
from helpers.symmetry.group import KINDS
from helpers.symmetry.weights import FIELDS
from helpers.tasks import dyck

TINY = ModelConfig(40, 64, n_layers=2, d_model=12, n_heads=3, d_mlp=10)
SEEDS = st.integers(0, 2**32 - 1)
few = settings(max_examples=15, deadline=None)


def state_with_gains(config=SMALL, seed=100) -> dict[str, torch.Tensor]:
    """A state whose gains are all different."""
    state = DyckTransformer(config, seed, "own").state_dict()
    draw = torch.Generator().manual_seed(seed)
    return {
        name: 0.5 + torch.rand(value.shape, generator=draw) if "ln" in name else value
        for name, value in state.items()
    }


def logits(state, config=SMALL) -> torch.Tensor:
    """Of four rows, in the precision of the state."""
    model = DyckTransformer(config).to(state["head.weight"].dtype)
    model.features = model.features.to(state["head.weight"].dtype)
    model.load_state_dict(state)
    rows = dyck.train_rows(np.random.default_rng(100), 4)
    with torch.no_grad():
        return model(torch.from_numpy(rows))


def moved_logits(weights, g, dtype=torch.float64, config=TINY) -> float:
    """The largest difference that g makes to a logit, of the largest logit."""
    before, after = (logits(w.state(dtype), config) for w in (weights, apply(weights, g)))
    return float((before - after).abs().max() / before.abs().max())


def tiny(seed=100) -> Weights:
    return Weights.of(state_with_gains(TINY, seed), TINY.n_heads)


def gap(one: Weights, two: Weights) -> float:
    return max(np.abs(getattr(one, name) - getattr(two, name)).max() for name in FIELDS)


# ---- weights


def test_folding_leaves_the_logits():
    state = state_with_gains()
    folded = Weights.of(state, SMALL.n_heads).state(torch.float32)
    assert (logits(folded) - logits(state)).abs().max() < 1e-6 * logits(state).abs().max()
    double = {name: value.double() for name, value in state.items()}
    folded = Weights.of(state, SMALL.n_heads).state()
    torch.testing.assert_close(logits(folded), logits(double), rtol=0, atol=1e-11)
    assert all((value == 1).all() for name, value in folded.items() if "ln" in name)


def test_a_gain_that_is_not_folded_would_show():
    state = state_with_gains()
    dropped = {k: torch.ones_like(v) if "ln1" in k else v for k, v in state.items()}
    assert (logits(dropped) - logits(state)).abs().max() > 1e-2


def test_names_are_those_of_the_hooked_model():
    state = fold_norms({k: v.double() for k, v in state_with_gains().items()})
    weights, hooked = Weights.of(state, SMALL.n_heads), to_hooked(state)
    for name in set(FIELDS) - {"W_pos"}:
        np.testing.assert_array_equal(getattr(weights, name), getattr(hooked, name).detach())


def test_state_and_weights_go_back_and_forth():
    weights = tiny()
    again = Weights.of(weights.state(), TINY.n_heads)
    assert gap(weights, again) == 0


def test_tensors_and_vectors_hold_every_weight_once():
    weights = tiny()
    entries = sum(getattr(weights, name).size for name in FIELDS)
    assert sum(v.size for v in weights.tensors().values()) == entries
    assert weights.tensors().keys() == weights.vectors().keys()
    R = haar(np.random.default_rng(0), 12, 1)[0]
    turned = apply(weights, replace(Symmetry.identity(weights), R=R)).vectors()
    for name, rows in weights.vectors().items():
        np.testing.assert_allclose(turned[name], rows @ R, atol=1e-12)


def test_other_models_are_refused():
    state = state_with_gains(TINY)
    with pytest.raises(ValueError, match="no biases"):
        Weights.of({**state, "layers.0.mlp.fc_in.bias": torch.zeros(10)}, 3)
    with pytest.raises(ValueError, match=r"lacks 'layers\.1\.attn\.q"):
        Weights.of({k: v for k, v in state.items() if k != "layers.1.attn.q.weight"}, 3)
    with pytest.raises(ValueError, match="Supported is the state of"):
        Weights.of({"embed.W_E": torch.zeros(40, 12)}, 3)
    with pytest.raises(ValueError, match="5 heads do not divide"):
        Weights.of(state, 5)
    with pytest.raises(ValueError, match="W_K holds NaN"):
        replace(tiny(), W_K=tiny().W_K * np.nan)
    with pytest.raises(ValueError, match="W_U has the shape"):
        replace(tiny(), W_U=np.zeros((12, 50)))


# ---- the group


@few
@given(seed=SEEDS, kind=st.sampled_from(KINDS))
def test_every_element_leaves_the_logits(seed, kind):
    weights = tiny()
    g = random_element(np.random.default_rng(seed), weights, kind=kind)
    assert gap(weights, apply(weights, g)) > 0.1
    assert moved_logits(weights, g) < 1e-9
    assert moved_logits(weights, g, torch.float32) < 1e-5


def test_at_full_size_too():
    weights = Weights.of(state_with_gains(), SMALL.n_heads)
    g = random_element(np.random.default_rng(0), weights)
    assert moved_logits(weights, g, config=SMALL) < 1e-9
    assert moved_logits(weights, g, torch.float32, SMALL) < 1e-5


def broken() -> dict:
    """Weights in which one part of the symmetry is left out, by that part."""
    weights = tiny()
    g = random_element(np.random.default_rng(1), weights, kind="invertible")
    moved = apply(weights, g)
    only = apply(weights, replace(g, R=np.eye(12)))
    still = Symmetry.identity(weights)
    heads = replace(still, heads=np.array([[1, 2, 0], [2, 1, 0]]))
    neurons = replace(still, neurons=np.tile(np.roll(np.arange(10), 1), (2, 1)))
    return {
        "position frame": replace(moved, W_pos=weights.W_pos),
        "embedding": replace(moved, W_E=weights.W_E),
        "unembedding": replace(moved, W_U=weights.W_U),
        "keys": replace(moved, W_K=apply(weights, replace(g, QK=still.QK)).W_K),
        "outputs": replace(moved, W_O=apply(weights, replace(g, VO=still.VO)).W_O),
        "R of one map": replace(moved, W_out=only.W_out),
        "scales": replace(moved, W_out=apply(weights, replace(g, scales=still.scales)).W_out),
        "heads": replace(weights, W_Q=apply(weights, heads).W_Q),
        "neurons": replace(weights, W_in=apply(weights, neurons).W_in),
    }


@pytest.mark.parametrize("part", broken())
def test_a_symmetry_with_one_part_left_out_is_noticed(part):
    changed = logits(broken()[part].state(), TINY) - logits(tiny().state(), TINY)
    assert changed.abs().max() > 1e-3


def test_a_negative_scale_is_no_symmetry():
    weights = tiny()
    flipped = replace(weights, W_in=-weights.W_in, W_out=-weights.W_out)
    assert (logits(flipped.state(), TINY) - logits(weights.state(), TINY)).abs().max() > 1e-3
    with pytest.raises(ValueError, match="scales of neurons must be positive"):
        replace(Symmetry.identity(weights), scales=-np.ones((2, 10)))


@few
@given(seed=SEEDS, kind=st.sampled_from(KINDS))
def test_composition_and_inverse_agree_with_what_they_do(seed, kind):
    draw, weights = np.random.default_rng(seed), tiny()
    f, g, h = (random_element(draw, weights, kind=kind) for _ in range(3))
    assert gap(apply(weights, compose(g, h)), apply(apply(weights, g), h)) < 1e-9
    assert gap(apply(apply(weights, g), g.inverse()), weights) < 1e-9
    assert gap(apply(weights, compose(g.inverse(), g)), weights) < 1e-9
    left, right = compose(compose(f, g), h), compose(f, compose(g, h))
    assert gap(apply(weights, left), apply(weights, right)) < 1e-9
    assert (
        gap(
            apply(weights, compose(g, h).inverse()),
            apply(weights, compose(h.inverse(), g.inverse())),
        )
        < 1e-9
    )


def test_composition_the_other_way_round_is_another_element():
    draw, weights = np.random.default_rng(2), tiny()
    g, h = (random_element(draw, weights) for _ in range(2))
    assert gap(apply(weights, compose(g, h)), apply(weights, compose(h, g))) > 0.1


def test_the_identity_changes_nothing():
    weights = tiny()
    assert gap(apply(weights, Symmetry.identity(weights)), weights) == 0


def test_a_residual_rotation_alone_is_the_rotation_of_the_state():
    state = fold_norms({k: v.double() for k, v in state_with_gains(TINY).items()})
    R = haar(np.random.default_rng(3), 12, 1)[0]
    weights = Weights.of(state, TINY.n_heads)
    g = replace(Symmetry.identity(weights), R=R)
    assert gap(apply(weights, g), Weights.of(rotate(state, torch.from_numpy(R)), 3)) < 1e-12


def test_random_elements_are_reproducible_and_of_their_kind():
    weights = tiny()
    one, same = (random_element(np.random.default_rng(4), weights) for _ in range(2))
    np.testing.assert_array_equal(one.R, same.R)
    eye = np.broadcast_to(np.eye(4), one.QK.shape)
    np.testing.assert_allclose(one.QK @ one.QK.swapaxes(2, 3), eye, atol=1e-12)
    other = random_element(np.random.default_rng(4), weights, kind="invertible")
    assert np.abs(other.QK @ other.QK.swapaxes(2, 3) - eye).max() > 0.1


def test_wrong_elements_are_refused():
    weights, small = tiny(), Symmetry.identity(tiny())
    with pytest.raises(ValueError, match="kind is one of"):
        random_element(np.random.default_rng(0), weights, kind="unitary")
    with pytest.raises(ValueError, match="heads must be a permutation"):
        replace(small, heads=np.zeros((2, 3), int))
    with pytest.raises(ValueError, match="QK holds a matrix that is singular"):
        replace(small, QK=np.zeros((2, 3, 4, 4)))
    with pytest.raises(ValueError, match="not orthogonal"):
        replace(small, R=2 * np.eye(12))
    large = Symmetry.identity(Weights.of(state_with_gains(), 4))
    with pytest.raises(ValueError, match="do not fit this"):
        apply(weights, large)
    with pytest.raises(ValueError, match="different sizes do not compose"):
        compose(small, large)


# ---- the balanced gauge


@few
@given(seed=SEEDS)
def test_balanced_models_differ_by_rotations_only(seed):
    weights = tiny()
    other = apply(weights, random_element(np.random.default_rng(seed), weights, kind="invertible"))
    for w in (weights, other):
        g = balancing(w)
        even = apply(w, g)
        assert moved_logits(w, g) < 1e-9
        gram = even.W_Q.swapaxes(2, 3) @ even.W_Q, even.W_K.swapaxes(2, 3) @ even.W_K
        np.testing.assert_allclose(*gram, atol=1e-9)
        gram = even.W_V.swapaxes(2, 3) @ even.W_V, even.W_O @ even.W_O.swapaxes(2, 3)
        np.testing.assert_allclose(*gram, atol=1e-9)
        norms = np.linalg.norm(even.W_in, axis=1), np.linalg.norm(even.W_out, axis=2)
        np.testing.assert_allclose(*norms, rtol=1e-9)
    spectra = (
        np.sort(np.linalg.svd(apply(w, balancing(w)).W_Q, compute_uv=False).reshape(2, -1))
        for w in (weights, other)
    )
    np.testing.assert_allclose(*spectra, rtol=1e-6)


def test_what_cannot_be_balanced_is_refused():
    weights = tiny()
    low, dead = weights.W_K.copy(), weights.W_in.copy()
    low[0, 0, :, 0], dead[0, :, 0] = 0, 0
    with pytest.raises(ValueError, match="rank below d_head"):
        balancing(replace(weights, W_K=low))
    with pytest.raises(ValueError, match="reads or writes nothing"):
        balancing(replace(weights, W_in=dead))
