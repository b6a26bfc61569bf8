"""Haar draws and their spectra against theory: moments, forced eigenvalues, limit laws."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag

from helpers.alignment.haar import check_orthogonal, component, haar
from helpers.alignment.spectrum import (
    cosines,
    eigenangles,
    kuiper,
    naive_ks,
    power_traces,
    trace_statistic,
)

quick = settings(max_examples=30, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)
halves = st.sampled_from(["SO", "O-"])


def mean_is(values, wanted):
    return abs(np.mean(values) - wanted) < 5 * np.std(values) / np.sqrt(len(values))


def moments_hold(draws):
    """Known moments of Haar on O(d), d > 4, of the trace and of a corner entry."""
    d = draws.shape[-1]
    trace = np.trace(draws, axis1=1, axis2=2)
    return (
        mean_is(trace, 0)
        and mean_is(trace**2, 1)
        and mean_is(trace**4, 3)
        and mean_is(draws[:, 0, 0] ** 4, 3 / (d * (d + 2)))
        and mean_is(draws[:, -1, 0] ** 4, 3 / (d * (d + 2)))
    )


@pytest.mark.parametrize("group", ["O", "SO", "O-"])
def test_draws_have_the_moments_of_haar_measure(group):
    assert moments_hold(haar(np.random.default_rng(0), 8, 20000, group))


def test_one_dimension_has_two_draws():
    rng = np.random.default_rng(8)
    assert set(haar(rng, 1, 50).ravel()) == {-1.0, 1.0}
    assert set(haar(rng, 1, 50, "SO").ravel()) == {1.0}


def test_plain_qr_does_not_have_them():
    plain = np.linalg.qr(np.random.default_rng(0).standard_normal((20000, 8, 8)))[0]
    assert not moments_hold(plain)


def test_draws_are_orthogonal_and_of_the_group_asked_for():
    rng = np.random.default_rng(1)
    for d in (2, 5, 16):
        for group, sign in (("SO", 1), ("O-", -1)):
            R = haar(rng, d, 50, group)
            np.testing.assert_allclose(
                R @ R.swapaxes(1, 2), np.broadcast_to(np.eye(d), R.shape), atol=1e-12
            )
            np.testing.assert_allclose(np.linalg.det(R), sign)
            assert {component(one) for one in R} == {group}
    assert abs(np.mean(np.linalg.det(haar(rng, 4, 4000)))) < 5 / np.sqrt(4000)


@pytest.mark.parametrize("group", ["SO", "O-"])
def test_a_fixed_turn_leaves_the_distribution_alone(group):
    R = haar(np.random.default_rng(2), 3, 6000, group)
    turned = haar(np.random.default_rng(3), 3, 1, "SO")[0] @ R
    for row, column in ((0, 0), (2, 1)):
        assert scipy.stats.ks_2samp(R[:3000, row, column], turned[3000:, row, column]).pvalue > 1e-3


@given(seed=seeds, d=st.integers(2, 9), group=halves)
@quick
def test_determinant_and_parity_force_eigenvalues(seed, d, group):
    R = haar(np.random.default_rng(seed), d, 1, group)[0]
    values = np.linalg.eigvals(R)
    plus, minus = (int(np.sum(np.abs(values - sign) < 1e-6)) for sign in (1, -1))
    wanted = {("SO", 0): (0, 0), ("SO", 1): (1, 0), ("O-", 0): (1, 1), ("O-", 1): (0, 1)}
    assert (plus, minus) == wanted[group, d % 2]


@given(seed=seeds, d=st.integers(2, 9), group=halves)
@quick
def test_eigenangles_are_those_of_the_eigenvalues(seed, d, group):
    R = haar(np.random.default_rng(seed), d, 1, group)[0]
    # scipy may give a forced −1 as −π: both are one point of the circle
    reference = np.angle(np.linalg.eigvals(R))
    reference[reference < -np.pi + 1e-6] += 2 * np.pi
    np.testing.assert_allclose(eigenangles(R), np.sort(reference), atol=1e-7)


def test_a_permutations_angles_are_those_of_its_cycles():
    cycles = block_diag(*(np.roll(np.eye(size), 1, axis=1) for size in (5, 3, 1)))
    roots = [2 * np.pi * k / size for size in (5, 3, 1) for k in range(size)]
    wanted = np.sort([root - 2 * np.pi if root > np.pi else root for root in roots])
    np.testing.assert_allclose(eigenangles(cycles), wanted, atol=1e-7)


@given(seed=seeds, d=st.integers(2, 9), group=halves)
@quick
def test_traces_of_powers_are_those_of_matrix_powers(seed, d, group):
    R = haar(np.random.default_rng(seed), d, 3, group)
    wanted = [[np.trace(np.linalg.matrix_power(one, k)) for k in range(1, 33)] for one in R]
    np.testing.assert_allclose(power_traces(cosines(R), 32), wanted, atol=1e-9)


def test_the_trace_statistic_is_its_formula():
    traces = np.array([[0.5, 2.0, -1.0], [0.0, 1.0, 0.0]])
    wanted = [0.25 + (2 - 1) ** 2 / 2 + 1 / 3, 0]
    np.testing.assert_allclose(trace_statistic(traces), wanted)


@pytest.mark.parametrize("group", ["SO", "O-"])
def test_the_trace_statistic_is_nearly_chi_squared(group):
    R = haar(np.random.default_rng(4), 64, 1500, group)
    T = trace_statistic(power_traces(cosines(R), 8))
    assert scipy.stats.kstest(T, scipy.stats.chi2(8).cdf).pvalue > 1e-3
    # without the means of even powers it would not be
    shifted = np.sum(power_traces(cosines(R), 8) ** 2 / np.arange(1, 9), axis=-1)
    assert scipy.stats.kstest(shifted, scipy.stats.chi2(8).cdf).pvalue < 1e-6


@given(seed=seeds, d=st.integers(2, 9), group=halves, cut=st.floats(-3, 3))
@quick
def test_kuipers_v_is_the_plain_formula_wherever_the_circle_is_cut(seed, d, group, cut):
    R = haar(np.random.default_rng(seed), d, 1, group)
    u = np.sort((eigenangles(R[0]) - cut) / (2 * np.pi) % 1)
    plain = np.max(np.arange(1, d + 1) / d - u) + np.max(u - np.arange(d) / d)
    assert kuiper(cosines(R))[0] == pytest.approx(plain, abs=1e-6)


def test_kuipers_v_is_least_for_even_angles_and_one_for_a_single_angle():
    both = np.stack([np.roll(np.eye(16), 1, axis=1), np.eye(16)])
    np.testing.assert_allclose(kuiper(cosines(both)), [1 / 16, 1], atol=1e-6)


def test_the_naive_ks_test_finds_haar_a_cyclic_shift_and_blocks_equally_perfect():
    rng = np.random.default_rng(5)
    shift = np.roll(np.eye(64), 1, axis=1)
    two_blocks = block_diag(*haar(rng, 32, 2))
    for R in (*haar(rng, 64, 5), shift, two_blocks):
        assert naive_ks(R)[1] > 0.99
    assert naive_ks(np.eye(64))[1] < 1e-6


def test_independent_angles_would_be_rejected_as_often_as_they_should():
    # the p-values near 1 come from the eigenvalues' repulsion, not from the test
    rng = np.random.default_rng(6)
    uniform = scipy.stats.uniform(-np.pi, 2 * np.pi)
    p = [scipy.stats.kstest(rng.uniform(-np.pi, np.pi, 64), uniform.cdf).pvalue for _ in range(400)]
    assert 0.02 < np.mean(np.array(p) <= 0.05) < 0.09


def test_bad_matrices_and_groups_are_named(unchecked):
    rng = np.random.default_rng(7)
    with pytest.raises(ValueError, match="differs from the identity by up to 3"):
        check_orthogonal(2 * np.eye(3))
    with pytest.raises(ValueError, match=r"got shape \(3, 4\)"):
        check_orthogonal(np.ones((3, 4)))
    with pytest.raises(ValueError, match="NaN"):
        component(np.full((3, 3), np.nan))
    with pytest.raises(ValueError, match="got 'U'"):
        haar(rng, 3, 1, "U")
    with pytest.raises(ValueError, match="d = 0, n = 5"):
        haar(rng, 0, 5)
    with pytest.raises(ValueError, match="one matrix"):
        eigenangles(haar(rng, 3, 2))
