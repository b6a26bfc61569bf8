"""Explained variance against planted noise, and against what theory says of a wrong basis."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.alignment.variance import (
    explained_variance,
    explained_variance_by_band,
    explained_variance_by_dimension,
)
from helpers.comparison import random_subspace

quick = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)


def planted(seed, N=40, D=6):
    """Activations whose principal axes and variances are exactly known, and those axes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D))
    scores = np.linalg.qr(X - X.mean(axis=0))[0] * 2.0 ** -np.arange(D)
    axes = random_subspace(rng, D, D)
    return scores @ axes.T + rng.standard_normal(D), axes, scores


def test_a_perfect_prediction_scores_one_and_the_mean_zero():
    Y, _, _ = planted(0)
    assert explained_variance(Y, Y) == 1
    assert explained_variance(Y, np.broadcast_to(Y.mean(axis=0), Y.shape)) == pytest.approx(0)


@given(seed=seeds, scale=st.floats(-2, 2))
@quick
def test_a_scaled_prediction_scores_one_less_the_squared_miss(seed, scale):
    Y, _, _ = planted(seed)
    mean = Y.mean(axis=0)
    wanted = 1 - (1 - scale) ** 2
    Y_hat = mean + scale * (Y - mean)
    assert explained_variance(Y, Y_hat) == pytest.approx(wanted, abs=1e-9)
    np.testing.assert_allclose(explained_variance_by_dimension(Y, Y_hat), wanted, atol=1e-9)


def test_an_uncorrelated_prediction_of_equal_variance_scores_minus_one():
    Y, axes, scores = planted(1)
    unrelated = np.roll(scores, 1, axis=0) @ axes.T
    unrelated -= unrelated.mean(axis=0)
    centred = Y - Y.mean(axis=0)
    unrelated -= centred * np.sum(unrelated * centred) / np.sum(centred**2)
    unrelated *= np.linalg.norm(centred) / np.linalg.norm(unrelated)
    assert explained_variance(Y, Y.mean(axis=0) + unrelated) == pytest.approx(-1)


def test_pooled_is_the_mean_over_dimensions_weighted_by_variance():
    Y, _, _ = planted(2)
    Y_hat = Y + np.random.default_rng(2).standard_normal(Y.shape) * 0.1
    pooled = np.average(explained_variance_by_dimension(Y, Y_hat), weights=Y.var(axis=0))
    assert explained_variance(Y, Y_hat) == pytest.approx(pooled)


@given(seed=seeds, cut=st.integers(1, 5))
@quick
def test_bands_tell_which_components_are_missing(seed, cut):
    Y, axes, scores = planted(seed)
    kept = scores[:, :cut] @ axes[:, :cut].T + Y.mean(axis=0)
    found, lost = explained_variance_by_band(Y, kept, [(1, cut), (cut + 1, 6)])
    assert found.value == pytest.approx(1) and lost.value == pytest.approx(0, abs=1e-9)
    energies = 4.0 ** -np.arange(6)
    assert found.share == pytest.approx(energies[:cut].sum() / energies.sum())


@given(seed=seeds, noise=st.floats(0, 2))
@quick
def test_bands_that_cover_all_dimensions_add_up_to_the_pooled_score(seed, noise):
    Y, _, _ = planted(seed)
    Y_hat = Y + noise * np.random.default_rng(seed + 1).standard_normal(Y.shape)
    bands = explained_variance_by_band(Y, Y_hat, [(1, 2), (3, 3), (4, 64)])
    assert [(band.first, band.last) for band in bands] == [(1, 2), (3, 3), (4, 6)]
    total = sum(band.share * band.value for band in bands)
    assert total == pytest.approx(explained_variance(Y, Y_hat), rel=1e-9, abs=1e-9)


def test_bands_of_given_axes_use_those_axes():
    Y, axes, scores = planted(3)
    kept = scores[:, :2] @ axes[:, :2].T + Y.mean(axis=0)
    reordered = explained_variance_by_band(Y, kept, [(1, 4), (5, 6)], axes=axes[:, ::-1])
    assert reordered[0].value == pytest.approx(0, abs=1e-9)
    assert reordered[1].value == pytest.approx(1)


def test_a_band_beyond_the_last_dimension_is_left_out():
    Y, _, _ = planted(4)
    assert [band.first for band in explained_variance_by_band(Y, Y)] == [1, 5]


def test_what_does_not_vary_has_no_score():
    Y, _, _ = planted(5)
    Y = np.column_stack([Y, np.full(len(Y), 3.0)])
    by_dimension = explained_variance_by_dimension(Y, Y)
    assert np.isnan(by_dimension[-1]) and (by_dimension[:-1] == 1).all()
    (empty,) = explained_variance_by_band(Y, Y, [(7, 7)])
    assert np.isnan(empty.value) and empty.share == pytest.approx(0, abs=1e-24)


def test_a_mean_from_elsewhere_moves_the_zero():
    Y, _, _ = planted(6)
    elsewhere = Y.mean(axis=0) + 1
    constant = np.broadcast_to(elsewhere, Y.shape)
    assert explained_variance(Y, constant, elsewhere) == pytest.approx(0)
    assert explained_variance(Y, constant) < -0.1


def test_an_offset_counts_against_the_prediction():
    Y, _, _ = planted(7)
    offset = np.ones(6)
    lost = len(Y) * 6 / np.sum((Y - Y.mean(axis=0)) ** 2)
    assert explained_variance(Y, Y + offset) == pytest.approx(1 - lost)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda Y: Y[:-1], "must have the shape of what it predicts"),
        (lambda Y: np.where(np.arange(len(Y))[:, None] == 2, np.nan, Y), "first in row 2"),
    ],
)
def test_a_bad_prediction_is_named(unchecked, change, message):
    Y, _, _ = planted(8)
    with pytest.raises(ValueError, match=message):
        explained_variance(Y, change(Y))


def test_constant_activations_have_no_explained_variance():
    with pytest.raises(ValueError, match="constant"):
        explained_variance(np.ones((5, 3)), np.ones((5, 3)))


def test_bad_bands_axes_and_means_are_named(unchecked):
    Y, axes, _ = planted(9)
    with pytest.raises(ValueError, match=r"1 ≤ first ≤ last; got \(4, 1\)"):
        explained_variance_by_band(Y, Y, [(4, 1)])
    with pytest.raises(ValueError, match="6 orthonormal columns"):
        explained_variance_by_band(Y, Y, axes=2 * axes)
    with pytest.raises(ValueError, match=r"the mean must be \(6,\)"):
        explained_variance(Y, Y, np.zeros(5))
