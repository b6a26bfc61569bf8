"""Intervals cover what they should, and nulls know only what they are told."""

import warnings

import numpy as np
import pytest

from helpers.stats import interval, pair_interval, permutation_null


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def coverage(one_interval, truth: float, repeats: int) -> float:
    hits = 0
    for seed in range(repeats):
        low, high = one_interval(rng(seed))
        hits += low <= truth <= high
    return hits / repeats


@pytest.mark.parametrize(
    "draw, n",
    [
        (lambda r, n: r.normal(1, 2, n), 8),
        (lambda r, n: r.exponential(1, n), 30),
        (lambda r, n: r.normal(1, 2, n), 30),
    ],
)
def test_the_interval_covers_the_true_mean_in_about_95_percent(draw, n):
    found = coverage(lambda r: interval(draw(r, n), generator=r, resamples=499), 1.0, 400)
    assert 0.90 <= found <= 0.985  # 400 trials: two standard errors are about 0.022


def test_an_interval_of_half_the_level_covers_about_half():
    found = coverage(
        lambda r: interval(r.normal(size=12), generator=r, level=0.5, resamples=499), 0.0, 400
    )
    assert 0.43 <= found <= 0.60


def test_few_units_give_a_wider_interval_than_the_plain_bootstrap():
    values = rng().normal(size=6)
    low, high = interval(values, generator=rng())
    resampled = rng(1).choice(values, (4000, 6)).mean(axis=1)
    plain = np.quantile(resampled, [0.025, 0.975])
    assert high - low > 1.15 * (plain[1] - plain[0])


def test_two_units_give_about_their_range_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        low, high = interval([1.0, 2.0], generator=rng())
    assert (low, high) == pytest.approx((1.0, 2.0))


def test_equal_values_give_a_point_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert interval([0.75] * 8, generator=rng()) == (0.75, 0.75)


def test_one_unit_that_differs_gives_a_finite_interval():
    low, high = interval([1.0] * 7 + [0.0], generator=rng())
    assert np.isfinite([low, high]).all() and low < 0.875 <= high


def test_the_interval_holds_its_point_even_of_a_lopsided_statistic():
    values = rng().exponential(size=9) ** 4
    for statistic in (np.mean, np.median, np.max, np.min):
        low, high = interval(values, statistic, generator=rng())
        assert low <= statistic(values) <= high


def test_the_same_generator_gives_the_same_interval():
    values = rng().normal(size=8)
    assert interval(values, generator=rng(3)) == interval(values, generator=rng(3))
    assert interval(values, generator=rng(3)) != interval(values, generator=rng(4))


def test_a_statistic_without_an_axis_works():
    low, high = interval(
        rng().normal(5, 1, 20), lambda values: float(np.sort(values)[10]), generator=rng()
    )
    assert 4 < low < 5 < high < 6


@pytest.mark.parametrize("values", [[], [1.0], [[1.0, 2.0], [3.0, 4.0]]])
def test_fewer_than_two_units_are_refused(values):
    with pytest.raises(ValueError, match="at least 2 independent units"):
        interval(values, generator=rng())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused_with_their_place(bad):
    with pytest.raises(ValueError, match=r"not finite at \[1\]"):
        interval([1.0, bad, 2.0], generator=rng())


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
def test_a_level_outside_0_and_1_is_refused(level):
    with pytest.raises(ValueError, match="between 0 and 1"):
        interval([1.0, 2.0, 3.0], generator=rng(), level=level)


# ------------------------------------------------------------------ pairs of models


def pair_matrix(r: np.random.Generator, s: int, noise: float = 0.3) -> np.ndarray:
    """Pairs that share what their models bring: y_ij = a_i + a_j + noise, with mean 0."""
    own = r.normal(size=s)
    extra = r.normal(scale=noise, size=(s, s))
    return own[:, None] + own[None, :] + (extra + extra.T) / np.sqrt(2)


def naive(r: np.random.Generator, s: int) -> tuple[float, float]:
    """What resampling the pairs themselves would give."""
    return interval(pair_matrix(r, s)[np.triu_indices(s, 1)], generator=r, resamples=499)


def by_model(r: np.random.Generator, s: int) -> tuple[float, float]:
    return pair_interval(pair_matrix(r, s), generator=r, resamples=299)


def test_resampling_models_covers_where_resampling_pairs_does_not():
    assert coverage(lambda r: naive(r, 8), 0.0, 200) < 0.70
    assert 0.88 <= coverage(lambda r: by_model(r, 8), 0.0, 200) <= 0.99


