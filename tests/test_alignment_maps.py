"""Maps between models against planted rotations, planted affine maps, and expectations of nulls."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm, orthogonal_procrustes
from sklearn.linear_model import Ridge

from helpers.alignment.baselines import haar_map, identity_map, principal_axes_map
from helpers.alignment.haar import haar
from helpers.alignment.maps import Alignment, fit_active_rotation, fit_affine, fit_rotation
from helpers.alignment.principal import active_subspace, principal_axes
from helpers.alignment.variance import explained_variance
from helpers.comparison import principal_angles

quick = settings(max_examples=30, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)
sizes = st.integers(2, 9)


def activations(rng, N=300, d=8, decay=0.7):
    """Activations with a decaying spectrum in a random basis, away from the origin."""
    return rng.standard_normal((N, d)) * decay ** np.arange(d) @ haar(rng, d, 1)[0] + rng.normal(
        size=d
    )


def error(alignment, X, Y):
    return np.sum((alignment.apply(X) - Y) ** 2)


@given(seed=seeds, d=sizes)
@quick
def test_a_planted_rotation_is_recovered(seed, d):
    rng = np.random.default_rng(seed)
    X, Q, shift = activations(rng, d=d), haar(rng, d, 1)[0], rng.normal(size=d)
    Y = X @ Q + shift
    found = fit_rotation(X, Y)
    np.testing.assert_allclose(found.R, Q, atol=1e-10)
    np.testing.assert_allclose(found.apply(X), Y, atol=1e-10)
    np.testing.assert_allclose(found.mean_y, found.mean_x @ Q + shift, atol=1e-10)


def test_the_fit_is_scipys():
    rng = np.random.default_rng(15)
    X, Y = activations(rng), activations(rng)
    reference, _ = orthogonal_procrustes(X - X.mean(axis=0), Y - Y.mean(axis=0))
    np.testing.assert_allclose(fit_rotation(X, Y).R, reference, atol=1e-10)


@given(seed=seeds, d=st.integers(3, 9), proper=st.booleans())
@quick
def test_what_the_data_leave_open_is_drawn_and_the_rest_stays(seed, d, proper):
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((50, d - 2))
    A, B = haar(rng, d, 2)
    X, Y = shared @ A[:-2], shared @ B[:-2]
    one, two = (fit_rotation(X, Y, proper=proper, generator=rng) for _ in range(2))
    for found in (one, two):
        np.testing.assert_allclose(A[:-2] @ found.R, B[:-2], atol=1e-9)
        np.testing.assert_allclose(found.R @ found.R.T, np.eye(d), atol=1e-10)
        assert not proper or np.linalg.det(found.R) == pytest.approx(1)
    assert np.abs(one.R - two.R).max() > 1e-6
    full = rng.standard_normal((50, d))
    drawn = fit_rotation(full, full @ B, generator=rng)
    np.testing.assert_allclose(drawn.R, B, atol=1e-9)


@given(seed=seeds, d=sizes, proper=st.booleans())
@quick
def test_no_nearby_rotation_fits_better(seed, d, proper):
    rng = np.random.default_rng(seed)
    X, Y = activations(rng, d=d), activations(rng, d=d)
    found = fit_rotation(X, Y, proper=proper)
    G = rng.standard_normal((d, d))
    for step in (1e-3, 0.1, 1.0):
        nearby = Alignment(found.R @ expm(step * (G - G.T)), found.mean_x, found.mean_y)
        assert error(nearby, X, Y) >= error(found, X, Y) - 1e-9


@given(seed=seeds, d=sizes)
@quick
def test_the_best_proper_rotation_gives_up_only_the_weakest_axis(seed, d):
    rng = np.random.default_rng(seed)
    X = activations(rng, d=d)
    Y = X @ haar(rng, d, 1, "O-")[0]
    proper = fit_rotation(X, Y, proper=True)
    assert np.linalg.det(proper.R) == pytest.approx(1)
    assert np.linalg.det(fit_rotation(X, Y).R) == pytest.approx(-1)
    # reflecting one axis of variance s² leaves an error of (2s)² a row
    weakest = principal_axes(X)[1][-1]
    assert error(proper, X, Y) == pytest.approx(4 * weakest * len(X))


def test_a_proper_fit_leaves_a_planted_proper_rotation_alone():
    rng = np.random.default_rng(0)
    X, Q = activations(rng), haar(rng, 8, 1, "SO")[0]
    np.testing.assert_allclose(fit_rotation(X, X @ Q, proper=True).R, Q, atol=1e-10)


def test_a_fit_on_one_batch_explains_all_but_the_noise_of_another():
    rng = np.random.default_rng(1)
    X, Q = activations(rng, N=4000), haar(rng, 8, 1)[0]
    noise = 0.3 * rng.standard_normal(X.shape)
    Y = X @ Q + noise
    found = fit_rotation(X[:2000], Y[:2000])
    wanted = 1 - noise[2000:].var(axis=0).sum() / Y[2000:].var(axis=0).sum()
    assert explained_variance(Y[2000:], found.apply(X[2000:])) == pytest.approx(wanted, abs=0.01)
    # rows that are not paired, fitted the same way, explain nothing
    wrong = fit_rotation(X[:2000], Y[rng.permutation(2000)])
    assert explained_variance(Y[2000:], wrong.apply(X[2000:])) < 0


def test_a_haar_map_explains_minus_the_ratio_of_variances_on_average():
    rng = np.random.default_rng(2)
    X = activations(rng)
    Y = 2 * X @ haar(rng, 8, 1)[0]
    scores = [explained_variance(Y, haar_map(X, Y, rng).apply(X)) for _ in range(400)]
    # E‖y − xR‖² = ‖y‖² + ‖x‖², since the mean of R is zero; twice the size is 4 × the variance
    assert abs(np.mean(scores) + 1 / 4) < 5 * np.std(scores) / np.sqrt(len(scores))


def test_principal_axes_with_random_signs_explain_minus_one_on_average():
    rng = np.random.default_rng(3)
    X = activations(rng)
    Y = X @ haar(rng, 8, 1)[0]
    shares = principal_axes(X)[1] / principal_axes(X)[1].sum()
    scores = [explained_variance(Y, principal_axes_map(X, Y, rng).apply(X)) for _ in range(400)]
    # EV = −1 + 2 Σ sign · share: the axes are right, so only the signs are left to chance
    assert np.std(scores) == pytest.approx(2 * np.sqrt(np.sum(shares**2)), rel=0.15)
    assert abs(np.mean(scores) + 1) < 5 * np.std(scores) / np.sqrt(len(scores))


def test_principal_axes_do_not_use_the_pairing_and_a_fitted_rotation_does():
    rng = np.random.default_rng(4)
    X = activations(rng)
    Y = X @ haar(rng, 8, 1)[0]
    shuffled = Y[rng.permutation(len(Y))]
    one = principal_axes_map(X, Y, np.random.default_rng(0)).R
    two = principal_axes_map(X, shuffled, np.random.default_rng(0)).R
    # the last bits of the sum may turn an axis round, which another draw of signs does as well
    V_x, V_y = principal_axes(X)[0], principal_axes(Y)[0]
    np.testing.assert_allclose(np.abs(V_x.T @ one @ V_y), np.eye(8), atol=1e-6)
    np.testing.assert_allclose(np.abs(V_x.T @ two @ V_y), np.eye(8), atol=1e-6)
    assert np.abs(fit_rotation(X, Y).R - fit_rotation(X, shuffled).R).max() > 0.1


def test_the_naive_map_returns_its_input_and_the_centred_one_moves_the_mean():
    rng = np.random.default_rng(5)
    X, Y = activations(rng), activations(rng)
    np.testing.assert_array_equal(identity_map(X, Y).apply(X), X)
    moved = identity_map(X, Y, centred=True).apply(X)
    np.testing.assert_allclose(moved - X, np.broadcast_to(Y.mean(0) - X.mean(0), X.shape))


@given(seed=seeds, d=sizes)
@quick
def test_a_planted_affine_map_is_recovered(seed, d):
    rng = np.random.default_rng(seed)
    X, A = activations(rng, d=d), rng.standard_normal((d, d))
    Y = X @ A + rng.normal(size=d)
    found = fit_affine(X, Y)
    np.testing.assert_allclose(found.R, A, atol=1e-8)
    np.testing.assert_allclose(found.apply(X), Y, atol=1e-8)


@given(seed=seeds, d=sizes)
@quick
def test_on_its_own_batch_the_affine_map_is_an_upper_bound(seed, d):
    rng = np.random.default_rng(seed)
    X = activations(rng, d=d)
    Y = X @ rng.standard_normal((d, d)) + 0.2 * rng.standard_normal(X.shape)
    bound = explained_variance(Y, fit_affine(X, Y).apply(X))
    for other in (fit_rotation(X, Y), haar_map(X, Y, rng), fit_affine(X, Y, ridge=0.1)):
        assert explained_variance(Y, other.apply(X)) <= bound + 1e-12


def test_the_ridge_is_scikit_learns():
    rng = np.random.default_rng(6)
    X, Y = activations(rng), activations(rng)
    mean_variance = X.var(axis=0).mean()
    reference = Ridge(alpha=0.05 * len(X) * mean_variance).fit(X, Y)
    found = fit_affine(X, Y, ridge=0.05)
    np.testing.assert_allclose(found.R, reference.coef_.T, atol=1e-10)
    np.testing.assert_allclose(found.apply(X), reference.predict(X), atol=1e-10)


def test_an_affine_fit_without_enough_rows_asks_for_more_or_for_a_ridge():
    rng = np.random.default_rng(7)
    X, Y = rng.standard_normal((2, 8, 8))
    with pytest.raises(ValueError, match="fits any 8 rows perfectly"):
        fit_affine(X, Y)
    assert np.isfinite(fit_affine(X, Y, ridge=0.1).R).all()
    with pytest.raises(ValueError, match="at least 0; got -1"):
        fit_affine(np.vstack([X, Y]), np.vstack([Y, X]), ridge=-1.0)


def low_rank(rng, N=400, d=10, r=3):
    """Activations of r loud dimensions among d, the rest a millionth as loud and unrelated."""
    loud = rng.standard_normal((N, r)) * (3.0 - np.arange(r) / 2)
    Q1, Q2 = haar(rng, d, 2)
    quiet = 1e-6 * rng.standard_normal((2, N, d))
    return loud @ Q1[:r] + quiet[0], loud @ Q2[:r] + quiet[1], Q1[:r], Q2[:r]


def test_the_active_subspace_is_the_planted_one():
    X, _, V, _ = low_rank(np.random.default_rng(8))
    found = active_subspace(X, 0.999)
    assert found.shape == (10, 3)
    assert principal_angles(found, V.T).max() < 1e-3


def test_principal_axes_carry_their_variances():
    X = activations(np.random.default_rng(9))
    axes, variances = principal_axes(X)
    np.testing.assert_allclose(axes.T @ axes, np.eye(8), atol=1e-12)
    np.testing.assert_allclose(((X - X.mean(0)) @ axes).var(axis=0), variances)
    assert (np.diff(variances) <= 0).all()


def test_an_active_rotation_is_planted_inside_and_random_outside():
    rng = np.random.default_rng(10)
    X, Y, V_x, V_y = low_rank(rng)
    (one, r), (two, _) = (fit_active_rotation(X, Y, rng, keep=0.9999) for _ in range(2))
    assert r == 3
    for found in (one, two):
        np.testing.assert_allclose(found.R @ found.R.T, np.eye(10), atol=1e-12)
        np.testing.assert_allclose(V_x @ found.R, V_y, atol=1e-4)
        assert explained_variance(Y, found.apply(X)) > 1 - 1e-9
    outside = np.eye(10) - V_x.T @ V_x
    assert np.linalg.norm(outside @ (one.R - two.R)) > 1


@pytest.mark.parametrize("keep", [1.0, 0.97])
def test_an_active_rotation_may_leave_out_nothing_or_one_dimension(keep):
    rng = np.random.default_rng(11)
    X = rng.standard_normal((500, 3)) * np.array([3.0, 2.0, 0.3])
    Y = X @ haar(rng, 3, 1)[0]
    found, r = fit_active_rotation(X, Y, rng, keep=keep)
    assert r == (3 if keep == 1 else 2)
    np.testing.assert_allclose(found.R @ found.R.T, np.eye(3), atol=1e-12)
    assert explained_variance(Y, found.apply(X)) > 0.96


@given(seed=seeds, d=sizes)
@quick
def test_the_way_back_returns_every_activation(seed, d):
    rng = np.random.default_rng(seed)
    X, Y = activations(rng, d=d), activations(rng, d=d)
    there = fit_rotation(X, Y)
    np.testing.assert_allclose(there.inverse().apply(there.apply(X)), X, atol=1e-10)
    np.testing.assert_allclose(there.inverse().R, fit_rotation(Y, X).R, atol=1e-7)


def test_directions_map_as_differences_of_activations():
    rng = np.random.default_rng(12)
    X, Y = activations(rng), activations(rng)
    found = fit_rotation(X, Y)
    differences = found.apply(X[1:]) - found.apply(X[:-1])
    np.testing.assert_allclose(found.direction(X[1:] - X[:-1]), differences, atol=1e-12)


def test_an_affine_map_has_no_way_back():
    rng = np.random.default_rng(13)
    X, Y = activations(rng), activations(rng)
    with pytest.raises(ValueError, match="not orthogonal"):
        fit_affine(X, Y).inverse()


def test_inputs_that_do_not_pair_are_named(unchecked):
    rng = np.random.default_rng(14)
    X = activations(rng)
    for fit in (fit_rotation, fit_affine, identity_map):
        with pytest.raises(ValueError, match="same inputs, row for row; got 300 and 299 rows"):
            fit(X, X[:-1])
        with pytest.raises(ValueError, match="one width; got 8 and 7 columns"):
            fit(X, X[:, :-1])
    with pytest.raises(ValueError, match="NaN or infinity, first in row 3"):
        fit_rotation(np.where(np.arange(300)[:, None] == 3, np.nan, X), X)


def test_an_alignment_of_parts_that_do_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"R must be \(d, d\)"):
        Alignment(np.eye(3), np.zeros(2), np.zeros(3))
    with pytest.raises(ValueError, match="NaN"):
        Alignment(np.full((3, 3), np.nan), np.zeros(3), np.zeros(3))
