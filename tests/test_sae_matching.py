"""Matches of dictionaries and of firing: planted partners found, chance known from theory."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.comparison import random_subspace
from helpers.sae import (
    SAEConfig,
    activity,
    cosines,
    expected_max_cosine,
    firing_correlation,
    like_dictionary,
    match_one_to_one,
    match_rows,
    planted_activations,
    random_dictionary,
    shuffled_coordinates,
    train_saes,
)

quick = settings(max_examples=30, deadline=None, derandomize=True)
seeds = st.integers(100, 10**6)


def rng(seed=100):
    return np.random.default_rng(seed)


@quick
@given(seeds)
def test_a_shuffled_dictionary_is_matched_by_the_inverse_shuffle(seed):
    g = rng(seed)
    one = random_dictionary(g, 20, 8)
    order = g.permutation(20)
    for match in (match_rows(one, one[order]), match_one_to_one(one, one[order])):
        assert np.array_equal(order[match.partner], match.of)
        np.testing.assert_allclose(match.cosine, 1)
        assert match.share_above() == 1


@quick
@given(seeds)
def test_cosines_do_not_change_when_both_dictionaries_are_rotated(seed):
    g = rng(seed)
    one, two, R = random_dictionary(g, 9, 6), random_dictionary(g, 7, 6), random_subspace(g, 6, 6)
    np.testing.assert_allclose(cosines(one @ R, two @ R), cosines(one, two), atol=1e-12)


@quick
@given(seeds)
def test_one_to_one_is_never_above_the_row_maximum_and_uses_no_row_twice(seed):
    g = rng(seed)
    one, two = random_dictionary(g, 12, 5), random_dictionary(g, 9, 5)
    free, bound = match_rows(one, two), match_one_to_one(one, two)
    assert len(bound.of) == 9 and len(set(bound.partner)) == len(set(bound.of)) == 9
    assert (bound.cosine <= free.cosine[bound.of] + 1e-12).all()


def test_the_row_maximum_lets_many_rows_share_a_partner():
    one = np.array([[1.0, 0], [0.8, 0.6]])
    two = np.array([[1.0, 0], [0, -1]])
    assert match_rows(one, two).partner.tolist() == [0, 0]
    assert match_rows(one, two).mean == pytest.approx(0.9)
    bound = match_one_to_one(one, two)
    # 1 + (−0.6) beats 0 + 0.8 by nothing but the sum: 0.4 against 0.8
    assert bound.partner.tolist() == [1, 0] and bound.mean == pytest.approx(0.4)


def test_opposite_directions_do_not_match():
    one = np.eye(3)
    assert match_rows(one, -one).mean == 0


def test_lengths_do_not_matter():
    g = rng()
    one, two = random_dictionary(g, 6, 4), random_dictionary(g, 5, 4)
    scaled = two * g.uniform(0.1, 9, (5, 1))
    np.testing.assert_allclose(cosines(one, scaled), cosines(one, two))


def test_dead_rows_are_left_out_and_the_rest_keep_their_numbers():
    one = np.eye(4)
    live = np.array([True, False, True, True]), np.array([False, True, True, True])
    match = match_rows(one, one, live=live)
    assert match.of.tolist() == [0, 2, 3]
    assert match.cosine.tolist() == [0, 1, 1]
    assert set(match_one_to_one(one, one, live=live).partner) <= {1, 2, 3}


def test_share_above_counts_strictly():
    angles = np.arccos([0.4, 0.5, 0.6])
    one = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    match = match_rows(one, np.array([[1.0, 0]]))
    assert match.share_above(0.45) == pytest.approx(2 / 3)
    assert match.share_above(0.7) == 0


@pytest.mark.parametrize(("n", "d"), [(1, 8), (32, 8), (512, 64)])
def test_random_dictionaries_reach_the_expected_maximum(n, d):
    g = rng()
    reached = [match_rows(random_dictionary(g, 200, d), random_dictionary(g, n, d)).mean]
    reached += [
        match_rows(random_dictionary(g, 200, d), random_dictionary(g, n, d)).mean for _ in range(19)
    ]
    error = np.std(reached, ddof=1) / np.sqrt(20)
    assert abs(np.mean(reached) - expected_max_cosine(n, d)) < 4 * error
    assert error < 0.03


def test_the_expected_maximum_has_its_closed_forms():
    assert expected_max_cosine(1, 5) == pytest.approx(0, abs=1e-10)
    # in three dimensions a cosine is uniform on [−1, 1]: the largest of n is 1 − 2/(n+1)
    assert expected_max_cosine(9, 3) == pytest.approx(0.8, abs=1e-10)
    # on a circle the largest of two is 4/π² on average
    assert expected_max_cosine(2, 2) == pytest.approx(4 / np.pi**2, abs=1e-6)


def test_a_dictionary_like_another_lies_in_its_subspace_and_matches_more_than_chance():
    g = rng()
    inside = random_dictionary(g, 300, 4) @ random_subspace(g, 32, 4).T
    fake = like_dictionary(g, inside)
    assert np.linalg.matrix_rank(np.vstack([inside, fake]), tol=1e-8) == 4
    np.testing.assert_allclose(np.linalg.norm(fake, axis=1), 1)
    chance = match_rows(inside, random_dictionary(g, 300, 32)).mean
    assert match_rows(inside, fake).mean > chance + 0.3


def test_a_dictionary_like_another_has_its_mean_and_covariance():
    g = rng()
    rows = g.standard_normal((4000, 64)) * np.arange(1, 65) ** -0.3 + 0.2 * np.eye(64)[5]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    fake = like_dictionary(g, rows)
    np.testing.assert_allclose(fake.mean(axis=0), rows.mean(axis=0), atol=0.015)
    np.testing.assert_allclose(fake.T @ fake / 4000, rows.T @ rows / 4000, atol=0.01)
    # the sizes that this must tell apart
    assert np.ptp(np.diag(rows.T @ rows / 4000)) > 0.05 and rows.mean(axis=0)[5] > 0.05


def test_shuffled_coordinates_keep_every_angle_within_and_lose_the_directions():
    g = rng()
    rows = random_dictionary(g, 40, 16)
    shuffled = shuffled_coordinates(g, rows)
    np.testing.assert_allclose(shuffled @ shuffled.T, rows @ rows.T)
    assert match_rows(rows, shuffled).mean < 0.8


def correlated(seed=100, n=400, f=6):
    g = rng(seed)
    F = np.maximum(g.standard_normal((n, f)), 0)
    return g, F, np.maximum(F + 0.5 * g.standard_normal((n, f)), 0)


def test_firing_is_pearsons_correlation_of_partners():
    g, F, G = correlated(n=50, f=300)  # more features than are taken at a time
    partner = g.permutation(300)
    found = firing_correlation(F, G, partner)
    plain = [np.corrcoef(F[:, i], G[:, partner[i]])[0, 1] for i in range(300)]
    np.testing.assert_allclose(found.r, plain)
    assert found.mean == pytest.approx(np.mean(plain)) and found.n_excluded == 0


def test_shuffled_tokens_fire_without_correlation():
    g, F, G = correlated(n=2000)
    assert abs(firing_correlation(F, g.permutation(G)).mean) < 0.05 < firing_correlation(F, G).mean


def test_features_that_never_fire_are_counted_and_left_out():
    _, F, G = correlated()
    F[:, 0], G[:, 1], G[:, 2] = 0, 0, 7.1  # silent here, silent there, always on
    found = firing_correlation(F, G)
    assert np.isnan(found.r).tolist() == [True, True, True, False, False, False]
    assert (found.n_defined, found.n_excluded) == (3, 3)
    assert found.silent_one.tolist() == [True] + 5 * [False]
    assert found.silent_two.tolist() == [False, True] + 4 * [False]
    assert found.mean == pytest.approx(found.r[3:].mean())
    # five features vary in F, and two of their partners say nothing
    assert found.mean_silent_zero == pytest.approx(found.r[3:].sum() / 5)


def test_nothing_that_fires_is_nan_and_not_zero():
    found = firing_correlation(np.zeros((5, 2)), np.zeros((5, 2)))
    assert np.isnan(found.mean) and np.isnan(found.mean_silent_zero) and found.n_excluded == 2


@pytest.fixture(scope="module")
def trained():
    """Two planted models that share nothing; the first one twice, the second time rotated."""
    g = rng(130)
    truth = planted_activations(g, 6000, n_features=48, d=32, active=3)
    other = planted_activations(g, 6000, n_features=48, d=32, active=3).activations
    R = random_subspace(g, 32, 32)
    X = [x.astype(np.float32) for x in (truth.activations, other, truth.activations @ R)]
    runs = {
        name: train_saes(X, config, init_seeds=init, data_seed=133)
        for name, config, init in (
            ("dense, shared", SAEConfig(l1=0.01, steps=400), [130, 130, 130]),
            ("dense, own", SAEConfig(l1=0.01, steps=400), [130, 131, 132]),
            ("sparse, own", SAEConfig(k=5, steps=600), [130, 131, 132]),
        )
    }
    return X, R, {name: [run.sae for run in found] for name, found in runs.items()}


CHANCE = expected_max_cosine(256, 32)


def test_a_shared_initialisation_matches_dense_saes_of_unrelated_data(trained):
    one, unrelated, _ = trained[2]["dense, shared"]
    assert match_rows(one.decoder, unrelated.decoder).mean > 0.8


def test_own_initialisations_leave_dense_saes_of_one_model_at_chance(trained):
    _, R, saes = trained
    one, _, rotated = saes["dense, own"]
    assert match_rows(one.decoder @ R, rotated.decoder).mean == pytest.approx(CHANCE, abs=0.03)


def test_sparse_saes_match_after_the_rotation_and_not_before(trained):
    X, R, saes = trained
    one, unrelated, rotated = saes["sparse, own"]
    live = {
        sae: activity(sae, x).rate > 0.005 for sae, x in zip(saes["sparse, own"], X, strict=True)
    }

    def matched(rows, sae):
        return match_rows(rows, sae.decoder, live=(live[one], live[sae])).mean

    assert matched(one.decoder @ R, rotated) > 0.8
    assert matched(one.decoder, rotated) == pytest.approx(CHANCE, abs=0.1)
    assert matched(one.decoder, unrelated) == pytest.approx(CHANCE, abs=0.1)


@pytest.mark.parametrize("bad", [np.zeros((3, 4)), np.full((3, 4), np.nan)])
def test_a_row_without_a_direction_is_refused(bad):
    with pytest.raises(ValueError, match="second dictionary holds NaN, infinity or a row of zeros"):
        cosines(np.eye(4), bad)


def test_dictionaries_of_different_dimension_are_refused(unchecked):
    with pytest.raises(ValueError, match=r"got \(3, 3\), \(4, 4\)"):
        cosines(np.eye(3), np.eye(4))


def test_masks_that_keep_nothing_or_do_not_fit_are_refused(unchecked):
    nothing, short, whole = np.zeros(3, bool), np.ones(2, bool), np.ones(3, bool)
    for live in ((nothing, whole), (whole, short), (whole.astype(int), whole)):
        with pytest.raises(ValueError, match="mask of 3 booleans"):
            match_rows(np.eye(3), np.eye(3), live=live)


def test_codes_that_do_not_fit_are_refused(unchecked):
    F = np.ones((5, 3))
    with pytest.raises(ValueError, match="same n ≥ 2 tokens"):
        firing_correlation(F, np.ones((4, 3)))
    with pytest.raises(ValueError, match="partner among 0…1"):
        firing_correlation(F, np.ones((5, 2)))
    with pytest.raises(ValueError, match="NaN"):
        firing_correlation(F, np.full((5, 3), np.nan))


def test_nulls_that_cannot_be_made_are_refused():
    with pytest.raises(ValueError, match="d = 1"):
        expected_max_cosine(3, 1)
    with pytest.raises(ValueError, match="f ≥ 2"):
        like_dictionary(rng(), np.eye(3)[:1])
    with pytest.raises(ValueError, match="0 < active < 96"):
        planted_activations(rng(), 10, active=96)


def test_planted_activations_are_codes_times_dictionary():
    made = planted_activations(rng(), 5000, n_features=20, d=8, active=3)
    np.testing.assert_allclose(made.activations, made.codes @ made.dictionary + made.mean)
    assert (made.codes > 0).sum(axis=1).mean() == pytest.approx(3, abs=0.1)
    assert made.codes[made.codes > 0].min() >= 1
    np.testing.assert_allclose(np.linalg.norm(made.dictionary, axis=1), 1)
