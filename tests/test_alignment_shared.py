"""Split halves, geodesics and CKA against planted structure and theory."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag, expm, logm

from helpers.alignment.cka import linear_cka, unbiased_hsic
from helpers.alignment.geodesic import geodesic
from helpers.alignment.haar import haar
from helpers.alignment.split_half import agreement, split_half

quick = settings(max_examples=30, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)


def turn(theta):
    return np.array([[np.cos(theta), -np.sin(theta)], [np.sin(theta), np.cos(theta)]])


# --- split halves


def test_two_halves_of_one_rotation_agree_everywhere():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 6))
    found = split_half(X, X @ haar(rng, 6, 1)[0], rng)
    assert found.active == pytest.approx(1) and found.everywhere == pytest.approx(1)


def test_what_carries_no_variance_agrees_only_by_chance():
    rng = np.random.default_rng(1)
    N, d, r = 600, 40, 5
    loud = rng.standard_normal((N, r))
    Q1, Q2 = haar(rng, d, 2)
    X, Y = (loud @ Q[:r] + 1e-5 * rng.standard_normal((N, d)) for Q in (Q1, Q2))
    found = split_half(X, Y, rng, keep=0.999)
    assert found.rank == r
    assert found.active == pytest.approx(1, abs=1e-4)
    # r directions agree; the trace of what is left, a (d − r)-dimensional Haar matrix, is 0 ± 1
    assert found.everywhere == pytest.approx(r / d, abs=4 / d)


def test_what_both_halves_leave_open_agrees_only_by_chance_too():
    rng = np.random.default_rng(7)
    shared = rng.standard_normal((200, 5))
    X, Y = (np.hstack([shared @ Q, np.zeros((200, 35))]) for Q in haar(rng, 5, 2))
    found = split_half(X, Y, rng)
    assert found.active == pytest.approx(1)
    # LAPACK completes both halves by the same dead coordinates, which would give 1
    assert found.everywhere == pytest.approx(5 / 40, abs=4 / 40)


def test_unrelated_models_do_not_agree_even_where_they_are_active():
    rng = np.random.default_rng(2)
    scale = 0.8 ** np.arange(30)
    X, Y = (rng.standard_normal((800, 30)) * scale @ haar(rng, 30, 1)[0] for _ in range(2))
    found = split_half(X, Y, rng)
    assert abs(found.active) < 5 * found.null_sd[0]
    assert abs(found.everywhere) < 5 * found.null_sd[1]
    assert split_half(X, X + 0.1 * Y, rng).active > 0.9


def test_agreement_of_independent_haar_draws_has_mean_zero_and_its_stated_spread():
    rng = np.random.default_rng(3)
    d, r, n = 12, 4, 2000
    basis = haar(rng, d, 1)[0][:, :r]
    one, two = haar(rng, d, n), haar(rng, d, n)
    values = [agreement(A, B, basis) for A, B in zip(one, two, strict=True)]
    spread = 1 / np.sqrt(r * d)
    assert abs(np.mean(values)) < 5 * spread / np.sqrt(n)
    assert np.std(values) == pytest.approx(spread, rel=0.08)


@given(seed=seeds, r=st.integers(1, 6))
@quick
def test_agreement_lies_between_minus_one_and_one_and_sees_only_the_subspace(seed, r):
    rng = np.random.default_rng(seed)
    R1, R2, H = haar(rng, 6, 3)
    V = H[:, :r]
    value = agreement(R1, R2, V)
    assert -1 <= value <= 1
    inside = np.linalg.qr(rng.standard_normal((r, r)))[0]
    assert agreement(R1, R2, V @ inside) == pytest.approx(value)
    assert agreement(R1, R1, V) == pytest.approx(1)
    assert agreement(R1, -R1, V) == pytest.approx(-1)
    # what happens outside the subspace does not matter
    outside = np.eye(6) - 2 * np.outer(H[:, -1], H[:, -1])
    if r < 6:
        assert agreement(R1, outside @ R2, V) == pytest.approx(value)


def test_rows_of_one_group_stay_in_one_half():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((100, 5))
    Q = haar(rng, 5, 2)
    groups = np.repeat([7, 3], 50)
    Y = np.vstack([X[:50] @ Q[0], X[50:] @ Q[1]])
    found = split_half(X, Y, rng, groups=groups)
    assert found.everywhere == pytest.approx(np.trace(Q[0] @ Q[1].T) / 5, abs=1e-9)
    mixed = split_half(X, Y, rng)
    assert mixed.everywhere != pytest.approx(found.everywhere, abs=1e-3)


def test_a_proper_split_compares_proper_rotations():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((4000, 4)) * np.array([4, 3, 2, 1])
    Y = X * np.array([1, 1, 1, -1])  # a reflection: in SO(4) the weakest axis must give way
    assert split_half(X, Y, rng).everywhere == pytest.approx(1)
    found = split_half(X, Y, rng, proper=True)
    assert found.everywhere == pytest.approx(1, abs=1e-2)
    assert abs(found.everywhere - 1) > 1e-12  # two halves' weakest axes differ a little


def test_halves_that_cannot_be_made_are_refused(unchecked):
    rng = np.random.default_rng(6)
    X = rng.standard_normal((6, 2))
    with pytest.raises(ValueError, match="6 rows in 1 groups"):
        split_half(X, X, rng, groups=np.zeros(6))
    with pytest.raises(ValueError, match=r"one label a row, \(6,\); got shape \(5,\)"):
        split_half(X, X, rng, groups=np.zeros(5))
    with pytest.raises(ValueError, match="two rows or more"):
        split_half(X[:3], X[:3], rng)


# --- geodesics


@given(seed=seeds, d=st.integers(2, 9), t=st.floats(0, 1))
@quick
def test_every_point_of_a_geodesic_is_a_rotation(seed, d, t):
    R = haar(np.random.default_rng(seed), d, 1, "SO")[0]
    G = geodesic(R, t)
    np.testing.assert_allclose(G @ G.T, np.eye(d), atol=1e-10)
    assert np.linalg.det(G) == pytest.approx(1)


@given(seed=seeds, d=st.integers(2, 9))
@quick
def test_a_geodesic_begins_at_the_identity_and_ends_at_its_rotation(seed, d):
    R = haar(np.random.default_rng(seed), d, 1, "SO")[0]
    np.testing.assert_allclose(geodesic(R, 0), np.eye(d), atol=1e-12)
    np.testing.assert_allclose(geodesic(R, 1), R, atol=1e-10)


@given(seed=seeds, d=st.integers(2, 8), s=st.floats(0, 1), t=st.floats(0, 1))
@quick
def test_steps_along_a_geodesic_add_up(seed, d, s, t):
    R = haar(np.random.default_rng(seed), d, 1, "SO")[0]
    np.testing.assert_allclose(geodesic(R, s) @ geodesic(R, t), geodesic(R, s + t), atol=1e-9)


def test_planted_planes_turn_by_a_fraction_of_their_angles():
    H = haar(np.random.default_rng(0), 6, 1)[0]
    angles = (0.3, -2.5)
    R = H @ block_diag(turn(angles[0]), turn(angles[1]), np.eye(2)) @ H.T
    third = H @ block_diag(turn(angles[0] / 3), turn(angles[1] / 3), np.eye(2)) @ H.T
    np.testing.assert_allclose(geodesic(R, 1 / 3), third, atol=1e-10)


def test_half_turns_are_split_too():
    H = haar(np.random.default_rng(1), 5, 1)[0]
    R = H @ np.diag([1.0, -1, -1, -1, -1]) @ H.T
    half = geodesic(R, 0.5)
    np.testing.assert_allclose(half @ half, R, atol=1e-10)
    np.testing.assert_allclose(half @ half.T, np.eye(5), atol=1e-10)
    assert np.trace(half) == pytest.approx(1)  # two quarter turns have no trace


def test_angles_near_zero_and_near_a_half_turn_are_kept():
    H = haar(np.random.default_rng(2), 4, 1)[0]
    R = H @ block_diag(turn(1e-6), turn(np.pi - 1e-6)) @ H.T
    wanted = H @ block_diag(turn(5e-7), turn(np.pi / 2 - 5e-7)) @ H.T
    np.testing.assert_allclose(geodesic(R, 0.5), wanted, atol=1e-9)


def test_a_geodesic_is_the_exponential_of_a_part_of_the_logarithm():
    R = haar(np.random.default_rng(3), 7, 1, "SO")[0]
    np.testing.assert_allclose(geodesic(R, 0.3), expm(0.3 * logm(R).real), atol=1e-8)


def test_several_points_share_one_call():
    R = haar(np.random.default_rng(4), 5, 1, "SO")[0]
    ts = np.linspace(0, 1, 4)
    together = geodesic(R, ts)
    assert together.shape == (4, 5, 5)
    np.testing.assert_allclose(together, np.stack([geodesic(R, float(t)) for t in ts]))


def test_the_straight_line_is_not_a_geodesic():
    R = haar(np.random.default_rng(5), 5, 1, "SO")[0]
    line = 0.5 * np.eye(5) + 0.5 * R
    assert np.abs(line @ line.T - np.eye(5)).max() > 0.1


def test_a_reflection_has_no_geodesic_and_the_error_says_what_to_do(unchecked):
    rng = np.random.default_rng(6)
    with pytest.raises(ValueError, match="proper=True"):
        geodesic(haar(rng, 4, 1, "O-")[0], 0.5)
    with pytest.raises(ValueError, match="not orthogonal"):
        geodesic(np.full((3, 3), 0.5), 0.5)
    with pytest.raises(ValueError, match="finite number"):
        geodesic(np.eye(3), np.nan)


# --- CKA


def plain_hsic(X, Y):
    """Song et al.'s equation, from N × N kernel matrices."""
    N = len(X)
    K, L = X @ X.T, Y @ Y.T
    np.fill_diagonal(K, 0)
    np.fill_diagonal(L, 0)
    one = np.ones(N)
    cross = (one @ K @ one) * (one @ L @ one) / ((N - 1) * (N - 2))
    return (np.trace(K @ L) + cross - 2 / (N - 2) * (one @ K @ L @ one)) / (N * (N - 3))


