"""Comparison tools against theory for random subspaces, and against planted structure."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.comparison import (
    cca,
    consensus,
    principal_angles,
    projector_overlap,
    random_subspace,
    weight_cosine,
)

quick = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)


@pytest.mark.parametrize(("D", "r", "s"), [(64, 3, 3), (20, 2, 5), (8, 7, 4)])
def test_overlap_of_random_subspaces_has_its_expectation(D, r, s):
    rng = np.random.default_rng(0)
    draws = [
        projector_overlap(random_subspace(rng, D, r), random_subspace(rng, D, s))
        for _ in range(2000)
    ]
    error = np.std(draws) / np.sqrt(len(draws))
    assert abs(np.mean(draws) - np.sqrt(r * s) / D) < 5 * error


def test_random_subspaces_prefer_no_direction():
    rng = np.random.default_rng(0)
    projectors = np.array([Q @ Q.T for Q in (random_subspace(rng, 6, 2) for _ in range(4000))])
    error = projectors.std(axis=0) / np.sqrt(len(projectors))
    assert (np.abs(projectors.mean(axis=0) - np.eye(6) * 2 / 6) < 5 * error).all()


def test_overlap_is_one_for_a_subspace_and_itself_and_zero_at_right_angles():
    Q = random_subspace(np.random.default_rng(0), 9, 9)
    turned = Q[:, :4] @ random_subspace(np.random.default_rng(1), 4, 4)
    assert projector_overlap(Q[:, :4], turned) == pytest.approx(1)
    assert projector_overlap(Q[:, :4], Q[:, 4:]) == pytest.approx(0, abs=1e-12)


@given(seed=seeds, angles=st.lists(st.floats(1, 89), min_size=1, max_size=4))
@quick
def test_planted_angles_are_found_smallest_first(seed, angles):
    r = len(angles)
    Q = random_subspace(np.random.default_rng(seed), 10, 2 * r)
    radians = np.radians(angles)
    tilted = Q[:, :r] * np.cos(radians) + Q[:, r:] * np.sin(radians)
    np.testing.assert_allclose(principal_angles(Q[:, :r], tilted), np.sort(angles), atol=1e-6)
    overlap = np.sum(np.cos(radians) ** 2) / r
    assert projector_overlap(Q[:, :r], tilted) == pytest.approx(overlap)


def test_angles_between_a_plane_and_a_line_are_one():
    Q = np.eye(3)
    assert principal_angles(Q[:, :2], Q[:, 2:]) == pytest.approx([90])
    assert principal_angles(Q[:, :2], Q[:, 1:2]) == pytest.approx([0], abs=1e-6)


@given(seed=seeds, r=st.integers(1, 4), s=st.integers(1, 4))
@quick
def test_cca_does_not_see_affine_maps(seed, r, s):
    rng = np.random.default_rng(seed)
    Z1 = rng.standard_normal((60, r))
    Z2 = Z1 @ rng.standard_normal((r, s)) + rng.standard_normal((60, s))
    before = cca(Z1, Z2)
    map1 = random_subspace(rng, r, r) * rng.uniform(0.5, 2, r) @ random_subspace(rng, r, r)
    map2 = random_subspace(rng, s, s) * rng.uniform(0.5, 2, s) @ random_subspace(rng, s, s)
    after = cca(Z1 @ map1 + 3, Z2 @ map2 - 7)
    assert len(before) == min(r, s)
    np.testing.assert_allclose(before, after, atol=1e-9)


@given(seed=seeds)
@quick
def test_cca_finds_planted_correlations(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((80, 6))
    U = np.linalg.qr(X - X.mean(axis=0))[0]  # centred and orthonormal, so correlations are exact
    wanted = np.array([0.9, 0.5, 0.1])
    Z2 = U[:, :3] * wanted + U[:, 3:] * np.sqrt(1 - wanted**2)
    mix = random_subspace(rng, 3, 3)
    np.testing.assert_allclose(cca(U[:, :3] @ mix, Z2 @ mix.T), wanted, atol=1e-10)


def test_cca_of_permuted_rows_has_its_small_expectation():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((500, 3))
    assert cca(Z, Z) == pytest.approx([1, 1, 1])
    draws = [np.sum(cca(Z, Z[rng.permutation(500)]) ** 2) for _ in range(400)]
    error = np.std(draws) / np.sqrt(len(draws))
    # independent 3-dimensional subspaces of the 499 centred dimensions
    assert abs(np.mean(draws) - 9 / 499) < 5 * error


def cohort(seed, *, n_models=3, shared=2, private=4, loud=3.0):
    """Models that mix ``shared`` signals with louder private ones, exactly uncorrelated.

    Returns activations, and for each model the directions that read the shared signals alone and
    those that carry them.
    """
    rng = np.random.default_rng(seed)
    n, total = 300, shared + n_models * private
    X = rng.standard_normal((n, total))
    F = np.linalg.qr(X - X.mean(axis=0))[0] * np.sqrt(n - 1)
    D = shared + private
    activations, readers, carriers = [], [], []
    for m in range(n_models):
        start = shared + m * private
        parts = np.hstack([F[:, :shared], loud * F[:, start : start + private]])
        mix = random_subspace(rng, D, D) * rng.uniform(0.7, 1.4, D) @ random_subspace(rng, D, D)
        activations.append(parts @ mix + rng.standard_normal(D))
        readers.append(np.linalg.qr(np.linalg.inv(mix)[:, :shared])[0])
        carriers.append(np.linalg.qr(mix[:shared].T)[0])
    return activations, readers, carriers


@given(seed=seeds, n_models=st.integers(2, 4), shared=st.integers(1, 3))
@quick
def test_consensus_recovers_the_shared_component(seed, n_models, shared):
    activations, readers, carriers = cohort(seed, n_models=n_models, shared=shared)
    for kind, wanted in (("weights", readers), ("patterns", carriers)):
        found = consensus(activations, shared, keep=1 - 1e-9, basis=kind)
        for basis, planted in zip(found, wanted, strict=True):
            assert principal_angles(basis, planted).max() < 1e-4, kind


def test_reading_and_carrying_a_shared_component_are_different_subspaces():
    _, readers, carriers = cohort(0)
    assert principal_angles(readers[0], carriers[0]).max() > 5


def test_an_unknown_consensus_basis_is_named():
    with pytest.raises(ValueError, match="'weights' or 'patterns'; got 'both'"):
        consensus(cohort(0)[0], 2, basis="both")


def test_principal_components_are_not_the_shared_component():
    activations, readers, _ = cohort(0)
    H = activations[0] - activations[0].mean(axis=0)
    loudest = np.linalg.svd(H, full_matrices=False)[2][:2].T
    assert principal_angles(loudest, readers[0]).max() > 30


def test_consensus_of_activations_that_do_not_fill_their_space():
    activations = cohort(0)[0]
    rng = np.random.default_rng(1)
    wide = [random_subspace(rng, 12, 6) for _ in activations]
    narrow = consensus(activations, 2, keep=1.0)
    embedded = [H @ Q.T for H, Q in zip(activations, wide, strict=True)]
    found = consensus(embedded, 2, keep=1.0)
    for basis, plain, Q in zip(found, narrow, wide, strict=True):
        assert principal_angles(basis, Q @ plain).max() < 1e-4


def test_consensus_needs_the_same_inputs(unchecked):
    activations = cohort(0)[0]
    with pytest.raises(ValueError, match="same inputs, row for row"):
        consensus([activations[0], activations[1][:-1]], 2)


@pytest.mark.parametrize("rank", [0, 19])
def test_consensus_rank_above_what_the_models_have_is_named(rank):
    activations = cohort(0)[0]  # 3 models of 6 dimensions
    with pytest.raises(ValueError, match=rf"must lie in 1…18; got {rank}"):
        consensus(activations, rank, keep=1 - 1e-9)


def state(seed, gain=1.0, size=100):
    generator = torch.Generator().manual_seed(seed)
    return {
        "w": torch.randn(size, size, generator=generator),
        "bias": torch.zeros(size),
        "gain": torch.full((size,), gain),
    }


def test_weight_cosine_of_independent_weights_is_within_its_band():
    a, b = state(0), state(1)
    assert abs(weight_cosine(a, b)) < 5 / 100  # standard deviation 1/√10,000
    assert weight_cosine(a, a) == pytest.approx(1)


def test_weights_that_start_alike_make_models_look_similar():
    a, b = state(0, gain=100.0), state(1, gain=100.0)
    assert abs(weight_cosine(a, b)) < 5 / 100
    assert weight_cosine(a, b, skip_fixed=False) > 0.95


def test_weight_cosine_changes_sign_with_the_weights():
    a = state(0)
    assert weight_cosine(a, {k: -v for k, v in a.items()}) == pytest.approx(-1)


def test_bases_of_different_spaces_are_named(unchecked):
    with pytest.raises(ValueError, match=r"one space .*got shapes \(4, 2\) and \(5, 2\)"):
        projector_overlap(np.eye(4)[:, :2], np.eye(5)[:, :2])


def test_cca_of_different_inputs_is_named(unchecked):
    with pytest.raises(ValueError, match=r"same inputs .*got shapes \(5, 2\) and \(6, 2\)"):
        cca(np.ones((5, 2)), np.ones((6, 2)))


def test_cca_of_constant_coordinates_is_named():
    with pytest.raises(ValueError, match="coordinates are constant"):
        cca(np.ones((5, 2)), np.random.default_rng(0).standard_normal((5, 2)))


@pytest.mark.parametrize("rank", [0, 6])
def test_a_random_subspace_larger_than_the_space_is_named(rank):
    with pytest.raises(ValueError, match=rf"must lie in 1…5; got {rank}"):
        random_subspace(np.random.default_rng(0), 5, rank)


@pytest.mark.parametrize("compare", [cca, principal_angles, projector_overlap])
@pytest.mark.parametrize(("which", "name"), [(0, "first"), (1, "second")])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_the_side_that_is_not_finite_is_named(compare, which, name, bad):
    pair = [random_subspace(np.random.default_rng(i), 6, 2 + i) for i in range(2)]
    pair[which][3, 1] = bad
    wanted = rf"the {name} one holds NaN or infinity; got shapes \(6, 2\) and \(6, 3\)"
    with pytest.raises(ValueError, match=wanted):
        compare(*pair)


@pytest.mark.parametrize("compare", [cca, principal_angles, projector_overlap])
@pytest.mark.parametrize("shape", [(6,), (0, 2), (6, 0), (6, 2, 1)])
def test_what_is_no_matrix_with_entries_is_named(compare, shape, unchecked):
    with pytest.raises(ValueError, match=r"two non-empty matrices.*got shapes \(6, 2\) and"):
        compare(np.eye(6)[:, :2], np.ones(shape))


def test_angles_between_different_spaces_are_named(unchecked):
    with pytest.raises(ValueError, match=r"as many rows.*got shapes \(4, 2\) and \(5, 2\)"):
        principal_angles(np.eye(4)[:, :2], np.eye(5)[:, :2])
