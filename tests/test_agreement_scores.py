"""Scores against counting by hand, scikit-learn, and bootstraps written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import r2_score, roc_auc_score

from helpers.agreement_scores import (
    affine_fit,
    auc,
    auc_by_condition,
    auc_difference,
    auc_score,
    conditions,
)
from helpers.clusters import cluster_interval, mean_interval, rows_interval

quick = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)


def rng(seed=0):
    return np.random.default_rng(seed)


def prompts(seed, n=240, nouns=12, gap=1.0, by_noun=1.0):
    """Margins with a gap between numbers and a shift of each noun's own."""
    r = rng(seed)
    number, noun = np.tile([0, 1], n // 2), np.repeat(np.arange(nouns), n // nouns)
    return r.normal(size=n) + gap * number + by_noun * r.normal(size=nouns)[noun], number, noun


@given(seed=seeds, ties=st.booleans())
@quick
def test_auc_is_scikit_learns(seed, ties):
    margins, number, _ = prompts(seed, n=48)
    margins = np.round(margins) if ties else margins
    assert auc(margins, number) == pytest.approx(roc_auc_score(number, margins))


def test_auc_counts_pairs():
    assert auc(np.array([1.0, 2, 3, 2]), np.array([0, 0, 1, 1])) == pytest.approx(3.5 / 4)


@given(seed=seeds)
@quick
def test_auc_of_flipped_margins_is_one_minus_auc_and_a_shift_does_nothing(seed):
    margins, number, _ = prompts(seed, n=48)
    assert auc(-margins, number) == pytest.approx(1 - auc(margins, number))
    assert auc(margins + 7, number) == pytest.approx(auc(margins, number))


def test_the_fast_auc_interval_is_that_of_resampled_rows():
    margins, number, noun = prompts(0, n=120, nouns=8)

    def plain(rows):
        return roc_auc_score(number[rows], margins[rows])

    fast = auc_score(margins, number, noun, generator=rng(), resamples=299)
    slow = rows_interval(plain, noun, generator=rng(), resamples=299)
    np.testing.assert_allclose((fast.low, fast.high), slow, atol=1e-9)
    assert fast.low < fast.value < fast.high and fast.n == 120


def test_the_difference_of_two_aucs_has_the_interval_of_resampled_rows():
    first, number, noun = prompts(1, n=120, nouns=8)
    second = first + rng(2).normal(size=120)

    def plain(rows):
        return roc_auc_score(number[rows], first[rows]) - roc_auc_score(number[rows], second[rows])

    fast = auc_difference(first, second, number, noun, generator=rng(), resamples=299)
    slow = rows_interval(plain, noun, generator=rng(), resamples=299)
    # BCa counts the resamples below the whole sample's value; rounding decides for those that
    # equal it, so that the ends differ in the fourth digit
    np.testing.assert_allclose((fast.low, fast.high), slow, atol=5e-4)
    assert fast.value == pytest.approx(plain(np.arange(120)))


def test_two_margins_that_share_their_errors_differ_with_a_narrow_interval():
    """Resampled apart, the two would have the errors of both."""
    margins, number, noun = prompts(4, by_noun=2.0)
    score = auc_difference(margins + 0.05 * number, margins, number, noun, generator=rng())
    alone = auc_score(margins, number, noun, generator=rng())
    assert 0 < score.value < 0.05
    assert score.high - score.low < 0.3 * (alone.high - alone.low)


def test_clusters_matter():
    """Where nouns shift margins, drawing nouns gives a wider interval than drawing prompts."""
    r = rng(3)
    noun = np.repeat(np.arange(12), 40)
    number = np.tile([0, 1], 240)
    margins = r.normal(size=480) + number * 2 * r.normal(size=12)[noun]  # effect differs by noun
    by_noun = auc_score(margins, number, noun, generator=rng())
    by_prompt = auc_score(margins, number, np.arange(480), generator=rng())
    assert by_noun.high - by_noun.low > 1.5 * (by_prompt.high - by_prompt.low)


def test_a_perfect_auc_has_an_interval_of_one_point():
    number = np.tile([0, 1], 20)
    score = auc_score(number * 1.0, number, np.repeat(np.arange(10), 4), generator=rng())
    assert (score.value, score.low, score.high) == (1, 1, 1)


def test_clusters_of_one_number_each_are_resampled_all_the_same():
    number = np.array([0, 0, 1, 1])
    score = auc_score(np.array([0.0, 2, 1, 3]), number, np.arange(4), generator=rng())
    assert 0 <= score.low <= score.value == 0.75 <= score.high <= 1


def test_conditions_are_told_by_head_and_attractor():
    head, attractor = np.array([0, 0, 0, 1, 1, 1]), np.array([-1, 0, 1, -1, 0, 1])
    found = conditions(head, attractor)
    assert {name: np.flatnonzero(mask).tolist() for name, mask in found.items()} == {
        "all": [0, 1, 2, 3, 4, 5],
        "no attractor": [0, 3],
        "same number": [1, 5],
        "other number": [2, 4],
    }


def test_an_attraction_error_shows_in_its_own_condition_only():
    r = rng()
    head, attractor = r.integers(0, 2, 600), r.integers(-1, 2, 600)
    obeys = np.where(attractor == -1, head, attractor)  # agrees with the attractor
    margins = obeys + 0.01 * r.normal(size=600)
    scores = auc_by_condition(
        margins, head, attractor, r.integers(0, 15, 600), generator=rng(), resamples=199
    )
    assert scores["no attractor"].value == scores["same number"].value == 1
    assert scores["other number"].value == 0


def test_an_empty_condition_is_left_out():
    margins, number, noun = prompts(0)
    scores = auc_by_condition(margins, number, -np.ones(240, int), noun, generator=rng())
    assert set(scores) == {"all", "no attractor"}


def test_a_head_without_its_attractor_is_refused():
    with pytest.raises(ValueError, match="one entry a prompt"):
        conditions(np.array([0, 1]), np.array([0, 2]))


def test_one_cluster_gives_no_interval():
    margins, number, _ = prompts(0)
    with pytest.raises(ValueError, match="1 cluster"):
        auc_score(margins, number, np.zeros(240, int), generator=rng())


def test_margins_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="margins must be finite"):
        auc(np.array([0.0, np.nan]), np.array([0, 1]))


