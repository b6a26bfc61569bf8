"""Activations beside weights: the rotation they want, the joint loss, the path between both."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import orthogonal_procrustes

from helpers.alignment.haar import haar
from helpers.dyck import DyckTransformer
from helpers.models import ModelConfig
from helpers.symmetry import (
    Symmetry,
    Weights,
    activation_pull,
    activation_rotation,
    align,
    apply,
    joint,
    path,
    profile,
    random_element,
    tensor_weights,
)
from helpers.symmetry.closed_forms import loss
from helpers.symmetry.pull import NO_PULL

TINY = ModelConfig(40, 64, n_layers=1, d_model=12, n_heads=3, d_mlp=10)
SITES = ("blocks.0.hook_resid_pre", "blocks.0.hook_resid_post")


def draw(seed=0) -> np.random.Generator:
    return np.random.default_rng(seed)


def weights(seed=100) -> Weights:
    return Weights.of(DyckTransformer(TINY, seed).state_dict(), TINY.n_heads)


def residuals(w: Weights) -> dict[str, np.ndarray]:
    """The stream before and behind the only layer, on fixed random tokens."""
    model = DyckTransformer(TINY).double()
    model.features = model.features.double()
    model.load_state_dict(w.state())
    with torch.no_grad():
        before = model.embed(torch.from_numpy(draw(1).integers(0, 9, (20, 10))))
        values = (before, model.layers[0](before))
    return {site: x.reshape(-1, 12).numpy() for site, x in zip(SITES, values, strict=True)}


def activations(seed: int, scale=1.0) -> dict[str, np.ndarray]:
    return {
        site: scale * (k + 1) * draw(seed + k).standard_normal((50, 12))
        for k, site in enumerate(SITES)
    }


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), normalised=st.booleans())
def test_the_pull_is_the_mse_of_activations(seed, normalised):
    X, Y = activations(1), activations(5)
    R = haar(draw(seed), 12, 1)[0]
    parts = [np.square(X[s] @ R - Y[s]).mean() for s in SITES]
    if normalised:
        parts = [part / np.square(Y[s]).mean() for part, s in zip(parts, SITES, strict=True)]
    pull = activation_pull(X, Y, normalised=normalised)
    assert pull.loss(R) == pytest.approx(np.mean(parts), rel=1e-9)
    assert pull.times(3).loss(R) == pytest.approx(3 * np.mean(parts), rel=1e-9)


def test_its_rotation_is_procrustes_on_all_sites_stacked():
    X, Y = activations(1), activations(5)
    stacked = orthogonal_procrustes(
        np.concatenate(list(X.values())), np.concatenate(list(Y.values()))
    )
    np.testing.assert_allclose(activation_rotation(activation_pull(X, Y)), stacked[0], atol=1e-10)


def test_the_best_rotation_of_the_other_half_is_the_best_of_many():
    pull = activation_pull(activations(1), activations(5))
    best = activation_rotation(pull)
    half = "SO" if np.linalg.det(best) < 0 else "O-"
    other = activation_rotation(pull, like=haar(draw(), 12, 1, half)[0])
    assert np.linalg.det(other) == pytest.approx(-np.linalg.det(best))
    assert pull.loss(best) < pull.loss(other)
    turns = haar(draw(3), 12, 200, "SO")
    small = np.linalg.qr(np.eye(12) + 0.03 * draw(4).standard_normal((200, 12, 12)))[0]
    small[np.linalg.det(small) < 0, :, 0] *= -1
    for turn in (*turns, *small):
        assert pull.loss(other @ turn) >= pull.loss(other) - 1e-12
    np.testing.assert_array_equal(activation_rotation(pull, like=best), best)


def test_activations_of_a_copy_give_the_rotation_that_its_weights_give():
    target = weights()
    g = random_element(draw(2), target)
    copy = apply(target, g)
    pull = activation_pull(residuals(copy), residuals(target))
    found = activation_rotation(pull)
    assert pull.loss(found) < 1e-12
    assert profile(copy, target, found) < 1e-12
    by_weights = align(copy, target, draw(3), starts=0).symmetry.R
    for rows in residuals(copy).values():
        np.testing.assert_allclose(rows @ found, rows @ by_weights, atol=1e-6)


def test_the_profile_is_the_least_over_heads_and_neurons():
    source, target = weights(100), weights(101)
    R, c = haar(draw(4), 12, 1)[0], tensor_weights(weights(101))
    least = profile(source, target, R)
    for seed in range(20):
        g = replace(random_element(draw(seed), source), R=R)
        assert loss(source, target, g, c) > least
    assert loss(source, target, replace(Symmetry.identity(source), R=R), c) > least


def test_lambda_trades_weights_for_activations():
    source, target = weights(100), weights(101)
    pull = activation_pull(residuals(source), residuals(target))
    found = joint(source, target, pull, draw(5), starts=2)
    assert [j.lam for j in found] == [0, 0.1, 1, 10, 100]
    alone = align(source, target, draw(5), starts=2)
    assert found[0].weights == alone.loss
    best = activation_rotation(pull)
    assert found[-1].activations == pytest.approx(pull.loss(best), rel=1e-2)
    for j in found:
        total = j.weights + j.lam * j.activations
        assert j.aligned.loss == pytest.approx(total, rel=1e-9)
        assert total <= profile(source, target, best) + j.lam * pull.loss(best) + 1e-9
    assert found[0].weights < found[-1].weights
    assert found[-1].activations < found[0].activations


def test_a_path_begins_and_ends_at_its_rotations():
    source, target = weights(100), weights(101)
    pull = activation_pull(residuals(source), residuals(target))
    R_0 = align(source, target, draw(6), starts=0).symmetry.R
    R_1 = activation_rotation(pull, like=R_0)
    way = path(source, target, pull, R_0, R_1, 7)
    np.testing.assert_allclose(way.R[[0, -1]], [R_0, R_1], atol=1e-8)
    np.testing.assert_allclose(
        way.R @ way.R.swapaxes(1, 2), np.tile(np.eye(12), (7, 1, 1)), atol=1e-9
    )
    lengths = np.linalg.norm(np.diff(way.R, axis=0), axis=(1, 2))
    np.testing.assert_allclose(lengths, lengths[0], rtol=1e-6)
    assert way.weights[0] == pytest.approx(profile(source, target, R_0))
    assert way.activations[-1] == way.activations.min()
    assert way.weights[0] < way.weights[-1]


def test_a_barrier_that_is_there_is_seen():
    """Two rotations that are equally good: the neurons of the copy, and a twin of it."""
    target = weights()
    flip = np.diag([-1.0, -1, *[1] * 10])
    other = replace(target, **{n: v for n, v in _even(target, flip).items()})
    pull = activation_pull(residuals(other), residuals(other))
    way = path(other, other, pull, np.eye(12), flip, 9)
    assert way.weights[0] < 1e-12 and way.weights[-1] < 1e-12
    assert way.weights[1:-1].max() > 1e-4


def _even(w: Weights, flip: np.ndarray) -> dict:
    """Weights that the turn ``flip`` leaves as they are, up to inner symmetries: nothing reads or
    writes the plane that it turns, except two pairs of neurons that it swaps."""
    keep = (np.diag(flip) > 0).astype(float)
    parts = {n: getattr(w, n) * keep for n in ("W_E", "W_pos", "W_O", "W_out")}
    parts |= {n: getattr(w, n) * keep[:, None] for n in ("W_Q", "W_K", "W_V", "W_in", "W_U")}
    parts["W_in"][0, 0, :2], parts["W_out"][0, :2] = (1, -1), 0
    parts["W_in"][0, 1, 2:4], parts["W_out"][0, 2:4] = (1, -1), 0
    parts["W_in"][0, 1:, :2] = parts["W_in"][0, [0, *range(2, 12)], 2:4] = 0
    return parts


def test_wrong_arguments_are_refused():
    source, target = weights(100), weights(101)
    X, Y = activations(1), activations(5)
    pull = activation_pull(X, Y)
    with pytest.raises(ValueError, match="same sites"):
        activation_pull(X, {SITES[0]: Y[SITES[0]]})
    with pytest.raises(ValueError, match="has no activations"):
        activation_rotation(NO_PULL)
    with pytest.raises(ValueError, match="λ is at least 0"):
        joint(source, target, pull, draw(), lambdas=(-1.0,))
    reflection = np.diag([-1.0, *[1] * 11])
    with pytest.raises(ValueError, match="like=R_0"):
        path(source, target, pull, np.eye(12), reflection)
    with pytest.raises(ValueError, match="at least its two ends"):
        path(source, target, pull, np.eye(12), np.eye(12), 1)
