"""The censored fit against least squares, scipy, and the plain likelihood."""

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from helpers.delays import fit_censored
from tests.planted_delays import (
    minus_log_likelihood,
    quick,
    regression,
    rng,
    seeds,
)


@given(seed=seeds, k=st.integers(1, 4))
@quick
def test_without_censoring_it_is_least_squares(seed, k):
    X, y, _ = regression(seed, k=k, share=0)
    fit = fit_censored(X, y, np.zeros(len(y), bool))
    beta, squares, *_ = np.linalg.lstsq(X, y, rcond=None)
    np.testing.assert_allclose(fit.beta, beta, atol=1e-6)
    np.testing.assert_allclose(fit.sigma**2, squares[0] / len(y), rtol=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_one_mean_is_what_scipy_fits_to_censored_data(seed):
    _, y, censored = regression(seed, k=1)
    data = scipy.stats.CensoredData(uncensored=y[~censored], right=y[censored])
    fit = fit_censored(np.ones((len(y), 1)), y, censored)
    wanted = scipy.stats.norm.fit(data)
    np.testing.assert_allclose([fit.beta[0], fit.sigma], wanted, rtol=1e-3, atol=1e-3)
    plain = minus_log_likelihood([wanted[0], np.log(wanted[1])], np.ones((len(y), 1)), y, censored)
    assert fit.log_likelihood == pytest.approx(-plain, rel=1e-5)


@given(seed=seeds, k=st.integers(1, 4))
@quick
def test_nothing_near_it_is_more_likely_by_the_plain_formula(seed, k):
    X, y, censored = regression(seed, k=k)
    fit = fit_censored(X, y, censored)
    here = np.append(fit.beta, np.log(fit.sigma))
    slope = scipy.optimize.approx_fprime(here, minus_log_likelihood, 1e-6, X, y, censored)
    assert np.abs(slope).max() < 1e-3 * len(y)
    best = scipy.optimize.minimize(minus_log_likelihood, here + 0.1, (X, y, censored))
    np.testing.assert_allclose(best.x, here, atol=2e-3)
    assert -fit.log_likelihood == pytest.approx(
        minus_log_likelihood(here, X, y, censored), rel=1e-9
    )


@given(seed=seeds)
@quick
def test_a_weight_counts_how_often_a_row_is_there_and_a_batch_is_a_loop(seed):
    X, y, censored = regression(seed)
    counts = rng(seed).integers(0, 4, (3, len(y)))
    batch = fit_censored(X, y, censored, counts.astype(float))
    for which, row in enumerate(counts):
        alone = fit_censored(np.repeat(X, row, 0), np.repeat(y, row), np.repeat(censored, row))
        np.testing.assert_allclose(batch.beta[which], alone.beta, atol=1e-6)
        np.testing.assert_allclose(batch.log_likelihood[which], alone.log_likelihood, rtol=1e-6)


@given(seed=seeds, shift=st.floats(-10, 10), scale=st.floats(0.1, 10))
@quick
def test_units_of_y_and_of_columns_carry_through(seed, shift, scale):
    X, y, censored = regression(seed)
    fit = fit_censored(X, y, censored)
    moved = fit_censored(X * [1, scale], shift + scale * y, censored)
    wanted = [shift + scale * fit.beta[0], fit.beta[1]]
    np.testing.assert_allclose(moved.beta, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(moved.sigma, scale * fit.sigma, rtol=1e-5)


def test_a_group_that_was_never_seen_lies_finitely_above_its_bounds():
    groups = np.repeat(np.eye(2), 6, axis=0)
    y = np.concatenate([rng().normal(0, 1, 6), np.full(6, 3.0)])
    fit = fit_censored(groups, y, np.arange(12) >= 6)
    assert 3 + 3 * fit.sigma < fit.beta[1] < 3 + 10 * fit.sigma
    np.testing.assert_allclose(fit.beta[0], y[:6].mean(), atol=1e-6)


@pytest.mark.parametrize("unseen", [0, 5])
def test_a_perfect_fit_is_found(unseen):
    X = np.vander(np.linspace(-1, 1, 20), 2, increasing=True)
    fit = fit_censored(X, X @ [7.0, -1.0], np.arange(20) < unseen)
    np.testing.assert_allclose(fit.beta, [7, -1], atol=2e-4)
    assert fit.sigma < 1e-3


@pytest.mark.parametrize(
    "change, message",
    [
        ({"y": np.ones(4)}, r"need the same n; got shapes \(5, 1\), \(4,\)"),
        ({"y": np.array([1, 2, np.nan, 4, 5])}, "must be finite"),
        ({"weights": -np.ones(5)}, "not negative"),
        ({"censored": np.ones(5, bool)}, "every value is censored"),
        ({"weights": np.array([1.0, 0, 0, 0, 0])}, "every value is censored"),
    ],
)
def test_bad_input_of_the_fit_is_named(change, message, unchecked):
    good = {"X": np.ones((5, 1)), "y": np.arange(5.0), "censored": np.arange(5) < 1}
    with pytest.raises(ValueError, match=message):
        fit_censored(**{**good, **change})
