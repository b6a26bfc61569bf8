"""Effects as numbers: planted noise, batches, scales and intervals; no model."""

import numpy as np
import pytest

from helpers.attribution import (
    Attribution,
    Effects,
    Passes,
    ap_by_batch,
    pearson,
    relative_error,
)


def planted(noise, n=64, m=6):
    """Effects in which a row's prediction is the truth and noise of its own."""
    g = np.random.default_rng(100)
    truth = np.tile(g.standard_normal(m), (n, 1))
    counts = np.full(n, 3)
    names = tuple("abcdef"[:m])
    predicted = truth + noise * g.standard_normal((n, m))
    make = lambda rows: Effects(names, 3 * rows, counts, 0.0, Passes(1))  # noqa: E731
    return Attribution("AP", make(predicted), make(truth))


def test_r_rises_with_the_batch_where_noise_is_the_cause_and_not_where_it_is_not():
    noisy = ap_by_batch(planted(5.0), [1, 8, 64], np.random.default_rng(1), draws=60)
    assert noisy.same.shape == (3, 60)
    r = noisy.all.mean(axis=1)
    assert r[0] < r[1] < r[2] and r[2] - r[0] > 0.3
    np.testing.assert_allclose(noisy.same[2], planted(5.0).r)  # the whole, in another order
    biased = planted(0.0)
    shifted = Effects(
        biased.names,
        biased.predictions.rows[:, ::-1].copy(),
        biased.predictions.counts,
        0.0,
        Passes(1),
    )
    wrong = ap_by_batch(
        Attribution("AP", shifted, biased.measurements),
        [1, 8, 64],
        np.random.default_rng(1),
        draws=20,
    )
    assert np.ptp(wrong.all) < 1e-9
    for sizes in ([0], [65], []):
        with pytest.raises(ValueError, match="batches hold 1 to 64"):
            ap_by_batch(biased, sizes, np.random.default_rng(1))


def test_relative_error_sees_the_scale_that_r_does_not():
    x = np.array([1.0, 2.0, 4.0])
    assert pearson(3 * x + 1, x) == pytest.approx(1)
    assert relative_error(3 * x + 1, x) == pytest.approx(17 / 7)
    assert np.isnan(pearson(x * 0, x))
    with pytest.raises(ValueError, match="do nothing"):
        relative_error(x, x * 0)


def test_the_interval_resamples_rows():
    noisy = planted(1.0)
    low, high = noisy.interval(pearson, np.random.default_rng(1))
    assert low <= noisy.r <= high and 0 < high - low < 0.5
    exact = planted(0.0).interval(relative_error, np.random.default_rng(1))
    assert exact == (0.0, 0.0) or max(exact) < 1e-12


def test_effects_on_different_rows_are_refused(unchecked):
    full = planted(1.0)
    half = Effects(
        full.names, full.predictions.rows[:9], full.predictions.counts[:9], 0.0, Passes(1)
    )
    with pytest.raises(ValueError, match="different rows"):
        Attribution("", half, full.measurements)
