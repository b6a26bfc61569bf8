"""Mantel's test: exact, of its size on independent matrices, and awake on planted ones."""

import itertools
import math

import numpy as np
import pytest

from helpers.mantel import mantel


def matrix(rng, s, node=0.0):
    """Symmetric noise; ``node`` adds to both ends of a pair, so that pairs that share one agree."""
    M, lift = rng.standard_normal((s, s)), node * rng.standard_normal(s)
    return M + M.T + lift[:, None] + lift


def plain(X, Y):
    """The p-value by the formula."""
    upper = np.triu_indices(len(X), 1)

    def r(order):
        return np.corrcoef(X[upper], Y[np.ix_(order, order)][upper])[0, 1]

    orders = [list(order) for order in itertools.permutations(range(len(X)))]
    own = r(orders[0])
    return own, np.mean([r(order) >= own - 1e-12 for order in orders])


@pytest.mark.parametrize("s", [3, 4, 5])
def test_the_exact_test_is_the_plain_formula(s):
    rng = np.random.default_rng(s)
    X, Y = matrix(rng, s), matrix(rng, s)
    found = mantel(X, Y)
    own, p = plain(X, Y)
    assert found.correlation == pytest.approx(own)
    assert found.p_value == pytest.approx(p)
    assert found.floor == 1 / math.factorial(s)


def test_its_size_on_independent_matrices_where_pairs_share_models():
    rng = np.random.default_rng(0)
    trials = [mantel(matrix(rng, 5, 2.0), matrix(rng, 5, 2.0)).p_value for _ in range(600)]
    # 6 of 120 relabellings: 0.05 exactly; one standard deviation is 0.009
    assert np.mean(np.array(trials) <= 0.05 + 1e-9) == pytest.approx(0.05, abs=0.027)
    # a mutant: the 10 pairs as independent points reject far too often
    rng, upper, wrong = np.random.default_rng(0), np.triu_indices(5, 1), 0
    for _ in range(300):
        x, y = (matrix(rng, 5, 2.0)[upper] for _ in range(2))
        r = np.corrcoef(x, y)[0, 1]
        wrong += r * math.sqrt(8 / (1 - r**2)) > 1.8595  # t of 8 degrees of freedom, 5 %
    assert wrong / 300 > 0.09


def test_planted_association_with_six_models_reaches_its_floor_and_its_power():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(40):
        X = matrix(rng, 6)
        hits += mantel(X, X + matrix(rng, 6, 0.0) * 0.6).p_value < 0.05
    assert hits >= 34
    X = matrix(rng, 6)
    same = mantel(X, 3 * X + 2)
    assert same.correlation == pytest.approx(1)
    assert same.p_value == pytest.approx(1 / 720) and same.floor == 1 / 720
    assert mantel(X, -X).p_value > 0.9  # one-sided


def test_many_models_take_draws():
    rng = np.random.default_rng(2)
    X = matrix(rng, 10)
    found = mantel(X, X + 0.1 * matrix(rng, 10), generator=rng, permutations=499)
    assert found.p_value == pytest.approx(1 / 500) and found.floor == 1 / 500
    with pytest.raises(ValueError, match="give a generator"):
        mantel(X, X)


def test_nothing_can_be_associated_with_equal_entries():
    found = mantel(matrix(np.random.default_rng(3), 5), np.ones((5, 5)))
    assert math.isnan(found.correlation) and found.p_value == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda M: M[:2, :2], "at least 3"),
        (lambda M: M[:3], "square"),
        (lambda M: np.triu(M), "symmetric"),
        (lambda M: np.where(np.eye(5)[[1, 0, 2, 3, 4]] > 0, np.nan, M), "NaN"),
        (lambda M: M[:4, :4], "same models"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_matrices(change, says):
    M = matrix(np.random.default_rng(4), 5)
    np.fill_diagonal(M, 0)
    with pytest.raises(ValueError, match=says):
        mantel(change(M), M)
