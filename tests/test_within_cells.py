"""Rank correlation within cells: by hand, against scipy, and with planted agreement."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.within_cells import cells_of, spearman_interval, within_spearman

quick = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)


def rng(seed=0):
    return np.random.default_rng(seed)


def two_models(seed, shared, n=600, cells=12):
    """Coordinates that know their cell, and beyond it share a part of what they say."""
    r = rng(seed)
    cell = r.integers(0, cells, n)
    level, common = 4 * r.normal(size=cells), r.normal(size=n)
    x, y = (level[cell] + shared * common + r.normal(size=n) for _ in range(2))
    return x, y, cell


@given(seed=seeds)
@quick
def test_it_is_the_size_weighted_mean_of_scipys_spearman(seed):
    x, y, cell = two_models(seed, 0.5, n=150, cells=6)
    x = np.round(x, 1)  # with ties
    found = within_spearman(x, y, cell, generator=rng(), permutations=1)
    by_hand, total = 0.0, 0
    for c in range(6):
        rows = cell == c
        rho = scipy.stats.spearmanr(x[rows], y[rows]).statistic
        assert found.by_cell[c] == (pytest.approx(rho), rows.sum())
        by_hand, total = by_hand + rho * rows.sum(), total + rows.sum()
    assert found.rho == pytest.approx(by_hand / total)


def test_one_cell_for_all_is_the_pooled_spearman():
    x, y, _ = two_models(0, 0.5)
    found = within_spearman(x, y, np.zeros(600, int), generator=rng(), permutations=1)
    assert found.rho == pytest.approx(scipy.stats.spearmanr(x, y).statistic)


@given(seed=seeds)
@quick
def test_a_monotone_change_within_cells_changes_nothing(seed):
    x, y, cell = two_models(seed, 0.5, n=120, cells=4)
    moved = np.exp(x / 5) + np.array([100, -100, 3, 0])[cell]
    one = within_spearman(x, y, cell, generator=rng(), permutations=9)
    two = within_spearman(moved, y, cell, generator=rng(), permutations=9)
    assert one.rho == pytest.approx(two.rho)
    np.testing.assert_allclose(one.null.values, two.null.values)


def test_knowing_the_cell_alone_is_no_agreement_within_it():
    x, y, cell = two_models(1, 0.0)
    pooled = within_spearman(x, y, np.zeros(600, int), generator=rng())
    within = within_spearman(x, y, cell, generator=rng())
    assert pooled.rho > 0.7 and pooled.null.p_value < 0.001
    assert abs(within.rho) < 0.1


def test_agreement_beyond_the_cell_is_found():
    x, y, cell = two_models(1, 1.0)
    within = within_spearman(x, y, cell, generator=rng())
    assert within.rho > 0.3 > 3 * within.null.quantile(0.95)
    assert within.null.p_value == pytest.approx(1 / 2001)


def test_the_null_permutes_within_cells_only():
    """Where cells order both coordinates, permuting across them would give ρ near 0 pooled."""
    x, y, cell = two_models(2, 0.0, cells=3)
    n = len(x)
    seen = within_spearman(x, y, cell, generator=rng(), permutations=400).null.values
    # ρ of independent ranks in a cell has variance 1/(n_c − 1): the weighted mean has about 1/n
    assert seen.mean() == pytest.approx(0, abs=4 / np.sqrt(n * 400))
    assert seen.std() == pytest.approx(1 / np.sqrt(n), rel=0.15)


def test_the_p_value_is_uniform_without_agreement():
    p = [
        within_spearman(*two_models(s, 0.0, n=80, cells=4), generator=rng(s), permutations=99)
        .null.p_value
        for s in range(150)
    ]  # fmt: skip
    assert scipy.stats.kstest(p, "uniform").pvalue > 0.01


def test_small_and_constant_cells_are_left_out_and_counted():
    r = rng()
    cell = np.repeat([0, 1, 2, 3], [10, 4, 6, 5])
    x, y = r.normal(size=25), r.normal(size=25)
    x[cell == 2] = 1.5
    found = within_spearman(x, y, cell, generator=rng(), permutations=9)
    assert (found.small, found.constant, found.n_left_out, found.n) == (1, 1, 10, 15)
    assert set(found.by_cell) == {0, 3}


def test_only_small_cells_are_refused():
    with pytest.raises(ValueError, match="no cell holds 5 sentences"):
        within_spearman(np.arange(8.0), np.arange(8.0), np.repeat([0, 1], 4), generator=rng())


def test_cells_are_the_combinations_of_labels():
    cells = cells_of(np.array([0, 0, 1, 1]), np.array([-1, 1, -1, -1]), ["pp", "pp", "pp", "pp"])
    assert len(set(cells)) == 3 and cells[2] == cells[3]
    with pytest.raises(ValueError, match="one entry for each sentence"):
        cells_of([1, 2], [1, 2, 3])


def test_lengths_that_differ_are_refused(unchecked):
    with pytest.raises(ValueError, match="one entry for each sentence"):
        within_spearman(np.arange(3.0), np.arange(4.0), np.zeros(3), generator=rng())


def test_the_interval_holds_the_measured_correlation_and_excludes_none():
    x, y, cell = two_models(3, 1.0)
    noun = rng(4).integers(0, 25, 600)
    rho = within_spearman(x, y, cell, generator=rng(), permutations=1).rho
    low, high = spearman_interval(x, y, noun, cells=cell, generator=rng(), resamples=199)
    assert 0.2 < low < rho < high < 0.8
    pooled = spearman_interval(x, y, noun, generator=rng(), resamples=199)
    assert pooled[0] < scipy.stats.spearmanr(x, y).statistic < pooled[1]
