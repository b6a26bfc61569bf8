"""Hidden Markov sources against enumeration over hidden paths, and exact formulas."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.tasks.hmm import HiddenMarkov, from_spec, mess3

quick = settings(max_examples=25, deadline=None, derandomize=True)


def random_source(seed: int, n_hidden: int, n_tokens: int) -> HiddenMarkov:
    rng = np.random.default_rng(seed)
    return HiddenMarkov(
        rng.dirichlet(np.ones(n_hidden), n_hidden), rng.dirichlet(np.ones(n_tokens), n_hidden)
    )


def joint_by_enumeration(source: HiddenMarkov, tokens) -> np.ndarray:
    """P(tokens, last hidden state), by summing over every hidden path."""
    T, E, pi = source.transition, source.emission, source.stationary
    joint = np.zeros(len(T))
    for path in product(range(len(T)), repeat=len(tokens)):
        probability = pi[path[0]] * E[path[0], tokens[0]]
        for t in range(1, len(tokens)):
            probability *= T[path[t - 1], path[t]] * E[path[t], tokens[t]]
        joint[path[-1]] += probability
    return joint


@given(seed=st.integers(0, 10**6), n_hidden=st.integers(2, 3), n_tokens=st.integers(2, 4))
@quick
def test_beliefs_equal_the_sum_over_all_hidden_paths(seed, n_hidden, n_tokens):
    source = random_source(seed, n_hidden, n_tokens)
    tokens = np.random.default_rng(seed + 1).integers(n_tokens, size=(2, 5))
    beliefs = source.beliefs(tokens)
    for row, sequence in enumerate(tokens):
        for t in range(5):
            joint = joint_by_enumeration(source, sequence[: t + 1])
            np.testing.assert_allclose(beliefs[row, t], joint / joint.sum(), atol=1e-12)


@given(seed=st.integers(0, 10**6))
@quick
def test_next_token_equals_the_ratio_of_sequence_probabilities(seed):
    source = random_source(seed, 3, 3)
    prefix = np.random.default_rng(seed).integers(3, size=4)
    predicted = source.next_token(source.beliefs(prefix[None]))[0, -1]
    total = joint_by_enumeration(source, prefix).sum()
    wanted = [joint_by_enumeration(source, [*prefix, v]).sum() / total for v in range(3)]
    np.testing.assert_allclose(predicted, wanted, atol=1e-12)


@given(seed=st.integers(0, 10**6), n_hidden=st.integers(2, 5), n_tokens=st.integers(2, 5))
@quick
def test_next_token_probabilities_sum_to_one(seed, n_hidden, n_tokens):
    source = random_source(seed, n_hidden, n_tokens)
    tokens = source.sample(np.random.default_rng(seed), 4, 6)
    probabilities = source.next_token(source.beliefs(tokens))
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=-1), 1, atol=1e-12)


@given(seed=st.integers(0, 10**6), n_hidden=st.integers(2, 5), n_tokens=st.integers(2, 5))
@quick
def test_expected_next_belief_is_the_belief_times_the_transition_matrix(seed, n_hidden, n_tokens):
    source = random_source(seed, n_hidden, n_tokens)
    prefix = np.random.default_rng(seed).integers(n_tokens, size=4)
    belief = source.beliefs(prefix[None])[:, -1:]
    weight = source.next_token(belief)[0, 0]
    longer = np.array([[*prefix, v] for v in range(n_tokens)])
    expected = weight @ source.beliefs(longer)[:, -1]
    np.testing.assert_allclose(expected, belief[0, 0] @ source.transition, atol=1e-12)


@pytest.mark.parametrize(("x", "alpha"), [(0.05, 0.85), (0.15, 0.6), (0.3, 0.4)])
def test_mess3_spectra_of_hidden_states_and_of_tokens(x, alpha):
    source = mess3(x, alpha)
    T, E, pi = source.transition, source.emission, source.stationary
    hidden = np.sort(np.linalg.eigvals(T).real)
    np.testing.assert_allclose(hidden, [1 - 3 * x, 1 - 3 * x, 1], atol=1e-12)
    # The best linear law for one-hot tokens is cov(now, then)ᵀ cov(now)⁻¹, from exact joints.
    token = pi @ E
    now = np.diag(token) - np.outer(token, token)
    pair = E.T @ np.diag(pi) @ T @ E - np.outer(token, token)
    law = np.sort(np.linalg.eigvals(np.linalg.pinv(now) @ pair).real)
    wanted = (1 - 3 * x) * ((3 * alpha - 1) / 2) ** 2
    np.testing.assert_allclose(law[-2:], wanted, atol=1e-12)


def test_mess3_has_the_numbers_of_the_chapter():
    def token_value(x, alpha):
        return (1 - 3 * x) * ((3 * alpha - 1) / 2) ** 2

    assert round(token_value(0.05, 0.85), 2) == 0.51
    assert round(token_value(0.15, 0.6), 3) == 0.088
    np.testing.assert_allclose(mess3(0.05, 0.85).stationary, 1 / 3, atol=1e-12)


def test_sampled_tokens_have_the_exact_frequencies_of_pairs():
    source = random_source(0, 3, 4)
    T, E, pi = source.transition, source.emission, source.stationary
    n = 60_000
    x = source.sample(np.random.default_rng(0), n, 2)
    counts = np.zeros((4, 4))
    np.add.at(counts, (x[:, 0], x[:, 1]), 1)
    pairs = E.T @ np.diag(pi) @ T @ E
    band = 5 * np.sqrt(n * pairs * (1 - pairs))
    assert (np.abs(counts - n * pairs) < band).all()
    # A mutant: tokens drawn without memory have other pairs.
    memoryless = np.outer(pi @ E, pi @ E)
    assert not (np.abs(counts - n * memoryless) < band).all()


def test_emission_frequencies_follow_each_hidden_state():
    # The hidden state can be read off: state 0 emits 0 and 1 alone, state 1 the rest.
    emission = np.array([[0.8, 0.2, 0, 0], [0, 0, 0.35, 0.65]])
    source = HiddenMarkov(np.array([[0.9, 0.1], [0.2, 0.8]]), emission)
    x = source.sample(np.random.default_rng(1), 5000, 8)
    state = (x >= 2).astype(int)
    counts = np.zeros((2, 4))
    np.add.at(counts, (state.ravel(), x.ravel()), 1)
    n = counts.sum(axis=1, keepdims=True)
    assert (np.abs(counts - n * emission) <= 5 * np.sqrt(n * emission * (1 - emission))).all()
    moves = np.zeros((2, 2))
    np.add.at(moves, (state[:, :-1].ravel(), state[:, 1:].ravel()), 1)
    n = moves.sum(axis=1, keepdims=True)
    band = 5 * np.sqrt(n * source.transition * (1 - source.transition))
    assert (np.abs(moves - n * source.transition) <= band).all()


def test_a_readable_state_makes_the_belief_certain():
    source = HiddenMarkov(np.array([[0.9, 0.1], [0.2, 0.8]]), np.eye(2))
    tokens = source.sample(np.random.default_rng(0), 3, 7)
    np.testing.assert_allclose(source.beliefs(tokens), np.eye(2)[tokens], atol=1e-12)


def test_spec_round_trip_keeps_every_bit():
    source = random_source(5, 3, 2)
    back = from_spec(source.spec())
    assert isinstance(back, HiddenMarkov)
    assert (back.transition == source.transition).all()
    assert (back.emission == source.emission).all()


def test_an_unknown_kind_of_source_is_named():
    with pytest.raises(ValueError, match="unknown source kind 'tree'; known: 'chain', 'hmm'"):
        from_spec({"kind": "tree"})


@pytest.mark.parametrize(
    ("transition", "emission", "message"),
    [
        (np.full((2, 2), 0.4), np.eye(2), "row 0 of the transition matrix sums to 0.8"),
        (np.full((2, 2), 0.5), np.full((2, 3), 0.5), "row 0 of the emission matrix sums to 1.5"),
        (np.full((2, 2), 0.5), np.eye(3), "one row a hidden state: 2 rows; got 3"),
        (np.full((2, 2), 0.5), np.array([[1.5, -0.5], [0.5, 0.5]]), "emission.* is negative"),
        (np.full((2, 2), 0.5), np.array([[np.nan, 1], [0.5, 0.5]]), "emission matrix holds NaN"),
        (np.full((2, 3), 1 / 3), np.eye(2), "transition matrix must be square"),
    ],
)
def test_bad_matrices_are_named(transition, emission, message):
    with pytest.raises(ValueError, match=message):
        HiddenMarkov(transition, emission)


@pytest.mark.parametrize("tokens", [[[0, 3]], [[-1, 0]]])
def test_tokens_outside_the_vocabulary_are_named(tokens):
    low, high = np.min(tokens), np.max(tokens)
    with pytest.raises(ValueError, match=rf"tokens must lie in 0…2; got {low}…{high}"):
        mess3(0.1, 0.7).beliefs(np.array(tokens))


def test_a_sequence_that_cannot_happen_is_named():
    source = HiddenMarkov(np.array([[0.0, 1.0], [1.0, 0.0]]), np.eye(2))
    with pytest.raises(ValueError, match=r"sequence 1 cannot come from this source.* position 2"):
        source.beliefs(np.array([[0, 1, 0], [0, 1, 1]]))


@pytest.mark.parametrize(("x", "alpha"), [(0.0, 0.5), (0.5, 0.5), (0.1, 1.2), (0.1, -0.1)])
def test_mess3_parameters_out_of_range_are_named(x, alpha):
    with pytest.raises(ValueError, match=r"x must lie strictly|alpha must lie in \[0, 1\]"):
        mess3(x, alpha)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (5,), (), (2, 3, 4)])
def test_tokens_of_a_wrong_shape_are_named(shape, unchecked):
    with pytest.raises(ValueError, match=r"\(sequences, length\).*tokens\[None\]") as error:
        mess3(0.1, 0.8).beliefs(np.zeros(shape, dtype=int))
    assert str(shape) in str(error.value)


@pytest.mark.parametrize("kind", [float, np.float32, bool])
def test_tokens_that_are_no_whole_numbers_are_named(kind, unchecked):
    with pytest.raises(ValueError, match=r"got \w+ of shape \(2, 3\).*astype\(int\)"):
        mess3(0.1, 0.8).beliefs(np.zeros((2, 3), dtype=kind))