def test_a_dict_of_half_the_pairs_is_the_symmetric_matrix():
    matrix = pair_matrix(rng(), 5)
    half = {(i, j): matrix[i, j] for i in range(5) for j in range(i)}
    assert pair_interval(half, 5, generator=rng()) == pair_interval(matrix, generator=rng())


def test_ordered_pairs_are_kept_apart():
    matrix = np.triu(np.full((4, 4), 2.0))
    both = {(i, j): matrix[i, j] for i in range(4) for j in range(4) if i != j}
    low, high = pair_interval(both, generator=rng())
    assert low <= 1.0 <= high and high - low < 2.0


def test_the_diagonal_plays_no_part():
    matrix = pair_matrix(rng(), 6)
    other = matrix.copy()
    np.fill_diagonal(other, np.nan)
    assert pair_interval(matrix, generator=rng()) == pair_interval(other, generator=rng())


def test_equal_pairs_give_a_point():
    assert pair_interval(np.full((4, 4), 0.5), generator=rng()) == (0.5, 0.5)


@pytest.mark.parametrize(
    "pairs, n_seeds, says",
    [
        (np.ones((2, 2)), None, "at most one pair"),
        (np.ones((4, 4)), 5, "square matrix, found shape"),
        ({(0, 1): 1.0, (0, 2): 1.0}, None, r"the pair \(1, 2\) of 3 models is missing"),
        ({(0, 1): 1.0, (0, 2): 1.0, (1, 2): 1.0, (0, 7): 1.0}, 3, r"\(0, 7\) names a model"),
        ({}, None, "at most one pair"),
        (np.where(np.eye(3, k=1), np.nan, 1.0), None, "not finite"),
    ],
)
def test_pairs_that_do_not_fit_are_refused(pairs, n_seeds, says):
    with pytest.raises(ValueError, match=says):
        pair_interval(pairs, n_seeds, generator=rng())


# ------------------------------------------------------------------ permutation


def correlation(x, y) -> float:
    return float(np.corrcoef(x, y)[0, 1])


def test_p_values_of_unrelated_data_are_uniform():
    p_values = [
        permutation_null(
            correlation, r.normal(size=12), r.normal(size=12), generator=r, permutations=99
        ).p_value
        for r in map(rng, range(200))
    ]
    assert 0.40 < np.mean(p_values) < 0.60
    assert np.mean(np.array(p_values) <= 0.05) < 0.10


def test_a_real_relation_stands_out():
    x = rng().normal(size=40)
    found = permutation_null(correlation, x, x + rng(1).normal(size=40), generator=rng())
    assert found.p_value <= 0.002 and found.observed > found.quantile(0.95)


def test_the_smallest_p_value_is_one_over_draws_plus_one():
    x = np.arange(50.0)
    found = permutation_null(correlation, x, x, generator=rng(), permutations=199)
    assert found.p_value == 1 / 200


def related_through_a_group(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    groups = np.repeat([0, 1], 30)
    noise = 0.1 * rng(seed).normal(size=(2, 60))
    return groups + noise[0], groups + noise[1], groups


def test_groups_keep_what_they_explain():
    p_values = []
    for seed in range(20):
        x, y, groups = related_through_a_group(seed)
        within = permutation_null(
            correlation, x, y, generator=rng(seed), groups=groups, permutations=99
        )
        assert within.values.min() > 0.8
        p_values.append(within.p_value)
    assert 0.3 < np.mean(p_values) < 0.7


def test_without_groups_what_they_explain_stands_out():
    x, y, _ = related_through_a_group(0)
    assert permutation_null(correlation, x, y, generator=rng()).p_value < 0.01


def test_a_permutation_moves_whole_rows_and_loses_none():
    y = np.arange(20).reshape(10, 2)
    seen = []
    permutation_null(
        lambda _, shuffled: seen.append(shuffled.copy()) or 0.0,
        np.zeros(10),
        y,
        generator=rng(),
        permutations=5,
    )
    for shuffled in seen:
        assert sorted(map(tuple, shuffled.tolist())) == sorted(map(tuple, y.tolist()))
    assert any((shuffled != y).any() for shuffled in seen)


def test_lengths_that_differ_are_refused():
    with pytest.raises(ValueError, match="found 3, 4, 4"):
        permutation_null(correlation, [0.0] * 3, [0.0] * 4, generator=rng())


def test_groups_in_which_nothing_can_move_are_refused():
    with pytest.raises(ValueError, match="nothing can be permuted"):
        permutation_null(
            correlation, np.zeros(4), np.zeros(4), generator=rng(), groups=[1, 2, 3, 4]
        )
