"""Axes against planted directions, closed forms and automatic differentiation."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.axes import (
    Axis,
    mean_difference,
    mean_gradient,
    oriented,
    principal_axis,
    random_axes,
    unit,
)
from helpers.interventions import project
from helpers.probe import probe_axis
from helpers.unembedding_axis import fixed_direction, norm_gradients

quick = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)


def classes(seed, n=400, D=6, gap=3.0):
    """Rows of two numbers in coloured noise, apart along a planted unit vector."""
    rng = np.random.default_rng(seed)
    v = unit(rng.standard_normal(D))
    number = np.tile([0, 1], n // 2)
    noise = rng.standard_normal((n, D)) @ np.diag(np.linspace(0.3, 2, D))
    return rng.standard_normal(D) + noise + gap * np.outer(number - 0.5, v), number, v


@given(seed=seeds)
@quick
def test_an_axis_along_a_unit_vector_intervenes_as_project_does(seed):
    H, _, v = classes(seed, n=20)
    axis = Axis.along(3 * v, H.mean(axis=0))
    for mode in ("keep", "remove", "flip"):
        np.testing.assert_allclose(
            axis.apply(H, mode), project(H, v[:, None], H.mean(axis=0), mode), atol=1e-12
        )


@given(seed=seeds)
@quick
def test_an_oblique_axis_removes_once_and_flips_back(seed):
    rng = np.random.default_rng(seed)
    read, write = rng.standard_normal((2, 5)) + 1
    axis = Axis(read / (read @ write), write, rng.standard_normal(5))
    H = rng.standard_normal((7, 5))
    removed, flipped = axis.apply(H, "remove"), axis.apply(H, "flip")
    np.testing.assert_allclose(axis.coordinates(removed), 0, atol=1e-8)
    np.testing.assert_allclose(axis.coordinates(flipped), -axis.coordinates(H), atol=1e-8)
    np.testing.assert_allclose(axis.apply(removed, "remove"), removed, atol=1e-8)
    np.testing.assert_allclose(axis.apply(flipped, "flip"), H, atol=1e-8)


def test_an_axis_that_is_no_projection_is_refused():
    with pytest.raises(ValueError, match=r"read · write must be 1, it is 0\.5"):
        Axis(np.array([0.5, 0]), np.array([1.0, 0]), np.zeros(2))


def test_parts_of_different_layers_are_refused():
    with pytest.raises(ValueError, match=r"must all be \(D,\)"):
        Axis(np.array([1.0, 0]), np.array([1.0, 0]), np.zeros(3))


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="'keep', 'remove' or 'flip'; got 'ablate'"):
        Axis.along(np.ones(2), np.zeros(2)).apply(np.ones((3, 2)), "ablate")


@pytest.mark.parametrize("v", [np.zeros(3), np.array([1.0, np.nan, 0])])
def test_a_direction_without_length_is_refused(v):
    with pytest.raises(ValueError, match="finite length above 0"):
        unit(v)


def test_directions_keep_their_length_at_the_edges_of_float64():
    for size in (1e-200, 1e200):
        assert np.linalg.norm(unit(size * np.array([3.0, 4.0]))) == pytest.approx(1)


def test_mean_difference_finds_the_planted_direction_and_points_to_plural():
    H, number, v = classes(0, n=40_000)
    assert mean_difference(H, number) @ v > 0.999
    assert mean_difference(H, 1 - number) @ v < -0.999


def test_an_oriented_axis_gives_plural_the_larger_coordinate():
    H, number, v = classes(1)
    np.testing.assert_array_equal(oriented(v, H, number), v)
    np.testing.assert_array_equal(oriented(-v, H, number), v)


@pytest.mark.parametrize(
    "number, message", [([0, 0, 0], "every row has number 0"), ([0, 1, 2], "must hold 0")]
)
def test_a_column_of_one_number_or_of_none_is_refused(number, message):
    with pytest.raises(ValueError, match=message):
        mean_difference(np.eye(3), np.array(number))


def test_principal_axes_are_those_of_the_planted_covariance():
    rng = np.random.default_rng(0)
    frame = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    X = rng.standard_normal((60, 5))
    X = np.linalg.qr(X - X.mean(axis=0))[0]
    H = X * np.array([5, 4, 3, 2, 1.0]) @ frame.T + 7
    for k in range(5):
        assert abs(principal_axis(H, k) @ frame[:, k]) == pytest.approx(1)
    with pytest.raises(ValueError, match="component 5 is not among the 5"):
        principal_axis(H, 5)


def test_mean_gradient_is_the_mean_not_the_first():
    J = np.array([[2.0, 0.0], [0.0, 2.0]])
    np.testing.assert_allclose(mean_gradient(J), np.sqrt([0.5, 0.5]))


@given(seed=seeds, share=st.floats(0.02, 0.98), spread=st.floats(0.1, 6), n=st.integers(4, 40))
@quick
def test_random_axes_are_unit_and_have_exactly_the_variance_asked_for(seed, share, spread, n):
    rng = np.random.default_rng(seed)
    H = rng.standard_normal((n, 12)) * np.exp(rng.uniform(-spread, spread, 12))
    values = np.linalg.eigvalsh(np.cov(H, rowvar=False))
    values = values[values > values[-1] * 1e-12]
    target = values[0] * (values[-1] / values[0]) ** share
    for u in random_axes(H, float(target), 5, rng):
        assert np.linalg.norm(u) == pytest.approx(1)
        assert (H @ u).var(ddof=1) == pytest.approx(target, rel=1e-6)


def test_at_the_mean_variance_of_nearly_white_activations_random_axes_are_nearly_haar():
    """Σ u⁴ of a Haar draw is 3/(D + 2); the one condition on the variance moves it a little."""
    rng = np.random.default_rng(0)
    D = 8
    X = np.linalg.qr(rng.standard_normal((200, D)))[0]
    X = np.linalg.qr(X - X.mean(axis=0))[0] * np.sqrt(199)
    H = X * np.linspace(0.999, 1.001, D)
    U = random_axes(H, float((np.linspace(0.999, 1.001, D) ** 2).mean()), 2000, rng)
    np.testing.assert_allclose(U.mean(axis=0), 0, atol=0.04)
    assert (U**4).sum(axis=1).mean() == pytest.approx(3 / (D + 2), rel=0.15)


def test_random_axes_do_not_find_the_planted_direction():
    H, _, v = classes(2, D=40)
    variance = float((H @ v).var(ddof=1))
    assert np.abs(random_axes(H, variance, 50, np.random.default_rng(0)) @ v).mean() < 0.4


def test_a_variance_that_no_direction_has_is_refused():
    H, _, _ = classes(0)
    with pytest.raises(ValueError, match="no random direction has variance 1e\\+04"):
        random_axes(H, 1e4, 1, np.random.default_rng(0))


def test_the_probe_finds_the_optimal_reading_direction():
    """For Gaussian classes of one covariance it is Σ⁻¹(μ₁ − μ₀), not the mean difference."""
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((4, 4)) + 2 * np.eye(4)
    gap = rng.standard_normal(4)
    number = np.tile([0, 1], 5000)
    H = rng.standard_normal((10_000, 4)) @ mixing + np.outer(number, gap)
    best = unit(np.linalg.solve(mixing.T @ mixing, gap))
    found, _ = probe_axis(H[:5000], number[:5000], H[5000:], number[5000:])
    assert found @ best > 0.99
    assert found @ best > mean_difference(H, number) @ best + 0.05


def test_the_probe_takes_a_stronger_penalty_where_rows_are_few():
    H, number, _ = classes(0, n=60, D=50, gap=1.0)
    held_out, number_held_out, _ = classes(0, n=60, D=50, gap=1.0)
    rng = np.random.default_rng(1)
    noisy = held_out + 3 * rng.standard_normal(held_out.shape)
    _, chosen = probe_axis(H, number, noisy, number_held_out, (1e-4, 1e4))
    assert chosen == 1e-4


def test_a_probe_between_two_layers_is_refused(unchecked):
    H, number, _ = classes(0)
    with pytest.raises(ValueError, match="take both from one layer"):
        probe_axis(H, number, H[:, :3], number)


@pytest.mark.parametrize("centred", [False, True])
def test_norm_gradients_are_those_of_automatic_differentiation(centred):
    rng = np.random.default_rng(0)
    H, gamma, delta = rng.standard_normal((5, 7)) + 1, rng.uniform(0.5, 2, 7), rng.normal(size=7)
    h = torch.tensor(H, requires_grad=True)
    if centred:
        out = torch.nn.functional.layer_norm(h, (7,), torch.tensor(gamma), eps=1e-3)
    else:
        out = torch.nn.functional.rms_norm(h, (7,), torch.tensor(gamma), eps=1e-3)
    (out @ torch.tensor(delta)).sum().backward()
    found = norm_gradients(H, gamma, delta, eps=1e-3, centred=centred)
    np.testing.assert_allclose(found, h.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize("centred", [False, True])
def test_the_fixed_direction_is_the_gradient_with_the_scale_held(centred):
    """At right angles to it a step along it leaves the scale alone: both forms agree there."""
    rng = np.random.default_rng(1)
    D = 5
    gamma, delta = rng.uniform(0.5, 2, D), rng.normal(size=D)
    fixed = fixed_direction(gamma, delta, centred=centred)
    h = rng.standard_normal(D)
    h -= h.mean()
    h -= fixed * (fixed @ h)
    exact = norm_gradients(h[None], gamma, delta, eps=0.0, centred=centred)[0]
    np.testing.assert_allclose(unit(exact), fixed, atol=1e-12)
    assert (abs(fixed.sum()) < 1e-12) == centred


def test_a_norm_of_zeros_is_refused():
    with pytest.raises(ValueError, match="final norm is undefined"):
        norm_gradients(np.zeros((1, 3)), np.ones(3), np.ones(3), eps=0.0, centred=False)
