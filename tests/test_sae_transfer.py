"""One model's SAE on another's activations: each score asks what its equation says."""

import numpy as np
import pytest
import torch

from helpers.alignment.maps import Alignment, fit_affine, fit_rotation
from helpers.alignment.variance import explained_variance_by_dimension
from helpers.comparison import random_subspace
from helpers.sae import (
    ReluSAE,
    SAEConfig,
    encoded,
    firing_correlation,
    planted_activations,
    train_saes,
    transfer,
)


def plain_ev(prediction, target):
    return 1 - ((target - prediction) ** 2).sum() / ((target - target.mean(axis=0)) ** 2).sum()


def identity_sae(d):
    """Reconstructs everything: a pair ±e_i of features for every dimension."""
    W_dec = torch.cat([torch.eye(d), -torch.eye(d)])
    return ReluSAE(W_dec.T.clone(), torch.zeros(2 * d), W_dec, torch.zeros(d))


@pytest.fixture(scope="module")
def models():
    """A planted model's SAE, held-out rows in its basis and in a rotated, shifted one, the map."""
    g = np.random.default_rng(140)
    x_A = planted_activations(g, 8000).activations
    Q = random_subspace(g, 64, 64)
    x_B = x_A @ Q + g.standard_normal(64)
    fit = x_A[:6000].astype(np.float32)
    sae = train_saes([fit], SAEConfig(l1=0.01, steps=500), init_seeds=[140], data_seed=140)[0].sae
    to_A = fit_rotation(x_B[:6000], x_A[:6000])
    return sae, x_A[6000:], x_B[6000:], to_A


def test_the_six_scores_are_their_equations(models):
    sae, x_A, x_B, to_A = models

    def S(x):
        with torch.no_grad():
            return sae(torch.tensor(x, dtype=torch.float32)).numpy()

    R, mean_B, mean_A = to_A.R, to_A.mean_x, to_A.mean_y
    mapped = (x_B - mean_B) @ R + mean_A
    wanted = {
        "self": (S(x_A), x_A),
        "naive": (S(x_B), x_B),
        "rotated": (S(mapped), mapped),
        "true": (S(mapped), x_A),
        "sent": ((S(x_A) - mean_A) @ R.T + mean_B, x_B),
        "map": (mapped, x_A),
    }
    found = transfer(sae, x_A, x_B, to_A)
    assert list(found.ev()) == list(wanted)
    for name, (prediction, target) in wanted.items():
        assert found.ev()[name] == pytest.approx(plain_ev(prediction, target), abs=1e-5)


def test_a_rotated_copy_is_lost_without_the_map_and_whole_with_it(models):
    sae, x_A, x_B, to_A = models
    ev = transfer(sae, x_A, x_B, to_A).ev()
    assert ev["naive"] < 0 < 0.95 < ev["self"]
    for name in ("rotated", "true", "sent"):
        assert ev[name] == pytest.approx(ev["self"], abs=1e-4)
    assert ev["map"] == pytest.approx(1, abs=1e-6)


def test_rotated_does_not_notice_other_tokens_and_the_true_targets_do(models):
    """Why *rotated* compares no two models: with B's rows shuffled it stays as it is."""
    sae, x_A, x_B, to_A = models
    paired = transfer(sae, x_A, x_B, to_A).ev()
    shuffled = transfer(sae, x_A, np.random.default_rng(141).permutation(x_B), to_A).ev()
    assert shuffled["rotated"] == pytest.approx(paired["rotated"], abs=1e-6)
    assert paired["true"] > 0.9 and paired["sent"] > 0.9
    # two unrelated vectors of one covariance: the energies add, and EV is about −1
    assert shuffled["true"] == pytest.approx(-1, abs=0.15)
    assert shuffled["sent"] == pytest.approx(-1, abs=0.15)


def test_rotated_is_the_same_number_in_the_other_basis(models):
    sae, x_A, x_B, to_A = models
    found = transfer(sae, x_A, x_B, to_A)
    back = to_A.inverse().apply(found.rotated.prediction)
    assert found.rotated.ev == pytest.approx(plain_ev(back, x_B), abs=1e-6)


def test_features_fire_on_the_same_tokens_after_the_map_and_not_before(models):
    sae, x_A, x_B, to_A = models
    own = encoded(sae, x_A)
    raw = firing_correlation(own, encoded(sae, x_B))
    mapped = firing_correlation(own, encoded(sae, to_A.apply(x_B)))
    assert mapped.mean == pytest.approx(1, abs=1e-3)
    assert abs(raw.mean) < 0.1


def test_a_sae_that_reconstructs_everything_leaves_the_map_alone():
    g = np.random.default_rng(142)
    x_A, x_B = g.standard_normal((2, 300, 5))
    ev = transfer(identity_sae(5), x_A, x_B, fit_rotation(x_B, x_A)).ev()
    for name in ("self", "naive", "rotated"):
        assert ev[name] == pytest.approx(1, abs=1e-5)
    assert ev["true"] == pytest.approx(ev["map"], abs=1e-5)
    assert ev["map"] < 0.5  # unrelated: no rotation makes one of the other


def test_an_affine_map_brings_its_own_way_back():
    g = np.random.default_rng(143)
    x_A = g.standard_normal((300, 5))
    x_B = x_A @ (np.eye(5) + 0.3 * g.standard_normal((5, 5))) + 1
    to_A, to_B = fit_affine(x_B, x_A), fit_affine(x_A, x_B)
    ev = transfer(identity_sae(5), x_A, x_B, to_A, to_B).ev()
    assert ev["true"] == pytest.approx(1, abs=1e-5)
    assert ev["sent"] == pytest.approx(1, abs=1e-5)
    with pytest.raises(ValueError, match="orthogonal"):
        transfer(identity_sae(5), x_A, x_B, to_A)


def test_pairs_can_be_scored_by_dimension():
    g = np.random.default_rng(144)
    x = g.standard_normal((200, 3))
    first_only = Alignment(np.eye(3), np.zeros(3), np.zeros(3))
    sae = ReluSAE(
        torch.tensor([[1.0, -1], [0, 0], [0, 0]]),
        torch.zeros(2),
        torch.tensor([[1.0, 0, 0], [-1, 0, 0]]),
        torch.tensor(x.mean(axis=0), dtype=torch.float32),
    )
    pair = transfer(sae, x, x, first_only).true
    by_dimension = explained_variance_by_dimension(pair.target, pair.prediction)
    np.testing.assert_allclose(by_dimension, [1, 0, 0], atol=1e-5)


def test_activations_on_different_tokens_are_refused(models, unchecked):
    sae, x_A, x_B, to_A = models
    with pytest.raises(ValueError, match="same tokens, row for row"):
        transfer(sae, x_A, x_B[:-1], to_A)
