"""Circuits against plain products, regions of known arrangements, a transcoder of a planted map."""

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ortho_group

from helpers.lenses import (
    effective_rank,
    gaussian_like,
    growth,
    head_circuits,
    pattern_hashes,
    polyhedral,
    prefix_hashes,
    score_transcoder,
    train_transcoder,
    vestigial_heads,
)
from helpers.sae import SAEConfig
from helpers.tasks import dyck


def rng(seed=100):
    return np.random.default_rng(seed)


def some_weights(g, d=12, d_head=3):
    shape = (2, 4, d, d_head)
    W_Q, W_K, W_V = (torch.from_numpy(g.standard_normal(shape)) for _ in range(3))
    return W_Q, W_K, W_V, torch.from_numpy(g.standard_normal((2, 4, d_head, d)))


def test_circuits_are_those_of_the_whole_products():
    W_Q, W_K, W_V, W_O = some_weights(rng())
    found = head_circuits(W_Q, W_K, W_V, W_O)
    for name, product in (("QK", W_Q @ W_K.mT / 3**0.5), ("OV", W_V @ W_O)):
        values = torch.linalg.svdvals(product).numpy()
        np.testing.assert_allclose(found[name].singular_values, values[..., :3])
        assert values[..., 3:].max() < 1e-12
        np.testing.assert_allclose(found[name].norm, torch.linalg.matrix_norm(product).numpy())


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(100, 10**6))
def test_a_basis_within_a_head_changes_no_circuit(seed):
    g = rng(seed)
    W_Q, W_K, W_V, W_O = some_weights(g)
    M = torch.from_numpy(g.standard_normal((3, 3)) + 3 * np.eye(3))
    back = torch.linalg.inv(M)
    one = head_circuits(W_Q, W_K, W_V, W_O)
    two = head_circuits(W_Q @ M, W_K @ back.T, W_V @ M, back @ W_O)
    for name in one:
        np.testing.assert_allclose(one[name].singular_values, two[name].singular_values, rtol=1e-6)
    # the mutant: the factors' own norms do change
    assert not torch.allclose((W_V @ M).norm(), W_V.norm(), rtol=1e-3)


def test_effective_rank_counts_equal_values():
    values = np.array([[2.0, 2, 0, 0], [1, 0, 0, 0], [3, 3, 3, 3], [0, 0, 0, 0]])
    np.testing.assert_allclose(effective_rank(values), [2, 1, 4, np.nan])
    assert 1 < effective_rank(np.array([1.0, 0.1])) < 2


def test_weights_that_diverged_are_refused():
    W_Q, *rest = some_weights(rng())
    W_Q[0, 0, 0, 0] = torch.nan
    with pytest.raises(ValueError, match="did training diverge"):
        head_circuits(W_Q, *rest)


def test_vestigial_heads_are_large_and_idle():
    norm = np.array([[5.0, 1, 2, 8], [7, 3, 4, 6]])  # median 4.5
    effect = np.array([[0.0, 0.0, 3, 2], [0.09, 1, 1, -1]])
    found = vestigial_heads(norm, effect, 10.0)
    assert found.mask.tolist() == [[True, False, False, False], [True, False, False, True]]
    # four are large, four idle: by chance there is one unless the idle are the four small ones
    draws = list(combinations(range(8), 4))
    some = np.mean([bool(set(draw) & set(np.flatnonzero(found.large))) for draw in draws])
    assert found.chance == pytest.approx(some)


def test_vestigial_needs_the_largest_of_all_effects():
    norm, effect = np.ones((2, 4)), np.ones((2, 4))
    assert not vestigial_heads(norm, effect, 1.0).mask.any()
    for largest in (0.0, 0.5):
        with pytest.raises(ValueError, match="largest effect"):
            vestigial_heads(norm, effect, largest)


def lines(n, offset, g):
    """Pre-activations of n lines in the plane, at 200,000 points around them."""
    angles = np.pi * (np.arange(n) + g.uniform(0.2, 0.8, n)) / n
    W = np.stack([np.cos(angles), np.sin(angles)])
    points = 6 * g.standard_normal((200_000, 2))
    return points @ W + offset * g.uniform(-1, 1, n)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_generic_lines_cut_the_plane_into_as_many_regions_as_theory_says(n):
    found = growth(pattern_hashes(lines(n, 3.0, rng(102))))
    assert found.distinct[-1] == 1 + n + n * (n - 1) // 2


