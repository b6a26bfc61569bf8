"""The cycle against planted circles, roots of unity and points in general position."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.cyclic import (
    circle_share,
    class_means,
    gaussian_classes,
    joint_basis,
    mode_planes,
    mode_power,
    modes_present,
    remove_modes,
    shift_eigenvalues,
    shift_fit,
    shuffled_classes,
)
from helpers.dynamics import fit_operator, match_eigenvalues

quick = settings(max_examples=30, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)
P = 53


def frame(rng, D, r):
    """Orthonormal (D, r)."""
    return np.linalg.qr(rng.standard_normal((D, r)))[0]


def circles(p, amplitudes, planes, mean=0.0):
    """Class means with a circle of radius ``amplitudes[k]`` in two columns of ``planes`` a mode."""
    angle = 2 * np.pi * np.outer(np.arange(p), list(amplitudes)) / p
    points = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    points = points * np.array(list(amplitudes.values()))[:, None]
    return points.reshape(p, -1) @ planes.T + mean


def distance(Q1, Q2):
    """Spectral norm of the difference of projectors."""
    return np.linalg.norm(Q1 @ Q1.T - Q2 @ Q2.T, 2)


def held_out(M, seed=0, folds=5):
    return shift_fit(M, folds, generator=np.random.default_rng(seed))


# the means of classes


def test_class_means_are_means_over_the_rows_of_each_class():
    rng = np.random.default_rng(0)
    labels, Z = rng.permutation(np.repeat(np.arange(5), 7)), rng.standard_normal((35, 3))
    wanted = [Z[labels == c].mean(axis=0) for c in range(5)]
    np.testing.assert_allclose(class_means(Z, labels, 5), wanted, atol=1e-14)


def test_an_empty_class_is_named():
    with pytest.raises(ValueError, match=r"classes \[1, 3\] hold no row"):
        class_means(np.ones((3, 2)), np.array([0, 2, 4]), 5)


@pytest.mark.parametrize("label", [-1, 5])
def test_a_label_outside_the_classes_is_named(label):
    with pytest.raises(ValueError, match=rf"labels lie in 0…4; got \[{label}\]"):
        class_means(np.ones((6, 2)), np.array([0, 1, 2, 3, 4, label]), 5)


def test_labels_of_another_length_are_named(unchecked):
    with pytest.raises(ValueError, match=r"got \(3, 2\) and \(2,\)"):
        class_means(np.ones((3, 2)), np.zeros(2, dtype=int), 1)


# the shift


@given(seed=seeds, K=st.integers(1, 8))
@quick
def test_planted_circles_are_a_perfect_cycle_in_any_coordinates(seed, K):
    rng = np.random.default_rng(seed)
    ks = rng.permutation(np.arange(1, P // 2 + 1))[:K]
    skew = frame(rng, 2 * K, 2 * K) * rng.uniform(0.5, 2, 2 * K)  # circles become ellipses
    M = circles(P, dict.fromkeys(ks.tolist(), 1.0), skew, mean=rng.standard_normal(2 * K))
    assert held_out(M, seed) == pytest.approx(1, abs=1e-9)
    roots = np.exp(2j * np.pi * np.concatenate([ks, -ks]) / P)
    values = shift_eigenvalues(M)
    np.testing.assert_allclose(match_eigenvalues(values, roots), roots, atol=1e-9)
    assert circle_share(values, P) == 1


def test_noisy_circles_stay_a_cycle_and_lose_it_under_both_nulls():
    rng = np.random.default_rng(0)
    M = circles(P, dict.fromkeys([2, 7, 11, 19, 24], 1.0), frame(rng, 10, 10))
    M = M + 0.05 * rng.standard_normal(M.shape)
    assert held_out(M) > 0.98
    assert circle_share(shift_eigenvalues(M), P) == 1
    for null in (shuffled_classes, gaussian_classes):
        without = [null(M, rng) for _ in range(50)]
        assert max(held_out(x) for x in without) < 0.2
        assert np.mean([circle_share(shift_eigenvalues(x), P) for x in without]) < 0.05


def test_in_p_minus_1_dimensions_any_points_are_a_perfect_cycle():
    # Every vector in 52 dimensions, whatever the points mean: a fit to all edges proves nothing.
    M = gaussian_classes(np.empty((P, P - 1)), np.random.default_rng(0))
    assert fit_operator(M, np.roll(M, -1, axis=0)).r2(M, np.roll(M, -1, axis=0)) > 1 - 1e-9
    values, roots = shift_eigenvalues(M), np.exp(2j * np.pi * np.arange(1, P) / P)
    np.testing.assert_allclose(match_eigenvalues(values, roots), roots, atol=1e-6)
    assert circle_share(values, P) == 1
    with pytest.raises(ValueError, match=r"span 41 of 52 dimensions.*lower the rank"):
        held_out(M)  # and held-out edges say so


@pytest.mark.parametrize("r", [5, 10, 20])
def test_random_points_gain_eigenvalues_of_size_sqrt_r_over_p(r):
    # A random operator from p edges has entries of variance 1 / p, so the circular law's radius is
    # √(r / p): far inside at low rank, and nearer to the unit circle the more dimensions there are.
    rng = np.random.default_rng(r)
    sizes = [np.abs(shift_eigenvalues(rng.standard_normal((P, r)))) for _ in range(100)]
    root_mean_square = np.sqrt(np.mean(np.square(sizes)))
    assert root_mean_square == pytest.approx(np.sqrt(r / P / 2), rel=0.15)
    assert np.mean(np.array(sizes) > 0.94) < 0.02


def test_held_out_edges_expose_what_a_fit_to_all_edges_hides():
    M = np.random.default_rng(0).standard_normal((P, 35))
    then = np.roll(M, -1, axis=0)
    assert fit_operator(M, then).r2(M, then) > 0.5
    assert held_out(M) < 0


def test_the_fold_count_and_the_draw_hardly_matter_on_a_cycle():
    rng = np.random.default_rng(0)
    M = circles(P, {3: 1.0, 10: 0.5}, frame(rng, 4, 4)) + 0.03 * rng.standard_normal((P, 4))
    scores = [held_out(M, seed, folds) for seed in range(3) for folds in (2, 5, P)]
    assert np.ptp(scores) < 0.02 and min(scores) > 0.97


@given(seed=seeds)
@quick
def test_held_out_r_squared_does_not_depend_on_rotation_origin_or_unit(seed):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((P, 4)) + np.cumsum(rng.standard_normal((P, 4)), axis=0)
    moved = 7 * M @ frame(rng, 4, 4).T + 100
    assert held_out(moved, seed) == pytest.approx(held_out(M, seed), abs=1e-9)


def test_the_share_counts_a_band_of_half_the_distance_between_roots():
    edge = np.sin(np.pi / P)
    values = np.array([1 + 0.99 * edge, 1 - 0.99 * edge, 1 + 1.01 * edge, 1 - 1.01 * edge, 0, 1j])
    assert circle_share(values, P) == pytest.approx(3 / 6)
    assert abs(np.exp(2j * np.pi / P) - 1) == pytest.approx(2 * edge)


@pytest.mark.parametrize("folds", [1, 54])
def test_impossible_folds_are_named(folds):
    with pytest.raises(ValueError, match=rf"2…53 folds; got {folds}"):
        held_out(np.random.default_rng(0).standard_normal((P, 2)), folds=folds)


@pytest.mark.parametrize("M", [np.ones((2, 2)), np.ones(5), np.full((5, 2), np.nan)])
def test_what_is_no_set_of_class_means_is_named(M, unchecked):
    for function in (held_out, shift_eigenvalues, mode_power, mode_planes):
        with pytest.raises(ValueError, match=r"class means must be \(p, r\), finite, with p ≥ 3"):
            function(M)


def test_no_eigenvalues_have_no_share():
    with pytest.raises(ValueError, match="no eigenvalues"):
        circle_share(np.array([]), P)


def test_the_nulls_keep_the_points_or_the_shape():
    M = np.random.default_rng(0).standard_normal((P, 3)) + 5
    shuffled = shuffled_classes(M, np.random.default_rng(1))
    assert not np.array_equal(shuffled, M)
    np.testing.assert_array_equal(np.sort(shuffled, axis=0), np.sort(M, axis=0))
    drawn = gaussian_classes(M, np.random.default_rng(1))
    assert drawn.shape == M.shape and abs(drawn.mean()) < 0.3


# the modes


@given(seed=seeds, p=st.sampled_from([3, 5, 7, 31, 53]), r=st.integers(1, 6))
@quick
def test_the_powers_of_all_modes_are_shares_of_the_variance(seed, p, r):
    M = np.random.default_rng(seed).standard_normal((p, r)) + 3
    power = mode_power(M)
    assert power.shape == (p // 2,)
    assert power.sum() == pytest.approx(1)
    # Parseval, from sums over classes instead of a fast transform
    total = np.sum((M - M.mean(axis=0)) ** 2)
    for k in (1, p // 2):
        wave = np.exp(-2j * np.pi * k * np.arange(p) / p)
        assert power[k - 1] == pytest.approx(2 * np.sum(np.abs(wave @ M) ** 2) / (p * total))


def test_planted_amplitudes_are_found():
    amplitudes = {2: 1.0, 7: 0.5, 24: 0.25}
    M = circles(P, amplitudes, frame(np.random.default_rng(0), 20, 6), mean=4.0)
    power = mode_power(M)
    squares = np.zeros(P // 2)
    squares[np.array(list(amplitudes)) - 1] = np.square(list(amplitudes.values()))
    np.testing.assert_allclose(power, squares / squares.sum(), atol=1e-12)
    assert modes_present(power, 0.01).tolist() == [2, 7, 24]
    assert modes_present(power, 0.1).tolist() == [2, 7]


@given(seed=seeds)
@quick
def test_powers_do_not_depend_on_frame_origin_unit_or_the_class_that_is_called_zero(seed):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((31, 4))
    moved = np.roll(3 * M @ frame(rng, 6, 4).T + 5, int(rng.integers(31)), axis=0)
    np.testing.assert_allclose(mode_power(moved), mode_power(M), atol=1e-10)


def test_multiplying_the_classes_permutes_the_modes():
    # Class c renamed 2 c turns mode k into k / 2 mod p: all modes of a prime are equivalent.
    M = circles(P, {6: 1.0, 10: 0.5}, frame(np.random.default_rng(0), 4, 4))
    power = mode_power(M[2 * np.arange(P) % P])
    assert modes_present(power, 0.01).tolist() == [12, 20]


def test_planes_are_the_planted_ones():
    rng = np.random.default_rng(0)
    planes = frame(rng, 20, 6)
    found = mode_planes(circles(P, {2: 1.0, 7: 0.5, 24: 1e-3}, planes, mean=3.0))
    for i, k in enumerate((2, 7, 24)):
        assert distance(found[k], planes[:, 2 * i : 2 * i + 2]) < 1e-9
    assert sorted(found) == list(range(1, 27))
    assert all(found[k].shape == (20, 0) for k in found if k not in (2, 7, 24))


def test_a_mode_on_a_line_has_one_direction():
    line = np.cos(2 * np.pi * 3 * np.arange(P) / P)[:, None] * np.array([[3.0, 4.0, 0.0]])
    found = mode_planes(line)
    assert found[3].shape == (3, 1)
    np.testing.assert_allclose(np.abs(found[3][:, 0]), [0.6, 0.8, 0], atol=1e-12)


def test_all_modes_together_span_what_the_class_means_span():
    rng = np.random.default_rng(0)
    M = rng.standard_normal((P, 80))
    whole = joint_basis(mode_planes(M), range(1, 27))
    assert whole.shape == (80, P - 1)
    centred = np.linalg.svd(M - M.mean(axis=0), full_matrices=False)[2][: P - 1].T
    assert distance(whole, centred) < 1e-9


def test_removing_modes_takes_their_circles_and_leaves_everything_else():
    rng = np.random.default_rng(0)
    planes = frame(rng, 20, 6)
    amplitudes = {2: 1.0, 7: 0.5, 24: 0.25}
    labels, mean = np.tile(np.arange(P), 4), rng.standard_normal(20)
    rest = rng.standard_normal((len(labels), 20))
    rest -= rest @ planes @ planes.T
    M = circles(P, amplitudes, planes)
    H = M[labels] + rest + mean
    removed = remove_modes(H, mode_planes(M), [2, 24], mean)
    wanted = circles(P, {7: 0.5}, planes[:, 2:4])[labels] + rest + mean
    np.testing.assert_allclose(removed, wanted, atol=1e-9)
    np.testing.assert_array_equal(remove_modes(H, mode_planes(M), [], mean), H)


def test_removing_skew_modes_removes_their_joint_span():
    rng = np.random.default_rng(0)
    M = circles(P, {2: 1.0, 7: 1.0, 9: 1.0}, rng.standard_normal((10, 6)))  # no right angles
    planes = mode_planes(M)
    left = mode_power(remove_modes(M, planes, [2, 7], M.mean(axis=0)))
    assert modes_present(left, 1e-9).tolist() == [9]
    # A mutant that removes one plane after the other brings back part of the first.
    one = remove_modes(M, planes, [2], M.mean(axis=0))
    two = remove_modes(one, planes, [7], M.mean(axis=0))
    assert modes_present(mode_power(two), 1e-9).tolist() != [9]


def test_modes_that_share_directions_count_them_once():
    shared = np.eye(5)[:, [0, 1, 1, 2]]
    planes = mode_planes(circles(P, {1: 1.0, 4: 1.0}, shared))
    assert joint_basis(planes, [1, 4]).shape == (5, 3)
    assert joint_basis(planes, [1, 1]).shape == (5, 2)


def test_a_mode_without_a_plane_is_named():
    planes = mode_planes(np.random.default_rng(0).standard_normal((7, 3)))
    with pytest.raises(ValueError, match=r"planes for modes 1…3; got \[0, 4\]"):
        joint_basis(planes, [4, 2, 0])


def test_an_even_number_of_classes_is_named():
    with pytest.raises(ValueError, match="odd p; got p = 6"):
        mode_power(np.random.default_rng(0).standard_normal((6, 2)))


def test_equal_class_means_have_no_modes():
    with pytest.raises(ValueError, match="all equal"):
        mode_power(np.full((7, 2), 3.7))


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.5, np.nan])
def test_a_threshold_that_is_no_share_is_named(threshold):
    with pytest.raises(ValueError, match=r"lies in \(0, 1\]"):
        modes_present(np.ones(3) / 3, threshold)


def test_the_fit_is_least_squares_on_the_edges_of_the_other_folds():
    M = np.random.default_rng(0).standard_normal((11, 2))
    deal = np.random.default_rng(5).permutation(11)
    predicted = {}
    for held_out in np.array_split(deal, 3):
        train = [c for c in range(11) if c not in held_out]
        design = np.array([[1, *M[c]] for c in train])
        wanted = np.array([M[(c + 1) % 11] for c in train])
        fit = np.linalg.lstsq(design, wanted, rcond=None)[0]
        predicted |= {c: np.array([1, *M[c]]) @ fit for c in held_out}
    error = sum(np.sum((M[(c + 1) % 11] - predicted[c]) ** 2) for c in range(11))
    by_hand = 1 - error / np.sum((M - M.mean(axis=0)) ** 2)
    found = shift_fit(M, 3, generator=np.random.default_rng(5))
    assert found == pytest.approx(by_hand, abs=1e-12)


def test_eigenvalues_that_are_no_numbers_have_no_share():
    with pytest.raises(ValueError, match="1 of 2 are NaN"):
        circle_share(np.array([1.0, np.nan]), 7)
    with pytest.raises(ValueError, match="p = 2"):
        circle_share(np.array([1.0, -1.0]), 2)


def test_no_planes_at_all_are_named():
    with pytest.raises(ValueError, match="no planes; take those of mode_planes"):
        remove_modes(np.ones((3, 2)), {}, [], np.zeros(2))


def test_a_share_at_the_threshold_is_present():
    assert modes_present(np.array([0.25, 0.5, 0.25]), 0.25).tolist() == [1, 2, 3]


def test_gaussian_classes_know_nothing_of_the_points():
    M = 50 + 9 * np.random.default_rng(0).standard_normal((53, 40))
    null = gaussian_classes(M, np.random.default_rng(1))
    assert abs(null.mean()) < 0.1  # 2,120 numbers: ± 0.02
    assert null.std() == pytest.approx(1, abs=0.1)
