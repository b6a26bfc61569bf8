"""Effects that theory knows: linear models, polynomial losses, completeness, order."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.attribution import (
    ADAPTIVE,
    RULES,
    Attribution,
    attribution_patching,
    component_means,
    find_components,
    integrated_gradients,
    mean_ablation,
    order,
    quadrature,
)
from helpers.attribution.interpolate import run
from helpers.attribution.quadrature import adaptive
from tests.hooked_toy import Toy, toy_objective

KINDS = ("head", "mlp", "block")
GAUSS = "gauss-legendre"


def compared(model, objective, **how):
    components = find_components(model, KINDS)
    measured = mean_ablation(model, objective, components)
    if how:
        predicted = integrated_gradients(model, objective, components, **how)
    else:
        predicted = attribution_patching(model, objective, components)
    return Attribution("", predicted, measured)


def test_for_a_linear_model_and_loss_every_method_is_exact():
    model, objective = Toy(), toy_objective()
    found = [compared(model, objective)]
    found += [compared(model, objective, rule=rule, points=1) for rule in RULES]
    found.append(compared(model, objective, rule=ADAPTIVE, points=2))
    # a mean's effect through linear maps is 0 over all rows of a layer's own positions, not by row
    assert np.abs(found[0].measurements.rows).max(axis=0).min() > 1e-3
    for attribution in found:
        np.testing.assert_allclose(
            attribution.predictions.rows, attribution.measurements.rows, atol=1e-12
        )
        assert attribution.r == pytest.approx(1)
        assert attribution.relative_error < 1e-10


def test_for_a_quadratic_loss_one_midpoint_is_exact_and_the_gradient_is_not():
    model, objective = Toy(), toy_objective(lambda y: y**2)
    assert compared(model, objective, rule="midpoint", points=1).completeness.max() < 1e-10
    assert compared(model, objective, rule=ADAPTIVE, points=2).completeness.max() < 1e-10
    assert compared(model, objective).completeness.min() > 1e-3
    assert compared(model, objective, rule="endpoint", points=1).completeness.min() > 1e-3


@pytest.mark.parametrize("n", [1, 2, 3])
def test_gauss_legendre_with_n_points_is_exact_for_losses_of_degree_2n(n):
    exact = compared(Toy(), toy_objective(lambda y: y ** (2 * n)), rule=GAUSS, points=n)
    assert exact.completeness.max() < 1e-9
    beyond = compared(Toy(), toy_objective(lambda y: y ** (2 * n + 1)), rule=GAUSS, points=n)
    assert beyond.completeness.max() > 1e-6


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 12),
    a=st.lists(st.floats(-3, 3), min_size=24, max_size=24),
    rule=st.sampled_from(RULES),
)
def test_rules_integrate_polynomials_up_to_their_degree(n, a, rule):
    degree = {"endpoint": 0, "midpoint": 1, "gauss-legendre": 2 * n - 1}[rule]
    polynomial = np.polynomial.Polynomial(a[: degree + 1])
    points, weights = quadrature(rule, n)
    assert weights.sum() == pytest.approx(1)
    assert (points >= 0).all() and (points <= 1).all()
    whole = polynomial.integ()(1.0) - polynomial.integ()(0.0)
    assert weights @ polynomial(points) == pytest.approx(whole, abs=1e-9)


def test_the_order_of_each_rule_on_a_smooth_function():
    ns = np.array([2, 4, 8, 16, 32, 64])
    errors = {}
    for rule in RULES:
        rules = [quadrature(rule, int(n)) for n in ns]
        errors[rule] = np.array([w @ np.exp(3 * x) - (np.exp(3) - 1) / 3 for x, w in rules])
    assert order(ns, errors["endpoint"]) == pytest.approx(1, abs=0.1)
    assert order(ns, errors["midpoint"]) == pytest.approx(2, abs=0.1)
    assert abs(errors["gauss-legendre"][2]) < 1e-12  # 8 points: nothing is left


def test_adaptive_points_find_a_steep_stretch_that_even_points_miss():
    width, n = 0.004, 32
    centres = np.array([0.31, 0.77])

    def f(x):  # a step of height 1, as a loss has where a confident answer flips
        return 1 / (np.cosh((x - centres) / width) ** 2 * 2 * width)

    def grown(x):
        return (np.tanh((x - centres) / width) + np.tanh(centres / width)) / 2

    points, weights = adaptive(grown(np.arange(16)[:, None] / 16), n)
    np.testing.assert_allclose(weights.sum(axis=0), 1)
    found = (weights * f(points)).sum(axis=0)
    even, w = quadrature("midpoint", n)
    missed = (w[:, None] * f(even[:, None])).sum(axis=0)
    assert np.abs(found - 1).max() < 0.1 < 0.3 < np.abs(missed - 1).max()
    slope = [adaptive(grown(np.arange(16)[:, None] / 16), k) for k in (64, 128, 256)]
    errors = [np.abs((w * f(x)).sum(axis=0) - 1).max() for x, w in slope]
    assert errors[2] < errors[1] + 1e-9 and errors[2] < 1e-4


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    half=st.integers(1, 9),
    a=st.lists(st.floats(-3, 3), min_size=4, max_size=4),
)
def test_adaptive_points_are_exact_for_cubics_wherever_they_lie(seed, half, a):
    values = np.random.default_rng(seed).standard_normal((6, 3)).cumsum(axis=0)
    points, weights = adaptive(values, 2 * half)
    assert (np.diff(points, axis=0) > 0).all() and points.min() > 0 and points.max() < 1
    cubic = np.polynomial.Polynomial(a)
    whole = cubic.integ()(1.0) - cubic.integ()(0.0)
    np.testing.assert_allclose((weights * cubic(points)).sum(axis=0), whole, atol=1e-9)


def test_adaptive_points_lie_evenly_where_nothing_grows():
    points, weights = adaptive(np.zeros((4, 2)), 6)
    inside, _ = quadrature("gauss-legendre", 2)
    np.testing.assert_allclose(points[:, 0], np.add.outer(range(3), inside).ravel() / 3)
    np.testing.assert_allclose(weights, 1 / 6)
    for m, n in ((1, 4), (4, 0), (4, 5)):
        with pytest.raises(ValueError, match="two values or more"):
            adaptive(np.zeros((m, 2)), n)


def test_the_order_at_a_jump_is_one_for_every_rule():
    ns = np.arange(10, 200)
    for rule in RULES:
        rules = [quadrature(rule, int(n)) for n in ns]
        errors = np.array([w @ (x > 1 / np.pi) - (1 - 1 / np.pi) for x, w in rules])
        assert order(ns, errors) == pytest.approx(1, abs=0.35)


def test_the_order_on_a_smooth_model():
    model, objective = Toy(act=torch.tanh), toy_objective(lambda y: torch.nn.functional.softplus(y))
    ns = np.array([2, 4, 8, 16])
    errors = {
        rule: [
            np.abs(compared(model, objective, rule=rule, points=int(n)).errors).max() for n in ns
        ]
        for rule in RULES
    }
    assert order(ns, np.array(errors["endpoint"])) == pytest.approx(1, abs=0.15)
    assert order(ns, np.array(errors["midpoint"])) == pytest.approx(2, abs=0.2)
    assert errors["gauss-legendre"][3] < 1e-9 < errors["midpoint"][3] < errors["endpoint"][3]


def test_completeness_and_the_mutant_that_moves_all_components_at_once():
    model, objective = Toy(act=torch.tanh), toy_objective(lambda y: y**2)
    components = find_components(model, ("head", "mlp"))
    means = component_means(model, objective, components)
    measured = mean_ablation(model, objective, components, means=means)
    right = integrated_gradients(model, objective, components, rule=GAUSS, points=12, means=means)
    assert Attribution("IG", right, measured).completeness.max() < 1e-8

    n, m = len(objective.tokens), len(components)
    slopes = np.zeros((n, m))
    for x, w in zip(*quadrature("gauss-legendre", 12), strict=True):
        shares = torch.full((m, n), float(x), dtype=torch.float64, requires_grad=True)
        moved = dict(zip(components, shares, strict=True))
        losses = run(model, objective, torch.arange(n), 5, means, moved)
        slopes += w * torch.autograd.grad(losses.sum(), shares)[0].T.numpy()
    mutant = type(right)(right.names, slopes, right.counts, right.clean, right.passes)
    assert Attribution("mutant", mutant, measured).completeness.max() > 0.05
    # what the mutant is complete for is all of them together
    together = run(model, objective, torch.arange(n), 5, means, dict.fromkeys(components, 1.0))
    clean = run(model, objective, torch.arange(n), 5, means, {})
    np.testing.assert_allclose(slopes.sum(1), (together - clean).detach(), rtol=1e-6)


def test_an_unknown_rule_or_no_point_is_refused():
    for rule, n in (("simpson", 4), ("midpoint", 0)):
        with pytest.raises(ValueError, match="a rule is one of"):
            quadrature(rule, n)
        with pytest.raises(ValueError, match="a rule is one of"):
            integrated_gradients(Toy(), toy_objective(), rule=rule, points=n)
    with pytest.raises(ValueError, match="two different numbers"):
        order(np.array([4, 4]), np.array([0.1, 0.2]))
    with pytest.raises(ValueError, match="two different numbers"):
        order(np.array([4, 8]), np.array([0.0, 0.2]))
