"""Effects that theory knows: linear models, polynomial losses, completeness, order."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.attribution import (
    ADAPTIVE,
    POOLED,
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
from helpers.attribution.quadrature import FLOOR, adaptive, pooled
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
    found += [compared(model, objective, rule=rule, points=2) for rule in (ADAPTIVE, POOLED)]
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
    for rule in (ADAPTIVE, POOLED):
        assert compared(model, objective, rule=rule, points=2).completeness.max() < 1e-10
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


def summed(plan, f):
    """The integrals that a plan gives for f(points, index of the integrand)."""
    return np.array([weights @ f(points, i) for i, (points, weights) in enumerate(plan)])


def test_adaptive_points_find_a_steep_stretch_that_even_points_miss():
    width, n = 0.004, 32
    centres = np.array([0.31, 0.77])

    def f(x, i):  # a step of height 1, as a loss has where a confident answer flips
        return 1 / (np.cosh((x - centres[i]) / width) ** 2 * 2 * width)

    def grown(x):
        return (np.tanh((x - centres) / width) + np.tanh(centres / width)) / 2

    values = grown(np.arange(16)[:, None] / 16)
    plan = adaptive(values, n)
    np.testing.assert_allclose([weights.sum() for _, weights in plan], 1)
    missed = summed([quadrature("midpoint", n)] * 2, f)
    assert np.abs(summed(plan, f) - 1).max() < 0.1 < 0.3 < np.abs(missed - 1).max()
    errors = [np.abs(summed(adaptive(values, k), f) - 1).max() for k in (64, 128, 256)]
    assert errors[2] < errors[1] + 1e-9 and errors[2] < 1e-4


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    half=st.integers(1, 9),
    a=st.lists(st.floats(-3, 3), min_size=4, max_size=4),
)
def test_placed_points_are_exact_for_cubics_wherever_they_lie(seed, half, a):
    g = np.random.default_rng(seed)
    values = g.standard_normal((6, 3)).cumsum(axis=0) * 10.0 ** g.integers(-4, 4, 3)
    cubic = np.polynomial.Polynomial(a)
    whole = cubic.integ()(1.0) - cubic.integ()(0.0)
    for place in (adaptive, pooled):
        plan = place(values, 2 * half)
        for points, _ in plan:
            assert (np.diff(points) > 0).all() and points.min() > 0 and points.max() < 1
        np.testing.assert_allclose(summed(plan, lambda x, i: cubic(x)), whole, atol=1e-9)
        # every gradient counts: no rule has more points than it was given
        assert sum(len(points) for points, _ in plan) == 2 * half * 3
        assert all(len(points) >= 2 for points, _ in plan)


def test_points_lie_evenly_where_nothing_grows():
    inside, _ = quadrature("gauss-legendre", 2)
    for place in (adaptive, pooled):
        for points, weights in place(np.zeros((4, 2)), 6):
            np.testing.assert_allclose(points, np.add.outer(range(3), inside).ravel() / 3)
            np.testing.assert_allclose(weights, 1 / 6)
        for m, n in ((1, 4), (4, 0), (4, 5)):
            with pytest.raises(ValueError, match="two values or more"):
                place(np.zeros((m, 2)), n)


def test_pooled_points_go_where_the_need_is():
    """The share of an integrand is its mean √|ΔF|: 100 times the growth, 10 times the points."""
    line = np.arange(8) / 8
    counts = [len(points) for points, _ in pooled(np.stack([line, 100 * line], axis=1), 112)]
    np.testing.assert_allclose(counts, [2 + 220 / 11, 2 + 2200 / 11], atol=2)
    alone = pooled(np.stack([0 * line, line], axis=1), 8)
    assert [len(points) for points, _ in alone] == [2, 14]
    step = np.where(line > 0.4, 1.0, 0.0)[:, None]  # all growth in one stretch of eight
    ((points, _),) = pooled(step, 200)
    within = np.mean((points > 3 / 8) & (points < 4 / 8))
    assert within == pytest.approx(FLOOR / 8 + 1 - FLOOR, abs=0.02)


@pytest.mark.parametrize("kind", ["smooth", "kinked", "steep"])
def test_pooling_pays_for_a_sum_of_unlike_integrals(kind):
    """Forty planted integrands, most of them small: as many points in all, a smaller error.

    The large ones jump as at a ReLU's kinks, or are steep on a short stretch.  Where all are
    smooth, any placement will do: pooling neither helps nor hurts.
    """
    g, n = np.random.default_rng(100), 16
    scales = np.where(np.arange(40) % 8, 0.01, 10.0)
    centres, widths = g.uniform(0.2, 0.8, (40, 6)), {"smooth": 0.3, "steep": 0.01}.get(kind)

    def F(x, i):
        apart = x[:, None] - centres[i]
        grown = np.maximum(apart, 0) if widths is None else np.tanh(apart / widths)
        return scales[i] * grown.sum(axis=1)

    def f(x, i):
        apart = x[:, None] - centres[i]
        slope = apart > 0 if widths is None else 1 / np.cosh(apart / widths) ** 2 / widths
        return scales[i] * slope.sum(axis=1)

    whole = np.array([np.diff(F(np.array([0.0, 1.0]), i))[0] for i in range(40)])
    values = np.stack([F(np.arange(16) / 16, i) for i in range(40)], axis=1)
    values -= values[0]

    def error(plan):
        return np.abs(summed(plan, f) - whole).sum() / np.abs(whole).sum()

    even, each, shared = (
        error(plan)
        for plan in ([quadrature("midpoint", n)] * 40, adaptive(values, n), pooled(values, n))
    )
    assert shared < even / 2
    assert shared < (2 * each if kind == "smooth" else each / 2)


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
