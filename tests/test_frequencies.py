"""Modes, Jaccard, and what a map can carry, on streams whose waves and directions are planted."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.alignment.pair_fit import pair_fit
from helpers.cyclic import class_means, mode_power
from helpers.frequencies import (
    KINDS,
    embedding_modes,
    jaccard,
    kind_labels,
    modes_used,
    shared_variance,
    wave_shares,
)

quick = settings(max_examples=25, deadline=None, derandomize=True)
P, D = 23, 40
SETS = st.sets(st.integers(1, P // 2), min_size=1, max_size=5)


def stream(rng, sizes, D=D, noise=0.0):
    """cos and sin of each (kind, k), of amplitude ``sizes[kind, k]``, in a random frame."""
    labels = kind_labels(P)
    columns = []
    for (kind, k), size in sizes.items():
        angle = 2 * np.pi * k * labels[kind] / P
        columns += [size * np.cos(angle), size * np.sin(angle)]
    frame = np.linalg.qr(rng.standard_normal((D, D)))[0]
    H = np.stack(columns, axis=1) @ frame[: len(columns)]
    return H + noise * rng.standard_normal(H.shape) + rng.standard_normal(D)


def clock(modes, size=1.0):
    return {("sum", k): size for k in modes}


@quick
@given(SETS, st.integers(0, 99))
def test_planted_modes_are_found_in_the_stream_and_in_the_embedding(modes, seed):
    rng = np.random.default_rng(seed)
    H = stream(rng, {**clock(modes), ("b", 3): 5.0}, noise=0.05)
    assert modes_used(H, P) == modes
    assert modes_used(H, P, kind="b") == {3}
    W_E = class_means(stream(rng, {("a", k): 1.0 for k in modes}), kind_labels(P)["a"], P)
    assert embedding_modes(W_E) == modes


def test_the_threshold_is_a_share_of_the_class_means_variance():
    H = stream(np.random.default_rng(0), {("sum", 2): 1.0, ("sum", 5): 0.2, ("a", 7): 9.0})
    share = 0.04 / 1.04
    assert modes_used(H, P, threshold=share * 0.99) == {2, 5}
    assert modes_used(H, P, threshold=share * 1.01) == {2}


@given(SETS, SETS)
def test_jaccard_is_symmetric_and_counts(S, T):
    assert jaccard(S, T) == jaccard(T, S)
    assert jaccard(S, S) == 1
    assert jaccard(S, T) == pytest.approx(len(S & T) / (len(S) + len(T) - len(S & T)))


def test_wave_shares_add_up_and_agree_with_the_fourier_transform_over_both_inputs():
    rng = np.random.default_rng(1)
    H = rng.standard_normal((P * P, 5)) + stream(rng, {("sum", 2): 2, ("difference", 4): 1}, 5)
    shares = wave_shares(H, P)
    assert sum(part.sum() for part in shares.values()) == pytest.approx(1)
    F = np.linalg.norm(np.fft.fft2(H.reshape(P, P, 5), axes=(0, 1)), axis=2) ** 2
    F[0, 0] = 0
    for k in range(1, P // 2 + 1):
        cells = {"a": (k, 0), "b": (0, k), "sum": (k, k), "difference": (k, -k)}
        for kind, cell in cells.items():  # its mirror holds as much
            assert shares[kind][k - 1] == pytest.approx(2 * F[cell] / F.sum())
    own = mode_power(class_means(H, kind_labels(P)["sum"], P))
    np.testing.assert_allclose(shares["sum"] / shares["sum"].sum(), own)


def test_products_of_two_frequencies_are_mixed():
    a, b = np.divmod(np.arange(P * P), P)
    H = np.cos(2 * np.pi * 2 * a / P) * np.cos(2 * np.pi * 5 * b / P)
    shares = wave_shares(np.stack([H, 2 * H], axis=1), P)
    assert shares["mixed"] == pytest.approx(1)


def fitted(A, B):
    return pair_fit(A, B, np.random.default_rng(3))


def test_shared_modes_let_a_rotation_through_although_each_stream_has_its_own_frame():
    rng = np.random.default_rng(4)
    A, B = (stream(rng, clock({1, 4, 9}), noise=0.02) for _ in range(2))
    found, theory = fitted(A, B), shared_variance(A, B, P)
    assert theory.total == pytest.approx(1, abs=0.02)
    assert theory.rotation == pytest.approx(1, abs=0.05)
    assert min(found.rotation, found.scaled, found.affine) > 0.97
    assert max(found.null) < 0.1


def test_disjoint_modes_let_nothing_through():
    rng = np.random.default_rng(5)
    A, B = stream(rng, clock({1, 4, 9}), noise=0.01), stream(rng, clock({2, 5}), noise=0.01)
    found, theory = fitted(A, B), shared_variance(A, B, P)
    assert theory.total < 0.01
    assert found.affine < 0.02 and found.scaled < 0.05
    # three modes of A against two of B
    assert theory.rotation == pytest.approx(-1.5, abs=0.1)
    assert found.rotation == pytest.approx(-1.5, abs=0.25)
    assert found.rotation < 0.2 and found.null[0] == pytest.approx(found.rotation, abs=0.25)


def test_the_affine_map_reaches_the_shared_share_of_the_variance_kind_by_kind():
    rng = np.random.default_rng(6)
    A = stream(rng, {("sum", 1): 1.0, ("sum", 4): 0.5, ("b", 2): 0.7, ("b", 6): 0.7})
    sizes = {("sum", 4): 1.0, ("sum", 7): 0.8, ("b", 6): 0.6, ("a", 6): 0.9}
    B = stream(rng, sizes, noise=0.02)
    theory, found = shared_variance(A, B, P), fitted(A, B)
    whole = sum(size**2 for size in sizes.values())
    assert theory.by_kind["sum"] == pytest.approx(1.0 / whole, abs=0.02)
    assert theory.by_kind["b"] == pytest.approx(0.36 / whole, abs=0.02)
    assert theory.total == pytest.approx(1.36 / whole, abs=0.03)
    assert theory.held["a"] == pytest.approx(0.81 / whole, abs=0.02)
    assert found.affine == pytest.approx(theory.total, abs=0.05)
    assert found.rotation < found.affine  # sizes differ
    # a mutant that forgets the kinds would count mode 6 of a as shared
    assert theory.by_kind["a"] < 0.02


@quick
@given(st.integers(0, 10**6), st.floats(0.2, 4))
def test_no_rotation_beats_its_ceiling(seed, scale):
    rng = np.random.default_rng(seed)
    drawn = [
        {(str(rng.choice(KINDS)), int(rng.integers(1, 5))): rng.uniform(0.2, 2) for _ in range(5)}
        for _ in range(2)
    ]
    A, B = scale * stream(rng, drawn[0], 12), stream(rng, drawn[1], 12)
    ceiling = shared_variance(A, B, P)
    X, Y = A - A.mean(0), B - B.mean(0)
    nuclear = np.linalg.svd(X.T @ Y, compute_uv=False).sum()
    best = (2 * nuclear - np.sum(X**2)) / np.sum(Y**2)
    assert best <= ceiling.rotation + 1e-9
    assert nuclear**2 / np.sum(X**2) / np.sum(Y**2) <= ceiling.scaled + 1e-9
    # orthogonal frames: nothing is lost, so the ceiling is met
    assert best == pytest.approx(ceiling.rotation)


def test_a_scale_ruins_the_rotation_and_not_the_scaled_one():
    rng = np.random.default_rng(7)
    A, B = (stream(rng, clock({1, 4, 9}), noise=0.02) for _ in range(2))
    found, theory = fitted(3 * A, B), shared_variance(3 * A, B, P)
    assert theory.rotation == pytest.approx(2 * 3 - 9, abs=0.1)
    assert found.rotation == pytest.approx(2 * 3 - 9, abs=0.1)
    assert found.scaled > 0.97 and theory.scaled > 0.97 and theory.total > 0.97


@pytest.mark.usefixtures("unchecked")
def test_bad_input():
    H = stream(np.random.default_rng(0), clock({1}))
    with pytest.raises(ValueError, match="order a · p"):
        modes_used(H[:-1], P)
    with pytest.raises(ValueError, match="kind is one of"):
        modes_used(H, P, kind="product")
    with pytest.raises(ValueError, match="two empty sets"):
        jaccard([], [])
    with pytest.raises(ValueError, match="too few"):
        pair_fit(H[:60], H[:60], np.random.default_rng(0))
    with pytest.raises(ValueError, match="one width"):
        shared_variance(H, H[:, :3], P)