@pytest.mark.parametrize("n", [2, 3, 6])
def test_lines_through_one_point_cut_it_into_2n(n):
    assert growth(pattern_hashes(lines(n, 0.0, rng()))).distinct[-1] == 2 * n


@pytest.mark.parametrize("d_mlp", [1, 7, 64, 65, 256])
def test_hashes_tell_patterns_apart_as_the_bits_do(d_mlp):
    g = rng()
    pre = g.standard_normal((500, d_mlp))[g.integers(0, 500, 3000)]
    found = pattern_hashes(pre)
    _, wanted, counts = np.unique(pre > 0, axis=0, return_inverse=True, return_counts=True)
    assert len(np.unique(found)) == len(counts)
    assert len({*zip(found.tolist(), wanted.reshape(-1).tolist(), strict=True)}) == len(counts)
    # one unit decides, wherever it is; size and zero do not
    one = np.repeat(pre[:1], d_mlp + 1, axis=0)
    one[np.arange(d_mlp), np.arange(d_mlp)] *= -1
    assert len(np.unique(pattern_hashes(one))) == d_mlp + 1
    np.testing.assert_array_equal(pattern_hashes(3 * pre), found)
    np.testing.assert_array_equal(pattern_hashes(np.maximum(pre, 0)), found)


def test_a_hash_over_two_layers_is_of_both():
    g = rng()
    one, two = (g.standard_normal((400, 5)) for _ in range(2))
    found = growth(pattern_hashes(two, before=pattern_hashes(one))).distinct[-1]
    assert found == len(np.unique(np.concatenate([one, two], axis=1) > 0, axis=0))
    assert found > growth(pattern_hashes(two)).distinct[-1]


def test_growth_is_that_of_a_set():
    hashes = rng().zipf(1.3, 5000).astype(np.uint64)
    sizes = [1, 10, 999, 5000]
    found = growth(hashes, sizes)
    assert found.distinct.tolist() == [len(set(hashes[:n].tolist())) for n in sizes]
    counts = np.unique(hashes, return_counts=True)[1]
    assert found.new == (counts == 1).sum() / 5000
    assert growth(hashes).sizes[-1] == 5000


def test_slope_is_one_where_all_is_new_and_zero_where_nothing_is():
    assert growth(np.arange(1000, dtype=np.uint64)).slope == pytest.approx(1)
    assert growth(np.zeros(1000, np.uint64)).slope == 0


def test_the_chance_of_something_new_is_what_comes_next():
    g = rng()
    hashes = g.zipf(1.5, 40_000).astype(np.uint64)
    found = growth(hashes[:20_000], [10_000, 20_000])
    after = growth(hashes, [20_000, 22_000]).distinct
    assert found.new == pytest.approx((after[1] - after[0]) / 2000, abs=0.02)


def test_no_model_shows_more_patterns_than_it_gets_inputs():
    rows = dyck.train_rows(rng(), 300)
    mask = dyck.label(rows).mask
    found = prefix_hashes(rows, mask)
    wanted = [
        tuple(row[: t + 1])
        for row, real in zip(rows, mask, strict=True)
        for t in np.flatnonzero(real)
    ]
    assert len(np.unique(found)) == len(set(wanted))
    assert len({*zip(found.tolist(), wanted, strict=True)}) == len(set(wanted))


def test_what_cannot_be_counted():
    for sizes in ([5], [5, 5], [0, 3], [3, 11]):
        with pytest.raises(ValueError, match="must rise within"):
            growth(np.arange(10, dtype=np.uint64), sizes)
    with pytest.raises(ValueError, match="NaN"):
        pattern_hashes(np.full((2, 3), np.nan))