@given(seed=seeds, N=st.integers(4, 20), d=st.integers(1, 7), e=st.integers(1, 7))
@quick
def test_the_short_formula_is_the_plain_one(seed, N, d, e):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((N, d)) + 1, rng.standard_normal((N, e)) - 2
    assert unbiased_hsic(X, Y) == pytest.approx(plain_hsic(X, Y), rel=1e-7, abs=1e-9)


def test_hsic_is_unbiased():
    rng = np.random.default_rng(0)
    A = np.array([[1.0, 0.0], [0.5, 0.2]])
    draws = []
    for _ in range(1000):
        X = rng.standard_normal((6, 2))
        draws.append(unbiased_hsic(X, X @ A + rng.standard_normal((6, 2))))
    # cov(X, Y) = A for white X
    assert abs(np.mean(draws) - np.sum(A**2)) < 5 * np.std(draws) / np.sqrt(len(draws))


@given(seed=seeds, scale=st.floats(0.01, 100))
@quick
def test_cka_sees_no_rotation_no_scale_and_no_shift(seed, scale):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((40, 5)), rng.standard_normal((40, 3))
    Y[:, 0] += X[:, 0]
    turned = scale * X @ haar(rng, 5, 1)[0] + rng.normal(size=5)
    assert linear_cka(turned, Y) == pytest.approx(linear_cka(X, Y), rel=1e-7)
    assert linear_cka(turned, X) == pytest.approx(1)


def test_cka_of_a_shared_part_has_its_value():
    rng = np.random.default_rng(1)
    shared, *own = rng.standard_normal((3, 20000, 2))
    X, Y = (np.hstack([shared, part]) for part in own)
    # HSIC(X, Y) = ‖I₂‖² = 2, HSIC(X, X) = ‖I₄‖² = 4
    assert linear_cka(X, Y) == pytest.approx(0.5, abs=0.02)


def test_unrelated_activations_score_zero_where_the_biased_estimate_scores_a_half():
    rng = np.random.default_rng(2)
    X, Y = rng.standard_normal((2, 200, 200))
    assert abs(linear_cka(X, Y)) < 0.02

    def biased(A, B):
        return np.sum(((A - A.mean(0)).T @ (B - B.mean(0))) ** 2)

    assert biased(X, Y) / np.sqrt(biased(X, X) * biased(Y, Y)) > 0.45


def test_cka_of_too_few_or_unpaired_rows_is_refused(unchecked):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((5, 2))
    with pytest.raises(ValueError, match="4 or more; got 3 and 3"):
        linear_cka(X[:3], X[:3])
    with pytest.raises(ValueError, match="got 5 and 4 rows"):
        unbiased_hsic(X, X[:4])
