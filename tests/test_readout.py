"""The read-out's closed forms against torch, automatic differentiation and ACE on the full J."""

import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.cores import ace
from helpers.models import ModelConfig, SmallTransformer
from helpers.readout import Readout, core

quick = settings(max_examples=30, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)
kinds = st.sampled_from(["linear", "norm", "norm and bias"])


def drawn(seed, kind, D=7, K=5, N=30):
    """A read-out and activations; a large eps, so that it counts."""
    rng = np.random.default_rng(seed)
    W_U = rng.standard_normal((D, K)) + rng.standard_normal(D)[:, None]
    scale = None if kind == "linear" else rng.uniform(0.5, 2, D)
    bias = rng.standard_normal(D) if kind == "norm and bias" else None
    H = rng.standard_normal((N, D)) * rng.uniform(0.5, 2, D) + rng.standard_normal(D)
    return Readout(W_U, scale, bias, eps=0.3), H


def plain(readout, h):
    """Logits as torch computes them."""
    as_tensor = lambda x: None if x is None else torch.tensor(x)  # noqa: E731
    if readout.scale is not None:
        scale, bias = as_tensor(readout.scale), as_tensor(readout.bias)
        h = torch.nn.functional.layer_norm(h, h.shape[-1:], scale, bias, readout.eps)
    return h @ as_tensor(readout.W_U)


def distance(Q1, Q2):
    """Spectral norm of the difference of projectors."""
    return np.linalg.norm(Q1 @ Q1.T - Q2 @ Q2.T, 2)


@given(seed=seeds, kind=kinds)
@quick
def test_logits_are_those_of_torch(seed, kind):
    readout, H = drawn(seed, kind)
    np.testing.assert_allclose(readout.logits(H), plain(readout, torch.tensor(H)), atol=1e-12)


@pytest.mark.parametrize("norm", ["pre", "post", "none"])
def test_a_models_read_out_continues_from_its_residual_stream(norm):
    config = ModelConfig(11, 2, d_model=16, n_heads=2, d_mlp=32, norm=norm)
    model = SmallTransformer(config, seed=3).double()
    with torch.no_grad():  # a fresh norm would be the identity up to scaling
        for weights in model.ln_out.parameters():
            weights.copy_(torch.linspace(-1, 2, 16))
        tokens = torch.cartesian_prod(torch.arange(11), torch.arange(11))
        H, logits = model.resid_post(tokens)[:, -1].numpy(), model(tokens)[:, -1].numpy()
    readout = Readout.from_state(config, model.state_dict())
    np.testing.assert_allclose(readout.logits(H), logits, atol=1e-12)
    assert (readout.scale is not None) == (norm == "pre")


def test_weights_of_a_model_with_another_norm_are_named():
    config = ModelConfig(11, 2, d_model=16, n_heads=2, d_mlp=32)
    state = SmallTransformer(config).state_dict()
    del state["ln_out.weight"]
    with pytest.raises(ValueError, match=r"no \['ln_out.weight'\]; do they belong to"):
        Readout.from_state(config, state)


@given(seed=seeds, kind=kinds)
@quick
def test_jacobian_is_the_derivative_of_the_centred_logits(seed, kind):
    readout, H = drawn(seed, kind, N=6)

    def centred(h):
        logits = plain(readout, h)
        return logits - logits.mean()

    wanted = torch.func.vmap(torch.func.jacrev(centred))(torch.tensor(H))
    np.testing.assert_allclose(readout.jacobian(H), wanted, atol=1e-12)


@given(seed=seeds, kind=kinds)
@quick
def test_gramian_is_the_mean_of_the_jacobians_squares(seed, kind):
    readout, H = drawn(seed, kind)
    J = readout.jacobian(H)
    np.testing.assert_allclose(
        readout.gramian(H), np.mean([j.T @ j for j in J], axis=0), atol=1e-12
    )


