"""Alignment over the symmetry group: closed forms, a copy that is found again, the steps."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import orthogonal_procrustes
from scipy.optimize import minimize_scalar

from helpers.dyck import SMALL, DyckTransformer
from helpers.models import ModelConfig
from helpers.symmetry import (
    STEPS,
    Symmetry,
    Weights,
    align,
    alternate,
    apply,
    balancing,
    compose,
    entry_shuffled,
    errors,
    random_element,
    refine,
    tensor_weights,
    zero,
)
from helpers.symmetry.closed_forms import (
    best_heads,
    best_neurons,
    labelled_rotation,
    loss,
    procrustes,
    residual_cross,
    turn_heads,
)
from helpers.symmetry.neurons import Pairs, assign, best_scales, cost

TINY = ModelConfig(40, 64, n_layers=2, d_model=12, n_heads=3, d_mlp=10)
SEEDS = st.integers(0, 2**32 - 1)
few = settings(max_examples=15, deadline=None)


def draw(seed=0) -> np.random.Generator:
    return np.random.default_rng(seed)


def random_weights(config=SMALL, seed=100) -> Weights:
    return Weights.of(DyckTransformer(config, seed).state_dict(), config.n_heads)


def trained_like(seed=100) -> Weights:
    """What makes a trained model harder: spectra that fall, unembeddings far larger than the rest,
    heads that are nearly alike, neurons that are nearly dead, gains that differ."""
    generator, state = draw(seed), DyckTransformer(SMALL, seed).state_dict()
    for name, value in state.items():
        if "ln" in name:
            value.mul_(np.exp(0.5 * generator.standard_normal()))
        elif name not in ("pos_frame", "tok_embed.weight"):
            U, sigma, Vt = np.linalg.svd(value.numpy(), full_matrices=False)
            value.copy_(value.new_tensor(U * sigma / (1 + np.arange(len(sigma))) ** 0.7 @ Vt))
    state["head.weight"] *= 6
    for layer in range(2):
        q = state[f"layers.{layer}.attn.q.weight"]
        q[:16] = q[16:32] + 0.01 * q[:16]
        state[f"layers.{layer}.mlp.fc_in.weight"][:40] *= 1e-3
        state[f"layers.{layer}.mlp.fc_out.weight"][:40] *= 1e-3
    return Weights.of(state, SMALL.n_heads)


def pair(config=TINY) -> tuple[Weights, Weights]:
    return random_weights(config, 100), random_weights(config, 101)


def shaken(source: Weights, seed: int) -> Symmetry:
    return random_element(draw(seed), source)


# ---- closed forms


def test_procrustes_is_scipy_s():
    X, Y = draw().standard_normal((2, 30, 5))
    np.testing.assert_allclose(procrustes(X.T @ Y), orthogonal_procrustes(X, Y)[0], atol=1e-12)


@few
@given(seed=SEEDS)
def test_no_step_raises_the_loss(seed):
    source, target = pair()
    c, g = tensor_weights(target), shaken(source, seed)
    for step in (best_heads, best_neurons, turn_heads):
        after = step(source, target, g, c)
        assert loss(source, target, after, c) <= loss(source, target, g, c) * (1 + 1e-12)
        g = after
    after = replace(g, R=procrustes(residual_cross(source, target, g, c)))
    assert loss(source, target, after, c) < loss(source, target, g, c)


def test_a_step_with_another_rotation_is_noticed():
    source, target = pair()
    c, g = tensor_weights(target), shaken(source, 3)
    best = replace(g, R=procrustes(residual_cross(source, target, g, c)))
    worse = replace(best, R=best.R.T)
    assert loss(source, target, worse, c) > loss(source, target, best, c)


def test_the_loss_is_the_mean_over_tensors_of_their_mse():
    source, target = pair()
    g = shaken(source, 0)
    found = errors(apply(source, g), target)
    assert loss(source, target, g, tensor_weights(target)) == pytest.approx(found.mean, rel=1e-12)
    assert found.mean == pytest.approx(np.mean(list(found.mse.values())))


def test_heads_are_the_best_of_all_permutations_and_rotations():
    source, target = pair()
    c, g = tensor_weights(target), shaken(source, 1)
    best = loss(source, target, best_heads(source, target, g, c), c)
    every = [
        turn_heads(source, target, replace(g, heads=np.array([first, second])), c)
        for first in permutations(range(3))
        for second in permutations(range(3))
    ]
    assert best == pytest.approx(min(loss(source, target, one, c) for one in every), rel=1e-12)
    plain = [
        replace(g, heads=one.heads, QK=still.QK, VO=still.VO)
        for one in every
        for still in [Symmetry.identity(source)]
    ]
    best = loss(source, target, best_heads(source, target, g, c, rotate=False), c)
    assert best == pytest.approx(min(loss(source, target, one, c) for one in plain), rel=1e-12)


def test_rotations_of_heads_beat_nearby_ones():
    source, target = pair()
    c = tensor_weights(target)
    g = turn_heads(source, target, shaken(source, 2), c)
    nearby = procrustes(np.eye(4) + 0.05 * draw(1).standard_normal((20, 2, 3, 4, 4)))
    for turn in nearby:
        for part in ("QK", "VO"):
            other = replace(g, **{part: getattr(g, part) @ turn})
            assert loss(source, target, other, c) > loss(source, target, g, c)


@few
@given(seed=SEEDS)
def test_scales_are_the_best_of_all(seed):
    generator = draw(seed)
    alpha, delta = generator.exponential(size=(2, 6)) + 1e-3
    beta, gamma = 3 * generator.standard_normal((2, 6))
    found = best_scales(alpha, delta, beta, gamma)
    for i, s in enumerate(found):
        parts = (alpha[i], delta[i], beta[i], gamma[i])
        grid = np.exp(np.linspace(-8, 8, 2001))
        start = np.log(grid[cost(grid, *parts).argmin()])
        best = minimize_scalar(
            lambda t, parts=parts: float(cost(np.exp(t), *parts)),
            bounds=(start - 0.02, start + 0.02),
            method="bounded",
        ).fun
        assert cost(s, *parts) <= best + 1e-9 * abs(best)


def test_scales_of_dead_neurons_stay_finite():
    zero_, one = np.zeros(1), np.ones(1)
    assert best_scales(one, zero_, 2 * one, zero_) == pytest.approx(2)  # it only reads
    assert best_scales(zero_, one, zero_, 2 * one) == pytest.approx(0.5)  # it only writes
    assert best_scales(zero_, zero_, zero_, zero_) == pytest.approx(1)


def test_neurons_of_a_scaled_copy_are_matched():
    source = random_weights(TINY)
    g = replace(shaken(source, 5), heads=Symmetry.identity(source).heads, R=np.eye(12))
    target = apply(source, g)
    found = best_neurons(source, target, Symmetry.identity(source), tensor_weights(target))
    np.testing.assert_array_equal(found.neurons, g.neurons)
    np.testing.assert_allclose(found.scales, g.scales, rtol=1e-7)


def test_a_match_that_is_better_already_stays():
    pairs = Pairs(
        np.ones(2),
        np.ones(2),
        np.array([[5.0, 0], [0, 5]]),
        np.zeros((2, 2)),
        np.ones(2),
        np.ones(2),
    )
    order, _ = assign(pairs, np.array([1, 0]))
    np.testing.assert_array_equal(order, [0, 1])
    order, _ = assign(replace(pairs, beta=np.zeros((2, 2))), np.array([1, 0]))
    assert sorted(order) == [0, 1]


def test_labelled_tensors_alone_give_a_copy_s_rotation():
    target = random_weights()
    g = shaken(target, 6)
    R = labelled_rotation(apply(target, g), target, tensor_weights(target))
    np.testing.assert_allclose(g.R @ R, np.eye(64), atol=1e-9)


# ---- a copy is found again


def test_twenty_copies_are_found_from_twenty_haar_starts():
    target = random_weights()
    c, generator = tensor_weights(target), draw(20)
    for _ in range(20):
        copy = apply(target, random_element(generator, target))
        start = random_element(generator, target)  # nothing of the copy is known here
        assert errors(apply(copy, start), target).value > 0.01
        g, history = alternate(copy, target, start, c, 60)
        assert errors(apply(copy, g), target).value < 1e-9
        assert all(b <= a for a, b in pairwise(history))


def test_nearly_equal_heads_trap_some_haar_starts_and_never_three_in_a_row():
    target = trained_like()
    c, generator, trapped = tensor_weights(target), draw(20), 0
    for _ in range(12):
        copy = apply(target, random_element(generator, target))
        for _ in range(3):
            g, _ = alternate(copy, target, random_element(generator, target), c, 60)
            if errors(apply(copy, g), target).value < 1e-9:
                break
            trapped += 1
        assert errors(apply(copy, g), target).value < 1e-9
    assert trapped > 0


@pytest.mark.parametrize("kind", ["random", "trained-like"])
def test_the_whole_search_finds_twenty_of_twenty_copies(kind):
    target = random_weights() if kind == "random" else trained_like()
    for seed in range(20):
        copy = apply(target, random_element(draw(seed), target))
        assert align(copy, target, draw(100 + seed)).bar < 1e-9


def test_a_copy_is_found_by_the_whole_search_and_gives_the_inverse():
    target = trained_like()
    g = random_element(draw(7), target)
    found = align(apply(target, g), target, draw(8), starts=2)
    assert found.bar < 1e-20
    both = compose(g, found.symmetry)
    np.testing.assert_allclose(both.R, np.eye(64), atol=1e-9)
    np.testing.assert_array_equal(both.heads, Symmetry.identity(target).heads)


@pytest.mark.parametrize("name", ["W_pos", "W_K", "W_out", "W_U"])
def test_what_is_no_copy_is_not_found(name):
    target = random_weights(TINY)
    other = replace(target, **{name: -getattr(target, name)})
    found = align(apply(other, random_element(draw(9), other)), target, draw(10), starts=1)
    assert found.bar > 1e-4


def test_a_copy_under_invertible_maps_is_found_in_the_balanced_gauge():
    target = random_weights(TINY)
    copy = apply(target, random_element(draw(11), target, kind="invertible"))
    assert align(copy, target, draw(12), starts=0).bar > 1e-4
    even, wanted = (apply(w, balancing(w)) for w in (copy, target))
    assert align(even, wanted, draw(12), starts=0).bar < 1e-9


# ---- two models


def test_every_step_lowers_what_it_minimises():
    source, target = pair()
    found = align(source, target, draw(13), starts=2)
    assert tuple(found.steps) == STEPS
    means = [found.steps[name].mean for name in STEPS[:-1]]
    assert all(after <= before for before, after in pairwise(means))
    assert means[4] < 0.99 * means[3]
    assert found.steps["raw"] == errors(source, target)
    assert found.loss == pytest.approx(means[-1], rel=1e-9)
    assert found.bar < found.steps["refined"].value
    again = errors(apply(source, found.for_largest), target)
    assert again.value == pytest.approx(found.bar, rel=1e-9)
    assert [s.kind for s in sorted(found.starts, key=lambda s: s.kind)] == [
        "haar",
        "heads",
        "identity",
        "labelled",
    ]
    assert [s.loss for s in found.starts] == sorted(s.loss for s in found.starts)
    for start in found.starts:
        assert all(b <= a for a, b in pairwise(start.history))


def test_the_generator_decides():
    source, target = pair()
    one, same = (align(source, target, draw(14), starts=2) for _ in range(2))
    assert one.loss == same.loss
    np.testing.assert_array_equal(one.symmetry.R, same.symmetry.R)


def test_refining_returns_to_a_minimum_that_was_left():
    target = random_weights(TINY)
    copy, c = apply(target, shaken(target, 15)), tensor_weights(target)
    g, _ = alternate(copy, target, shaken(target, 16), c, 60)
    kick = draw(17).standard_normal((12, 12))
    R = g.R @ procrustes(np.eye(12) + 0.02 * (kick - kick.T))
    left = replace(g, R=R, scales=1.1 * g.scales)
    assert loss(copy, target, left, c) > 1e-5
    assert loss(copy, target, refine(copy, target, left, c), c) < 1e-9


def test_refining_is_never_worse_and_a_high_power_lowers_the_largest():
    source, target = pair()
    c, g = tensor_weights(target), shaken(source, 18)
    mean, largest = (refine(source, target, g, c, power=p) for p in (1.0, 32.0))
    before, one, other = (errors(apply(source, x), target) for x in (g, mean, largest))
    assert one.mean < before.mean and other.value < before.value
    assert one.mean < other.mean and other.value < one.value
    assert np.linalg.det(mean.R) == pytest.approx(np.linalg.det(g.R))


def test_refining_side_by_side_in_threads_is_as_good_as_one_after_the_other():
    """PyTorch's own cache of parametrisations is one for all threads, and fails here."""
    source, target = pair()
    c = tensor_weights(target)
    starts = [shaken(source, seed) for seed in range(20, 28)]

    def once(g):
        return loss(source, target, refine(source, target, g, c, steps=15), c)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(once, starts))
    assert found == pytest.approx([once(g) for g in starts], rel=1e-6)


