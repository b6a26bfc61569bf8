"""LEACE against its defining properties: nothing linear is left, and no eraser changes less."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from helpers.axes import mean_difference
from helpers.leace import leace

quick = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)


def coloured(seed, n=300, D=6):
    """Unbalanced classes in noise whose axes are neither alike nor at right angles."""
    rng = np.random.default_rng(seed)
    number = (rng.random(n) < 0.4).astype(int)
    number[:2] = 0, 1
    noise = rng.standard_normal((n, D)) @ (rng.standard_normal((D, D)) + np.eye(D))
    return noise + np.outer(number, rng.standard_normal(D)) + 3, number


@given(seed=seeds)
@quick
def test_it_is_the_formula_of_the_paper(seed):
    H, number = coloured(seed)
    X, z = H - H.mean(axis=0), number - number.mean()
    W = scipy.linalg.fractional_matrix_power(X.T @ X / len(H), -0.5).real
    a = W @ (X.T @ z / len(H))
    P = np.outer(a, a) / (a @ a)
    expected = H - X @ (np.linalg.pinv(W) @ P @ W).T
    np.testing.assert_allclose(leace(H, number).apply(H, "remove"), expected, atol=1e-7)


@given(seed=seeds, shrinkage=st.sampled_from([0.0, 0.3]))
@quick
def test_class_means_are_equal_afterwards(seed, shrinkage):
    H, number = coloured(seed)
    erased = leace(H, number, shrinkage).apply(H, "remove")
    gap = erased[number == 1].mean(axis=0) - erased[number == 0].mean(axis=0)
    np.testing.assert_allclose(gap, 0, atol=1e-9)


def test_no_linear_classifier_beats_the_constant_one_afterwards():
    H, number = coloured(0)
    erased = leace(H, number).apply(H, "remove")
    before = LogisticRegression(C=1e6, max_iter=5000).fit(H, number)
    erased -= erased.mean(axis=0)  # the solver then starts where it ends, but for the intercept
    after = LogisticRegression(C=1e6, max_iter=5000, tol=1e-10).fit(erased, number)
    constant = max(number.mean(), 1 - number.mean())
    assert before.score(H, number) > constant + 0.05
    assert np.abs(after.coef_).max() < 1e-4
    assert after.score(erased, number) == pytest.approx(constant)


def test_removing_the_mean_difference_at_right_angles_also_equalises_means_but_changes_more():
    """The change is least in the norm of Σ⁻¹, among all affine erasers; this one is a rival."""
    H, number = coloured(1)
    X = H - H.mean(axis=0)
    inverse = np.linalg.inv(X.T @ X / len(H))

    def cost(change):
        return np.einsum("nd,de,ne->n", change, inverse, change).mean()

    axis, u = leace(H, number), mean_difference(H, number)
    least = cost(axis.apply(H, "remove") - H)
    assert least < cost(-np.outer(X @ u, u)) - 1e-3
    rng = np.random.default_rng(0)
    for _ in range(50):  # any other reading vector with read · write = 1 erases, at a higher price
        sideways = rng.standard_normal(len(u))
        sideways -= axis.write * (axis.write @ sideways)
        other = axis.read + 0.1 * sideways
        changed = -np.outer(X @ other, axis.write)
        gap = (H + changed)[number == 1].mean(axis=0) - (H + changed)[number == 0].mean(axis=0)
        np.testing.assert_allclose(gap, 0, atol=1e-9)
        assert cost(changed) > least


def test_it_is_oblique_and_writes_along_the_mean_difference():
    H, number = coloured(2)
    axis = leace(H, number)
    np.testing.assert_allclose(axis.write, mean_difference(H, number), atol=1e-12)
    assert abs(axis.read @ axis.write) / np.linalg.norm(axis.read) < 0.99


def test_activations_of_low_rank_are_erased_too():
    H, number = coloured(3, D=4)
    H = H @ np.random.default_rng(0).standard_normal((4, 9))
    erased = leace(H, number).apply(H, "remove")
    gap = erased[number == 1].mean(axis=0) - erased[number == 0].mean(axis=0)
    np.testing.assert_allclose(gap, 0, atol=1e-8)


def test_shrinkage_leans_the_reading_towards_the_mean_difference():
    H, number = coloured(4)
    u = mean_difference(H, number)

    def cosine(s):
        read = leace(H, number, s).read
        return read @ u / np.linalg.norm(read)

    assert cosine(0.0) < cosine(0.5) < cosine(0.99)


def test_equal_means_leave_nothing_to_erase():
    H = np.array([[1.0, 0], [-1, 0], [0, 1.0], [0, -1]])
    with pytest.raises(ValueError, match="nothing to erase"):
        leace(H, np.array([0, 0, 1, 1]))


def test_a_shrinkage_of_one_is_refused():
    with pytest.raises(ValueError, match="shrinkage is a share"):
        leace(*coloured(0), 1.0)
