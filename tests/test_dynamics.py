"""The fitted operator against planted laws and the chain's own spectrum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.dynamics import (
    fit_operator,
    match_eigenvalues,
    oracle_r2,
    r_squared,
    transitions,
)
from helpers.tasks.markov import Chain, cyclic

quick = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)


def one_hot(tokens, n_states):
    """All but the last indicator: they say everything, and have full rank after centring."""
    return np.eye(n_states)[tokens][..., :-1]


@given(seed=seeds, r=st.integers(1, 5))
@quick
def test_planted_operator_is_recovered(seed, r):
    rng = np.random.default_rng(seed)
    A, now = rng.standard_normal((r, r)), rng.standard_normal((50, r)) + 4
    mean = now.mean(axis=0)
    then = mean + (now - mean) @ A.T
    operator = fit_operator(now, then)
    np.testing.assert_allclose(operator.A, A, atol=1e-9)
    assert operator.r2(now, then) == pytest.approx(1)


@given(seed=seeds, r=st.integers(1, 4))
@quick
def test_eigenvalues_do_not_depend_on_the_coordinates(seed, r):
    rng = np.random.default_rng(seed)
    now = rng.standard_normal((60, r))
    then = now @ rng.standard_normal((r, r)) + 0.3 * rng.standard_normal((60, r))
    M = np.linalg.qr(rng.standard_normal((r, r)))[0] * rng.uniform(0.5, 2, r)
    plain, moved = fit_operator(now, then), fit_operator(now @ M.T + 2, then @ M.T + 2)
    paired = match_eigenvalues(moved.eigenvalues, plain.eigenvalues)
    np.testing.assert_allclose(paired, plain.eigenvalues, atol=1e-5)  # a near-defective A is soft


@pytest.mark.parametrize(
    "chain",
    [
        cyclic(),
        cyclic(5, 0.6),
        Chain(np.random.default_rng(0).dirichlet(np.ones(3), 3)),
    ],
    ids=["cyclic-4", "cyclic-5", "random-3"],
)
def test_one_hot_coordinates_have_the_chains_nontrivial_eigenvalues(chain):
    tokens = chain.sample(np.random.default_rng(0), 4000, 32)
    operator = fit_operator(*transitions(one_hot(tokens, chain.d_vocab)))
    wanted = chain.eigenvalues[1:]
    found = match_eigenvalues(operator.eigenvalues, wanted)
    np.testing.assert_allclose(found, wanted, atol=0.02)  # 124,000 pairs: error about 0.003
    # A mutant: shuffled in time, the same coordinates have no memory.
    shuffled = np.random.default_rng(1).permuted(tokens, axis=1)
    none = fit_operator(*transitions(one_hot(shuffled, chain.d_vocab)))
    assert np.abs(none.eigenvalues).max() < 0.1


def test_transitions_pair_each_step_with_the_next_and_stay_inside_a_sequence():
    Z = np.arange(24.0).reshape(2, 6, 2)
    now, then = transitions(Z)
    np.testing.assert_array_equal(now, Z[:, :5].reshape(-1, 2))
    np.testing.assert_array_equal(then - now, 2)
    now, _ = transitions(Z, first=3)
    np.testing.assert_array_equal(now[:, 0], [6, 8, 18, 20])


@pytest.mark.parametrize(("shape", "first"), [((3, 1, 2), 0), ((3, 5, 2), 4), ((3, 5), 0)])
def test_sequences_that_are_too_short_are_named(shape, first, unchecked):
    with pytest.raises(ValueError, match=rf"length ≥ {first + 2}, r\); got shape"):
        transitions(np.ones(shape), first)


def test_r_squared_is_one_for_the_truth_zero_for_the_mean_and_negative_for_worse():
    target = np.random.default_rng(0).standard_normal((100, 3))
    mean = np.tile(target.mean(axis=0), (100, 1))
    assert r_squared(target, target) == 1
    assert r_squared(target, mean) == pytest.approx(0)
    assert r_squared(target, -target) < 0


def test_r_squared_is_the_share_of_variance_that_a_noisy_law_leaves():
    rng = np.random.default_rng(0)
    now = rng.standard_normal((20_000, 2))
    then = 0.6 * now + 0.8 * rng.standard_normal((20_000, 2))
    fresh = rng.standard_normal((20_000, 2))
    operator = fit_operator(now, then)
    assert operator.r2(now, then) == pytest.approx(0.36, abs=0.02)
    assert operator.r2(fresh, then) < 0


def test_a_constant_target_has_no_r_squared():
    with pytest.raises(ValueError, match="target is constant"):
        r_squared(np.ones((4, 2)), np.zeros((4, 2)))


@given(seed=seeds, r=st.integers(1, 6))
@quick
def test_matching_undoes_a_permutation(seed, r):
    rng = np.random.default_rng(seed)
    wanted = rng.standard_normal(r) + 1j * rng.standard_normal(r)
    found = wanted[rng.permutation(r)]
    np.testing.assert_array_equal(match_eigenvalues(found, wanted), wanted)


def test_matching_minimises_the_total_distance_not_each_one():
    # Nearest first would pair 0.9 with 1.0 and leave 0 for 0.8: total 0.9 instead of 0.9 + 0.1.
    found = match_eigenvalues(np.array([0.9, 0.0]), np.array([0.5, 1.0]))
    np.testing.assert_array_equal(found, [0.0, 0.9])


def test_matching_needs_equal_numbers():
    with pytest.raises(ValueError, match="got 2 eigenvalues to pair with 3"):
        match_eigenvalues(np.ones(2), np.ones(3))


def test_no_linear_law_beats_the_oracle_on_one_hot_tokens_and_the_best_one_equals_it():
    chain = cyclic()
    tokens = chain.sample(np.random.default_rng(0), 2000, 32)
    Z = one_hot(tokens, 4)
    now, then = transitions(Z)
    oracle, fitted = oracle_r2(Z, tokens, chain.transition), fit_operator(now, then).r2(now, then)
    assert oracle == pytest.approx(fitted, abs=1e-3)
    # For uniform one-hot tokens the exact share is Σ|λ|² / 3 over the three eigenvalues.
    assert oracle == pytest.approx(np.sum(np.abs(chain.eigenvalues[1:]) ** 2) / 3, abs=0.01)
    wrong = oracle_r2(Z, tokens, cyclic(4, 0.4).transition)
    assert wrong < oracle - 0.02


def test_coordinates_that_lose_tokens_fall_short_of_the_oracle():
    # One coordinate for four tokens: the next value depends on the token, not linearly on z.
    chain = cyclic()
    tokens = chain.sample(np.random.default_rng(0), 2000, 32)
    Z = np.array([0.0, 3.0, 1.0, 2.0])[tokens][..., None]
    now, then = transitions(Z)
    assert oracle_r2(Z, tokens, chain.transition) > fit_operator(now, then).r2(now, then) + 0.02


def test_oracle_starts_at_the_position_asked_for():
    chain = cyclic()
    tokens = chain.sample(np.random.default_rng(0), 500, 10)
    Z = one_hot(tokens, 4)
    Z[:, :4] = np.random.default_rng(1).standard_normal((500, 4, 3))  # a bad start
    late = oracle_r2(Z, tokens, chain.transition, first=4)
    clean = oracle_r2(one_hot(tokens, 4)[:, 4:], tokens[:, 4:], chain.transition)
    assert late == pytest.approx(clean, abs=1e-12)


def test_oracle_names_tokens_that_never_occur():
    tokens = np.array([[0, 1, 0, 1], [1, 0, 1, 0]])
    with pytest.raises(ValueError, match=r"tokens \[2, 3\] never occur"):
        oracle_r2(one_hot(tokens, 4), tokens, cyclic().transition)


def test_coordinates_of_lower_rank_are_named():
    tokens = cyclic().sample(np.random.default_rng(0), 50, 10)
    now, then = transitions(np.eye(4)[tokens])  # four indicators sum to one
    with pytest.raises(ValueError, match=r"span 3 of 4 dimensions.*lower the rank"):
        fit_operator(now, then)


def test_fewer_rows_than_dimensions_are_named():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="not determined"):
        fit_operator(rng.standard_normal((3, 5)), rng.standard_normal((3, 5)))


def test_nan_coordinates_are_named():
    now = np.ones((5, 2))
    now[0, 0] = np.nan
    with pytest.raises(ValueError, match="values of now hold NaN or infinity"):
        fit_operator(now, np.ones((5, 2)))


def test_shapes_that_differ_are_named(unchecked):
    with pytest.raises(ValueError, match=r"one shape; got \(5, 2\) and \(4, 2\)"):
        fit_operator(np.ones((5, 2)), np.ones((4, 2)))


@pytest.mark.parametrize("shape", [(1, 2), (2,), (6, 1), (5, 2), (6, 2, 1), ()])
def test_r_squared_does_not_broadcast(shape, unchecked):
    target = np.random.default_rng(0).standard_normal((6, 2))
    with pytest.raises(ValueError, match=r"one shape; got \(6, 2\) and \(") as error:
        r_squared(target, np.zeros(shape))
    assert str(shape) in str(error.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(("which", "name"), [(0, "target"), (1, "prediction")])
def test_r_squared_names_the_side_that_is_not_finite(bad, which, name):
    pair = [np.random.default_rng(i).standard_normal((6, 2)) for i in range(2)]
    pair[which][3, 1] = bad
    with pytest.raises(ValueError, match=f"values of {name} hold NaN or infinity"):
        r_squared(*pair)


def test_r_squared_of_integers_and_single_precision_is_that_of_doubles(unchecked):
    target = np.arange(12).reshape(6, 2)
    guess = target + np.tile([1.0, -1.0], (6, 1))
    wanted = r_squared(target.astype(float), guess)
    assert r_squared(target, guess.astype(int)) == wanted
    # 16 bits would overflow on the squares, and 32 lose digits on the way
    assert r_squared((100 * target).astype(np.int16), (100 * guess).astype(np.int16)) == (
        pytest.approx(wanted, abs=1e-14)
    )
    assert r_squared(target.astype(np.float32), guess.astype(np.float32)) == wanted


@pytest.mark.parametrize("size", [1e-200, 1e160])
def test_r_squared_does_not_depend_on_the_units(size):
    rng = np.random.default_rng(0)
    target, guess = rng.standard_normal((9, 2)), rng.standard_normal((9, 2))
    assert r_squared(size * target, size * guess) == pytest.approx(r_squared(target, guess))


def test_a_target_that_is_constant_up_to_rounding_has_no_r_squared():
    with pytest.raises(ValueError, match="target is constant"):
        r_squared(np.full((10, 2), 3.7) * (1 + 1e-15 * np.eye(10, 2)), np.zeros((10, 2)))


def test_r_squared_of_nothing_is_named():
    with pytest.raises(ValueError, match=r"at least one row of numbers; got shape \(0, 2\)"):
        r_squared(np.ones((0, 2)), np.ones((0, 2)))


def test_an_operator_does_not_broadcast_in_its_r_squared(unchecked):
    rng = np.random.default_rng(0)
    now, then = rng.standard_normal((20, 2)), rng.standard_normal((20, 2))
    operator = fit_operator(now, then)
    with pytest.raises(ValueError, match=r"now and then .*got \(1, 2\) and \(20, 2\)"):
        operator.r2(now[:1], then)
    with pytest.raises(ValueError, match=r"acts on 2 coordinates.*got shape \(20, 1\)"):
        operator.r2(now[:, :1], then[:, :1])
    now[4] = np.inf
    with pytest.raises(ValueError, match="values of now hold NaN or infinity"):
        operator.r2(now, then)