def test_the_mean_and_its_interval_are_those_of_resampled_rows():
    r = rng(5)
    noun = r.integers(0, 9, 100)
    right = (r.random(100) < 0.7).astype(float)
    mean, low, high = mean_interval(right, noun, generator=rng(), resamples=299)
    slow = rows_interval(lambda rows: right[rows].mean(), noun, generator=rng(), resamples=299)
    assert mean == right.mean()
    np.testing.assert_allclose((low, high), slow, atol=1e-9)


def test_the_cluster_interval_covers_a_mean_whose_clusters_differ():
    hits = 0
    for seed in range(100):
        r = rng(seed)
        noun = np.repeat(np.arange(15), 10)
        values = r.normal(size=15)[noun] + 0.2 * r.normal(size=150)
        _, low, high = mean_interval(values, noun, generator=r, resamples=299)
        hits += low <= 0 <= high
    assert 88 <= hits <= 100


def test_counts_say_how_often_each_cluster_was_drawn():
    seen = []

    def statistic(counts):
        seen.append(counts)
        return counts @ np.arange(4.0)

    cluster_interval(statistic, 4, generator=rng(), resamples=50)
    counts = np.concatenate(seen)
    assert counts.shape[1] == 4 and len(counts) > 50
    assert set(counts.sum(axis=1)) <= {4.0, 3.0}  # 3: the jackknife of the bootstrap
    assert counts.min() == 0 and counts.max() > 1


@given(seed=seeds)
@quick
def test_the_held_out_r2_is_scikit_learns(seed):
    r = rng(seed)
    z, z2 = r.normal(size=50), r.normal(size=40)
    m, m2 = 2 * z + 30 + r.normal(size=50), 2 * z2 + 30 + r.normal(size=40)
    fit = affine_fit(z, m, z2, m2, r.integers(0, 8, 40), generator=r, resamples=99)
    predicted = fit.slope * z2 + fit.intercept
    assert fit.r2.value == pytest.approx(r2_score(m2, predicted))
    np.testing.assert_allclose(fit.residuals, m2 - predicted, atol=1e-12)


def test_the_r2_interval_is_that_of_resampled_rows():
    r = rng(1)
    z, z2, noun = r.normal(size=200), r.normal(size=120), r.integers(0, 10, 120)
    m, m2 = 3 * z + 500 + r.normal(size=200), 3 * z2 + 500 + r.normal(size=120)
    fit = affine_fit(z, m, z2, m2, noun, generator=rng(), resamples=299)
    predicted = fit.slope * z2 + fit.intercept
    slow = rows_interval(
        lambda rows: r2_score(m2[rows], predicted[rows]), noun, generator=rng(), resamples=299
    )
    np.testing.assert_allclose((fit.r2.low, fit.r2.high), slow, atol=1e-6)
    assert fit.slope == pytest.approx(3, abs=0.3)


def test_a_coordinate_that_knows_nothing_has_no_r2():
    r = rng(2)
    fit = affine_fit(
        *r.normal(size=(4, 300)), r.integers(0, 20, 300), generator=rng(), resamples=199
    )
    assert fit.r2.value < 0.03


def test_a_constant_coordinate_is_refused():
    with pytest.raises(ValueError, match="must vary"):
        affine_fit(np.ones(5), np.arange(5.0), np.ones(3), np.arange(3.0), np.arange(3),
                   generator=rng())  # fmt: skip
