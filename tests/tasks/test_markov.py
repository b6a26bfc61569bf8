"""Markov chains against theory: spectra, stationary laws, and sampled frequencies."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.tasks.hmm import from_spec
from helpers.tasks.markov import (
    Chain,
    check_stochastic,
    cyclic,
    sample_paths,
    stationary_distribution,
)

quick = settings(max_examples=40, deadline=None, derandomize=True)


def random_chain(seed: int, n_states: int) -> Chain:
    return Chain(np.random.default_rng(seed).dirichlet(np.ones(n_states), n_states))


def counts_stay_in_band(counts: np.ndarray, probabilities: np.ndarray, sigmas: float = 5) -> bool:
    """Whether multinomial counts lie within ``sigmas`` standard deviations, row by row."""
    n = counts.sum(axis=-1, keepdims=True)
    deviation = np.sqrt(n * probabilities * (1 - probabilities))
    return bool((np.abs(counts - n * probabilities) <= sigmas * deviation + 1e-9).all())


@given(n_states=st.integers(2, 9), stay=st.floats(0.05, 0.95))
@quick
def test_cyclic_chain_has_the_eigenvalues_of_its_formula(n_states, stay):
    wanted = stay + (1 - stay) * np.exp(2j * np.pi * np.arange(n_states) / n_states)
    found = cyclic(n_states, stay).eigenvalues
    distance = np.abs(wanted[:, None] - found[None])
    assert distance.min(axis=0).max() < 1e-10
    assert distance.min(axis=1).max() < 1e-10


def test_default_chain_is_the_papers():
    chain = cyclic()
    np.testing.assert_allclose(chain.eigenvalues, [1, 0.75 + 0.25j, 0.75 - 0.25j, 0.5], atol=1e-12)
    assert chain.bayes_accuracy == pytest.approx(0.75)
    entropy = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    assert chain.entropy_rate == pytest.approx(entropy)


def test_entropy_rate_of_a_two_state_chain_is_its_closed_form():
    p, q = 0.1, 0.3
    chain = Chain(np.array([[1 - p, p], [q, 1 - q]]))

    def bits(r):
        return -(r * np.log(r) + (1 - r) * np.log(1 - r))

    assert chain.entropy_rate == pytest.approx((q * bits(p) + p * bits(q)) / (p + q))
    assert chain.bayes_accuracy == pytest.approx((q * (1 - p) + p * (1 - q)) / (p + q))


def test_zero_probabilities_do_not_harm_the_entropy():
    deterministic = Chain(np.roll(np.eye(3), 1, axis=1))
    assert deterministic.entropy_rate == 0
    assert deterministic.bayes_accuracy == pytest.approx(1)


@given(seed=st.integers(0, 10**6), n_states=st.integers(2, 8))
@quick
def test_stationary_distribution_is_the_limit_of_many_steps(seed, n_states):
    chain = random_chain(seed, n_states)
    pi = chain.stationary
    np.testing.assert_allclose(pi @ chain.transition, pi, atol=1e-12)
    power = np.linalg.matrix_power(chain.transition, 4096)
    np.testing.assert_allclose(power, np.tile(pi, (n_states, 1)), atol=1e-8)


def test_stationary_distribution_of_two_states_is_the_closed_form():
    p, q = 0.1, 0.3
    pi = stationary_distribution(np.array([[1 - p, p], [q, 1 - q]]))
    np.testing.assert_allclose(pi, [q / (p + q), p / (p + q)], atol=1e-12)


def test_eigenvalues_come_with_the_largest_modulus_first_and_hold_one():
    for seed in range(5):
        values = random_chain(seed, 6).eigenvalues
        assert values[0] == pytest.approx(1)
        assert (np.diff(np.abs(values)) < 1e-8).all()


@pytest.mark.parametrize("seed", range(3))
def test_sampled_transitions_follow_the_matrix(seed):
    chain = random_chain(seed, 5)
    x = chain.sample(np.random.default_rng(seed), 2000, 20)
    counts = np.zeros((5, 5))
    np.add.at(counts, (x[:, :-1].ravel(), x[:, 1:].ravel()), 1)
    assert counts_stay_in_band(counts, chain.transition)
    # A mutant: the reversed chain has the same stationary law, so only transitions tell.
    pi = chain.stationary
    reverse = chain.transition.T * pi / pi[:, None]
    assert not counts_stay_in_band(counts, reverse)


def test_every_position_has_the_stationary_distribution():
    chain = Chain(np.array([[0.9, 0.1], [0.4, 0.6]]))
    x = chain.sample(np.random.default_rng(0), 20_000, 6)
    counts = np.stack([np.bincount(column, minlength=2) for column in x.T])
    assert counts_stay_in_band(counts, chain.stationary)
    assert not counts_stay_in_band(counts, np.array([0.5, 0.5]))


def test_impossible_transitions_never_occur():
    x = cyclic(5, 0.5).sample(np.random.default_rng(0), 500, 50)
    step = (x[:, 1:] - x[:, :-1]) % 5
    assert set(np.unique(step)) == {0, 1}


def test_sampling_depends_on_the_generator_alone():
    chain = cyclic()
    a, b = (chain.sample(np.random.default_rng(3), 4, 9) for _ in range(2))
    other = chain.sample(np.random.default_rng(4), 4, 9)
    assert (a == b).all() and (a != other).any()


def test_spec_round_trip_keeps_every_bit():
    chain = random_chain(1, 4)
    back = from_spec(chain.spec())
    assert isinstance(back, Chain)
    assert (back.transition == chain.transition).all()


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.5], [0.7, 0.4]], r"row 1 of the transition matrix sums to 1\.1, not 1"),
        ([[1.2, -0.2], [0.5, 0.5]], r"\[0, 1\] = -0\.2 is negative"),
        ([[np.nan, 1.0], [0.5, 0.5]], "NaN or infinity"),
        ([[0.5, 0.5]], r"square \(K, K\); got shape \(1, 2\)"),
        ([0.5, 0.5], r"square \(K, K\); got shape \(2,\)"),
        (np.eye(3), "more than one stationary distribution"),
        ([[1.0]], "2 to 64 states; got 1"),
    ],
)
def test_bad_transition_matrices_are_named(matrix, message):
    with pytest.raises(ValueError, match=message):
        Chain(np.array(matrix))


def test_a_row_sum_error_says_what_to_do():
    with pytest.raises(ValueError, match="divide it by its sum"):
        check_stochastic(np.full((2, 2), 0.4), "T")


def test_two_blocks_that_never_meet_are_refused_and_a_small_leak_is_not():
    block = np.array([[0.5, 0.5], [0.5, 0.5]])
    apart = np.block([[block, np.zeros((2, 2))], [np.zeros((2, 2)), block]])
    with pytest.raises(ValueError, match="Connect them"):
        Chain(apart)
    Chain(0.999 * apart + 0.001 / 4)


@pytest.mark.parametrize("stay", [0.0, 1.0, -0.1, np.nan])
def test_stay_must_be_a_proper_probability(stay):
    with pytest.raises(ValueError, match="stay must lie strictly between 0 and 1"):
        cyclic(4, stay)


@pytest.mark.parametrize(("n", "length"), [(0, 5), (5, 0)])
def test_empty_samples_are_refused(n, length):
    chain = cyclic()
    with pytest.raises(ValueError, match="at least one sequence and one step"):
        sample_paths(np.random.default_rng(0), chain.stationary, chain.transition, n, length)


@pytest.mark.parametrize("off", [2e-6, -3e-5, 1e-3])
def test_a_row_sum_error_shows_how_far_the_sum_is_from_one(off):
    row = f"{1 + off:.10g}"
    assert row != "1"
    with pytest.raises(ValueError, match=rf"row 0 of T sums to {row}, not 1 \(to 1e-06\)"):
        check_stochastic(np.array([[0.5, 0.5 + off], [0.5, 0.5]]), "T")


@pytest.mark.parametrize(
    "matrix",
    [
        np.random.default_rng(0).dirichlet(np.ones(7), 7).astype(np.float32),
        np.full((3, 3), 0.333333),
        np.array([[0.5, 0.5 + 9e-7], [0.5, 0.5 - 9e-7]]),
    ],
    ids=["float32", "six digits", "near"],
)
def test_rows_that_sum_to_one_nearly_are_made_exact(matrix):
    assert np.abs(matrix.astype(float).sum(axis=1) - 1).max() > 1e-9
    T = check_stochastic(matrix, "T")
    assert T.dtype == np.float64
    np.testing.assert_allclose(T.sum(axis=1), 1, atol=len(T) * 2.3e-16, rtol=0)
    np.testing.assert_allclose(T, matrix, rtol=2e-6)
    # once exact, a second check leaves every bit
    assert (check_stochastic(T, "T") == T).all()


def test_rows_that_are_right_keep_every_bit():
    T = np.random.default_rng(0).dirichlet(np.ones(30), 30)
    assert (check_stochastic(T, "T") == T).all()


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (2, 0)])
def test_an_empty_matrix_is_named_with_its_shape(shape):
    with pytest.raises(ValueError, match=rf"T is empty: shape \({shape[0]}, {shape[1]}\)"):
        check_stochastic(np.ones(shape), "T", square=False)


@pytest.mark.parametrize("n_states", [0, 1, -1, 65, 2.5, True])
def test_a_ring_of_a_wrong_size_is_named(n_states, unchecked):
    with pytest.raises(ValueError, match=rf"whole number of states, 2 to 64; got {n_states}"):
        cyclic(n_states)


@pytest.mark.parametrize(
    ("matrix", "dead"),
    [
        ([[1, 0, 0], [0.5, 0.25, 0.25], [0, 0.5, 0.5]], [1, 2]),  # state 0 absorbs
        ([[0.2, 0.4, 0.4], [0, 0.5, 0.5], [0, 0.3, 0.7]], [0]),  # state 0 is left for good
        ([[0.2, 0.4, 0.4], [1e-6, 0.5, 0.499999], [0, 0.3, 0.7]], []),  # rare is not dead
        (cyclic().transition, []),
    ],
)
def test_dead_states_are_those_that_never_occur(matrix, dead):
    chain = Chain(np.array(matrix))
    assert chain.dead_states == dead
    x = chain.sample(np.random.default_rng(0), 200, 20)
    assert not np.isin(dead, x).any()