def test_wrong_arguments_are_refused():
    source, target = pair()
    c, g = tensor_weights(target), Symmetry.identity(source)
    with pytest.raises(ValueError, match="only models of one size"):
        align(source, random_weights(), draw())
    with pytest.raises(ValueError, match="1 ≤ rounds ≤ most_rounds"):
        align(source, target, draw(), rounds=0)
    with pytest.raises(ValueError, match="power ≥ 1"):
        refine(source, target, g, c, power=0.5)
    bent = random_element(draw(), source, kind="invertible")
    with pytest.raises(ValueError, match="not orthogonal"):
        refine(source, target, bent, c)


# ---- errors and nulls


def test_errors_are_their_formulas():
    source, target = pair()
    found = errors(source, target)
    square = np.square(source.W_Q[1] - target.W_Q[1])
    assert found.mse["blocks.1.W_Q"] == pytest.approx(square.mean())
    share = square.mean() / np.square(target.W_Q[1]).mean()
    assert found.normalised["blocks.1.W_Q"] == pytest.approx(share)
    depth = np.square(source.W_U - target.W_U)[:, 40:49].mean()
    assert found.mse["W_U.depth"] == pytest.approx(depth)
    assert found.value == max(found.mse.values()) == found.mse[found.worst]
    assert len(found.mse) == 2 + 2 * 6 + 3


def test_predicting_zero_costs_1():
    found = zero(pair()[1])
    assert found.pooled == pytest.approx(1)
    assert all(share == pytest.approx(1) for share in found.normalised.values())
    hollow = replace(pair()[1], W_E=np.zeros((40, 12)))
    with pytest.raises(ValueError, match="W_E is all zeros"):
        zero(hollow)


def test_shuffled_entries_keep_their_tensor_and_lose_the_rest():
    weights = trained_like()
    shuffled = entry_shuffled(weights, draw(19))
    for name, value in weights.tensors().items():
        other = shuffled.tensors()[name]
        np.testing.assert_array_equal(np.sort(value, axis=None), np.sort(other, axis=None))
        assert name == "W_pos" or np.mean(value == other) < 0.9  # a shared frame is mostly zeros
    found = align(shuffled, weights, draw(20), starts=0)
    copy = align(apply(weights, shaken(weights, 21)), weights, draw(20), starts=0)
    assert found.steps["refined"].pooled > 0.5 > 1e-9 > copy.steps["refined"].pooled