def test_gaussian_rows_have_the_mean_and_covariance():
    X = rng().standard_normal((500, 4)) @ ortho_group.rvs(4, random_state=1) * [1, 2, 3, 4] + 5
    found = gaussian_like(X, rng(), 200_000)
    np.testing.assert_allclose(found.mean(axis=0), X.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(np.cov(found.T), np.cov(X.T, ddof=0), atol=0.25)
    assert polyhedral.gaussian_like(X, rng()).shape == X.shape


def planted(g, n, d=8, units=16):
    """y = ReLU(x W − 1) V: sparse, and far from linear."""
    shape = np.random.default_rng(7)
    W, V = shape.standard_normal((d, units)), shape.standard_normal((units, d))
    W /= np.linalg.norm(W, axis=0)
    X = g.standard_normal((n, d)) + 0.3
    return X, 2 + 0.1 * np.maximum(X @ W - 1, 0) @ V


CONFIG = SAEConfig(expansion=4, k=8, steps=800, lr=1e-2)


def test_a_transcoder_learns_what_no_linear_map_can():
    train, test = planted(rng(), 6000), planted(rng(101), 2000)
    made = train_transcoder(*train, CONFIG, init_seed=100, data_seed=100)
    found = score_transcoder(made, train, test)
    assert found.linear < 0.75
    assert found.transcoder > 0.9
    missed = (1 - found.transcoder) / (1 - found.linear)
    assert found.beyond_linear == pytest.approx(1 - missed)
    assert made.losses[-50:].mean() < 0.2 * made.losses[:5].mean()
    code = made.encode(torch.from_numpy(test[0]).float())
    assert ((code > 0).sum(dim=1) <= 8).all() and (code >= 0).all()
    assert found.alive == pytest.approx(float((code > 0).any(dim=0).double().mean()))


def test_a_linear_layer_leaves_a_transcoder_nothing_to_find():
    g = rng()
    A = g.standard_normal((8, 8))
    X, X_new = g.standard_normal((3000, 8)), g.standard_normal((500, 8))
    Y, Y_new = (x @ A + 1 + 0.1 * g.standard_normal(x.shape) for x in (X, X_new))
    made = train_transcoder(X, Y, CONFIG, init_seed=100, data_seed=100)
    found = score_transcoder(made, (X, Y), (X_new, Y_new))
    assert found.linear == pytest.approx(1 - 0.01 / 8, abs=1e-3)
    assert found.beyond_linear < 0
    exact = score_transcoder(made, (X, X @ A), (X_new, X_new @ A))
    assert exact.linear == pytest.approx(1) and np.isnan(exact.beyond_linear)


def test_shuffled_targets_teach_nothing():
    X, Y = planted(rng(), 3000)
    mixed = rng().permutation(Y)
    made = train_transcoder(X, mixed, CONFIG, init_seed=100, data_seed=100)
    assert score_transcoder(made, (X, mixed), planted(rng(101), 1000)).transcoder < 0.05


def test_units_of_both_sides_make_no_difference():
    X, Y = planted(rng(), 1000)
    short = SAEConfig(expansion=4, k=8, steps=40)
    one = train_transcoder(X, Y, short, init_seed=100, data_seed=100)
    two = train_transcoder(64 * X, 0.25 * Y, short, init_seed=100, data_seed=100)
    np.testing.assert_allclose(two.predict(64 * X), 0.25 * one.predict(X), rtol=1e-4, atol=1e-4)


def test_seeds_decide_a_transcoder():
    X, Y = planted(rng(), 500)
    short = SAEConfig(expansion=2, k=4, steps=5)
    runs = [
        train_transcoder(X, Y, short, init_seed=a, data_seed=b).predict(X)
        for a, b in ((100, 100), (100, 100), (101, 100), (100, 101))
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2]) and not np.array_equal(runs[0], runs[3])


def test_transcoders_that_make_no_sense():
    X, Y = planted(rng(), 100)
    seeds = {"init_seed": 100, "data_seed": 100}
    with pytest.raises(ValueError, match="set k"):
        train_transcoder(X, Y, SAEConfig(), **seeds)
    with pytest.raises(ValueError, match="k counts active features"):
        train_transcoder(X, Y, SAEConfig(expansion=1, k=9), **seeds)
    with pytest.raises(FloatingPointError, match="lower lr"):
        train_transcoder(X, Y, SAEConfig(k=8, lr=1e20), **seeds)


def test_rows_that_do_not_match(unchecked):
    X, Y = planted(rng(), 100)
    with pytest.raises(ValueError, match="row for row; got 100 and 50"):
        train_transcoder(X, Y[:50], CONFIG, init_seed=100, data_seed=100)
