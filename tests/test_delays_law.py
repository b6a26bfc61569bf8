"""Two laws of the delay against planted ones of either kind."""

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from helpers.delays import compare_laws
from helpers.stats import interval
from tests.planted_delays import (
    PRIMES,
    planted,
    rng,
    threshold,
)


@pytest.mark.parametrize("critical", [3.0, 20.0, 30.5])
def test_an_exact_log_form_is_found(critical):
    delays, censored = planted(threshold(critical, 900), PRIMES, 3, noise=0)
    found = compare_laws(PRIMES, delays, censored, rng(), resamples=9)
    assert found.critical == pytest.approx(critical, rel=1e-3)
    assert found.omega == pytest.approx(900, rel=1e-3)
    assert found.r2 == pytest.approx(1) and found.aic_advantage > 50 and found.border == ""
    np.testing.assert_allclose(found.log_form(PRIMES), delays[:, 0], rtol=1e-3)
    assert np.isinf(found.log_form([critical / 2])).all()


def test_an_exact_power_law_is_found_beside_it():
    delays, censored = planted(lambda x: 1e5 * x**-1.5, PRIMES, 3, noise=0)
    found = compare_laws(PRIMES, delays, censored, rng(), resamples=9)
    assert found.power == pytest.approx(1.5, abs=1e-6)
    assert found.aic_advantage < -50 and found.r2_power == pytest.approx(1)
    np.testing.assert_allclose(found.power_law(PRIMES), delays[:, 0], rtol=1e-6)


@pytest.mark.parametrize(
    "law, sign", [(threshold(29), 1), (lambda x: 1e5 * x**-1.6, -1), (lambda x: 1e4 * x**-0.5, -1)]
)
@pytest.mark.parametrize("end", [np.inf, 3000])
def test_aic_picks_the_planted_law(law, sign, end):
    for seed in range(3):
        delays, censored = planted(law, PRIMES, 6, noise=0.1, level=0.1, end=end, seed=seed)
        found = compare_laws(PRIMES, delays, censored, rng(), resamples=9)
        assert np.sign(found.aic_advantage) == sign
        low, high = found.aic_advantage_interval
        assert low <= found.aic_advantage <= high


def plain_comparison(log_delays):
    """p_crit, k, AIC advantage, R² of means and of runs, by least squares without censoring."""
    x = np.repeat(PRIMES[:, None], log_delays.shape[1], axis=1)

    def residual(q):
        left = log_delays - np.log(-np.log(1 - q / x))
        return left - left.mean()

    q = scipy.optimize.minimize_scalar(
        lambda q: np.sum(residual(q) ** 2), bounds=(1, 30.999), options={"xatol": 1e-9}
    ).x
    line = np.polyfit(np.log(x).ravel(), log_delays.ravel(), 1)
    squares = np.sum(residual(q) ** 2)
    squares_line = np.sum((log_delays - np.polyval(line, np.log(x))) ** 2)
    means = log_delays.mean(axis=1)
    return {
        "critical": q,
        "power": -line[0],
        "aic_advantage": log_delays.size * np.log(squares_line / squares),
        "r2": 1 - np.var(residual(q).mean(axis=1)) / np.var(means),
        "r2_power": 1 - np.var(means - np.polyval(line, np.log(PRIMES))) / np.var(means),
        "r2_runs": 1 - np.var(residual(q)) / np.var(log_delays),
    }


def test_the_numbers_are_those_of_plain_least_squares_without_censoring():
    delays, censored = planted(threshold(22), PRIMES, 6, level=0.2)
    found = compare_laws(PRIMES, delays, censored, rng(), resamples=9)
    for name, value in plain_comparison(np.log(delays)).items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-4), name


@pytest.mark.parametrize("name", ["critical", "aic_advantage", "r2"])
def test_the_laws_intervals_are_those_of_a_loop_over_resampled_seeds(name):
    delays, censored = planted(threshold(26), PRIMES, 6, noise=0.3, level=0.5)
    found = compare_laws(PRIMES, delays, censored, rng(5), resamples=59)

    def of_seeds(seeds):
        return plain_comparison(np.log(delays)[:, seeds.astype(int)])[name]

    same_draws = rng(rng(5).integers(2**63))
    wanted = interval(np.arange(6), of_seeds, generator=same_draws, resamples=59)
    found = getattr(found, f"{name}_interval")
    np.testing.assert_allclose(found, wanted, atol=0.05 * np.ptp(wanted))  # BCa rounds ties


def test_a_planted_threshold_is_found_although_runs_are_censored():
    delays, censored = planted(threshold(25), PRIMES, 60, noise=0.2, end=1500)
    found = compare_laws(PRIMES, delays, censored, rng(), resamples=9)
    ignored = compare_laws(PRIMES, delays, np.zeros_like(censored), rng(), resamples=9)
    assert found.critical == pytest.approx(25, abs=1)
    assert found.omega == pytest.approx(1000, rel=0.1)
    assert ignored.critical < 24


def test_other_units_of_x_move_only_the_threshold():
    delays, censored = planted(threshold(22), PRIMES, 6)
    one = compare_laws(PRIMES, delays, censored, rng(), resamples=49)
    two = compare_laws(PRIMES / 2, delays, censored, rng(), resamples=49)
    assert two.critical == pytest.approx(one.critical / 2, rel=1e-6)
    assert two.aic_advantage == pytest.approx(one.aic_advantage, abs=1e-4)
    np.testing.assert_allclose(two.r2_interval, one.r2_interval, atol=1e-6)


@pytest.mark.parametrize(
    "law, border",
    [
        (lambda x: 1e4 * x**-0.5, "zero"),
        (lambda x: np.where(x == 31, 1e5, 1000 / x), "smallest x"),
        (threshold(20), ""),
    ],
)
def test_a_threshold_at_its_border_is_said(law, border):
    delays, censored = planted(law, PRIMES, 3, noise=0.01)
    found = compare_laws(PRIMES, delays, censored, rng(), resamples=9)
    assert found.border == border
    assert 0 < found.critical < 31


def test_a_shallow_law_has_a_threshold_of_zero_and_is_one_over_x():
    delays, censored = planted(lambda x: 1e4 * x**-0.5, PRIMES, 3, noise=0.01)
    fitted = compare_laws(PRIMES, delays, censored, rng(), resamples=9).log_form(PRIMES)
    np.testing.assert_allclose(fitted * PRIMES, fitted[0] * PRIMES[0], rtol=1e-3)