def test_the_norm_hides_the_direction_of_ones_and_its_eps_shows_the_length():
    readout, H = drawn(0, "norm")
    assert np.abs(readout.gramian(H) @ np.ones(7)).max() < 1e-12
    centred = H - H.mean(axis=1, keepdims=True)

    def seen(eps):
        J = Readout(readout.W_U, readout.scale, eps=eps).jacobian(H)
        return np.abs(np.einsum("nkd,nd->nk", J, centred)).max()

    assert seen(0.0) < 1e-12 < 0.1 < seen(0.3)


@given(seed=seeds, kind=kinds, rank=st.integers(1, 4))
@quick
def test_core_equals_ace_on_the_full_jacobian(seed, kind, rank):
    readout, H = drawn(seed, kind)
    wanted, found = ace(H, readout.jacobian(H), rank), core(readout, H, rank)
    m = min(len(wanted.energy), len(found.energy))
    assert m >= 5
    np.testing.assert_allclose(found.energy[:m], wanted.energy[:m], atol=1e-11 * wanted.energy[0])
    np.testing.assert_array_equal(found.mean, wanted.mean)
    if wanted.energy[rank] < 0.95 * wanted.energy[rank - 1]:  # else the cut is hardly defined
        assert distance(found.basis, wanted.basis) < 1e-8


def test_core_of_a_rank_deficient_norm_has_no_direction_that_is_rounding():
    readout, H = drawn(1, "norm", D=6, K=9)  # more outputs than the five directions that are seen
    full = core(readout, H, 5)
    assert full.rank == 5
    with pytest.raises(ValueError, match="rank 6 is above the 5 directions"):
        core(readout, H, 6)


def test_core_takes_energy_shares_as_ace_does():
    readout, H = drawn(2, "norm and bias")
    assert core(readout, H, 0.9).rank == ace(H, readout.jacobian(H), 0.9).rank


@pytest.mark.parametrize("kind", ["linear", "norm and bias"])
def test_core_never_holds_the_full_jacobian(kind):
    readout, H = drawn(0, kind, D=32, K=53, N=1000)
    tracemalloc.start()
    core(readout, H, 10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1000 * 53 * 32 * 8 / 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones(4),), r"W_U must be \(D, K\); got shape \(4,\)"),
        ((np.ones((4, 0)),), r"W_U must be \(D, K\); got shape \(4, 0\)"),
        ((np.ones((4, 3)), np.ones(3)), r"scale must be \(4,\) like W_U; got \(3,\)"),
        ((np.ones((4, 3)), np.ones(4), np.ones(3)), r"bias must be \(4,\) like W_U; got \(3,\)"),
        ((np.ones((4, 3)), None, np.ones(4)), "a bias without a scale"),
        ((np.ones((4, 3)), np.full(4, np.nan)), "NaN or infinity"),
        ((np.ones((4, 3)), np.ones(4), None, -1.0), "must not be negative; got -1"),
    ],
)
def test_weights_that_make_no_read_out_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Readout(*arguments)


@pytest.mark.parametrize("name", ["logits", "jacobian", "gramian"])
def test_activations_of_another_layer_are_named(name, unchecked):
    readout, _ = drawn(0, "norm")
    for shape in ((3, 6), (7,)):
        with pytest.raises(ValueError, match=r"takes activations \(N, 7\); got shape"):
            getattr(readout, name)(np.ones(shape))


@pytest.mark.parametrize("kind", ["linear", "norm"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_activations_that_are_not_finite_are_named(kind, bad):
    readout, H = drawn(0, kind)
    H[4, 2] = bad
    for work in (readout.logits, readout.jacobian, readout.gramian):
        with pytest.raises(ValueError, match="first in row 4 of 30; did training diverge"):
            work(H)
    with pytest.raises(ValueError, match="first in row 4 of 30"):
        core(readout, H, 1.0)


def test_no_activations_are_no_activations():
    readout, H = drawn(0, "norm")
    with pytest.raises(ValueError, match=r"takes activations \(N, 7\); got shape \(0, 7\)"):
        readout.logits(H[:0])
