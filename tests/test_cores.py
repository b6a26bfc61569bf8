"""ACE against planted subspaces, closed forms, and an independent formula."""

from itertools import product

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.cores import (
    ace,
    ace_balanced,
    check_activations,
    check_jacobian,
    rank_of,
)
from helpers.interventions import necessary_rank, project, rank_curve, sufficient_rank

quick = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)
both_forms = pytest.mark.parametrize("extract", [ace, ace_balanced])


def frame(rng, D, r):
    """Orthonormal (D, r)."""
    return np.linalg.qr(rng.standard_normal((D, r)))[0]


def white(rng, n, r):
    """Samples (n, r) whose covariance is the identity to rounding, with mean 0."""
    X = rng.standard_normal((n, r))
    X -= X.mean(axis=0)
    return np.linalg.qr(X)[0] * np.sqrt(n - 1)


def spread(rng, r, low, high):
    """An (r, r) matrix with singular values between ``low`` and ``high``."""
    return frame(rng, r, r) * rng.uniform(low, high, r) @ frame(rng, r, r)


def distance(Q1, Q2):
    """Spectral norm of the difference of projectors: 0 for equal subspaces, 1 at right angles."""
    return np.linalg.norm(Q1 @ Q1.T - Q2 @ Q2.T, 2)


def principal(H, r):
    """Leading principal directions."""
    return np.linalg.svd(H - H.mean(axis=0), full_matrices=False)[2][:r].T


def planted(seed, D, r, *, per_input=False, n=200):
    """Activations and Jacobian whose C and O are block-diagonal in a random r-dimensional P.

    Outside P the activations are *larger* and the outputs hardly look, so that neither the
    principal components nor the activity alone gives P away.
    """
    rng = np.random.default_rng(seed)
    whole = frame(rng, D, D)
    P, rest = whole[:, :r], whole[:, r:]
    X = white(rng, n, D)
    H = X[:, :r] @ spread(rng, r, 0.5, 2) @ P.T
    H = H + X[:, r:] @ spread(rng, D - r, 2.5, 3) @ rest.T + rng.standard_normal(D)
    seen = np.vstack([spread(rng, r, 0.5, 2) @ P.T, spread(rng, D - r, 0.01, 0.05) @ rest.T])
    if per_input:  # a rotation of the outputs at each input leaves every JᵀJ as it is
        return H, np.stack([frame(rng, D, D) @ seen for _ in range(n)]), P
    return H, seen, P


def random_case(seed, rank_h, rank_j, D=12, n=80):
    """Activations of rank ``rank_h`` and one Jacobian of rank ``rank_j``, well conditioned."""
    rng = np.random.default_rng(seed)
    H = white(rng, n, rank_h) @ spread(rng, rank_h, 1, 2) @ frame(rng, D, rank_h).T
    J = spread(rng, rank_j, 1, 2) @ frame(rng, D, rank_j).T
    return H + rng.standard_normal(D), J


@both_forms
@given(seed=seeds, D=st.integers(3, 20), share=st.floats(0, 1), per_input=st.booleans())
@quick
def test_planted_subspace_is_recovered(extract, seed, D, share, per_input):
    r = 1 + int(share * (D - 2))
    H, J, P = planted(seed, D, r, per_input=per_input, n=60)
    core = extract(H, J, r)
    assert core.rank == r
    assert distance(core.basis, P) < 1e-6


def test_principal_components_miss_the_planted_subspace():
    H, J, P = planted(0, 12, 3)
    assert distance(principal(H, 3), P) > 0.9
    assert distance(ace(H, J, 3).basis, P) < 1e-6


@given(seed=seeds, rank_h=st.integers(1, 12), rank_j=st.integers(1, 12))
@quick
def test_both_forms_agree_at_every_rank_of_activations_and_jacobian(seed, rank_h, rank_j):
    H, J = random_case(seed, rank_h, rank_j)
    whole = min(rank_h, rank_j)
    one, two = ace(H, J, whole), ace_balanced(H, J, whole)
    m = min(len(one.energy), len(two.energy))
    np.testing.assert_allclose(one.energy[:m], two.energy[:m], atol=1e-10 * one.energy[0])
    assert distance(one.basis, two.basis) < 1e-6


@given(seed=seeds, n=st.integers(3, 30), K=st.integers(1, 4))
@quick
def test_both_forms_agree_with_a_jacobian_for_each_input(seed, n, K):
    rng = np.random.default_rng(seed)
    H, J = rng.standard_normal((n, 6)), rng.standard_normal((n, K, 6))
    one, two = ace(H, J, 1), ace_balanced(H, J, 1)
    m = min(len(one.energy), len(two.energy))
    np.testing.assert_allclose(one.energy[:m], two.energy[:m], atol=1e-10 * one.energy[0])
    if one.energy[1] < 0.95 * one.energy[0]:  # else the leading direction is hardly defined
        assert distance(one.basis, two.basis) < 1e-6


@both_forms
@given(seed=seeds, rank=st.integers(1, 6))
@quick
def test_core_spans_the_leading_eigenvectors_of_the_gramians_product(extract, seed, rank):
    rng = np.random.default_rng(seed)
    H, J = rng.standard_normal((50, 6)), rng.standard_normal((50, 3, 6))
    C = np.cov(H, rowvar=False)
    gramian = sum(j.T @ j for j in J) / len(J)
    # O v = λ C⁻¹ v is C O v = λ v, as a symmetric generalised problem
    values, vectors = scipy.linalg.eigh(gramian, np.linalg.inv(C))
    core = extract(H, J, rank)
    np.testing.assert_allclose(core.energy, values[::-1], rtol=1e-8)
    wanted = np.linalg.qr(vectors[:, ::-1][:, :rank])[0]
    gap = 1.0 if rank == 6 else (core.energy[rank - 1] - core.energy[rank]) / core.energy[0]
    assert distance(core.basis, wanted) < 1e-9 / gap


def test_one_jacobian_for_all_inputs_equals_the_same_one_at_each():
    rng = np.random.default_rng(0)
    H, J = rng.standard_normal((40, 8)), rng.standard_normal((3, 8))
    once, each = ace(H, J, 2), ace(H, np.tile(J, (40, 1, 1)), 2)
    np.testing.assert_allclose(once.energy, each.energy[: len(once.energy)], rtol=1e-10)
    assert distance(once.basis, each.basis) < 1e-10


@both_forms
@given(seed=seeds, rank=st.integers(1, 3))
@quick
def test_a_rotation_of_the_basis_rotates_the_core(extract, seed, rank):
    rng = np.random.default_rng(seed)
    H, J, _ = planted(seed, 8, 3, per_input=True, n=40)
    R = frame(rng, 8, 8)
    plain, rotated = extract(H, J, rank), extract(H @ R.T, J @ R.T, rank)
    np.testing.assert_allclose(plain.energy, rotated.energy, atol=1e-10 * plain.energy[0])
    gap = (plain.energy[rank - 1] - plain.energy[rank]) / plain.energy[0]
    assert distance(rotated.basis, R @ plain.basis) < 1e-10 / gap


def test_energies_survive_any_invertible_change_of_basis_and_the_core_moves_along():
    rng = np.random.default_rng(0)
    H, J = random_case(0, 12, 4)
    M = spread(rng, 12, 0.3, 3)
    plain, moved = ace(H, J, 4), ace(H @ M.T, J @ np.linalg.inv(M), 4)
    np.testing.assert_allclose(plain.energy, moved.energy, atol=1e-10 * plain.energy[0])
    assert distance(moved.basis, np.linalg.qr(M @ plain.basis)[0]) < 1e-9


@both_forms
def test_core_of_one_linear_read_out_is_the_covariance_times_it(extract):
    rng = np.random.default_rng(0)
    H = rng.standard_normal((100, 7)) @ spread(rng, 7, 0.2, 3)
    w = rng.standard_normal(7)
    wanted = np.cov(H, rowvar=False) @ w
    core = extract(H, w[None])
    assert core.rank == 1
    assert distance(core.basis, wanted[:, None] / np.linalg.norm(wanted)) < 1e-10
    # the read-out itself is another direction
    assert distance(core.basis, w[:, None] / np.linalg.norm(w)) > 0.1
    assert core.energy[0] == pytest.approx(w @ wanted)


@given(seed=seeds, K=st.integers(1, 4))
@quick
def test_what_removal_leaves_is_uncorrelated_with_linear_outputs(seed, K):
    rng = np.random.default_rng(seed)
    H = rng.standard_normal((100, 9)) @ spread(rng, 9, 0.2, 3) + rng.standard_normal(9)
    W = rng.standard_normal((K, 9))

    def worst(basis):
        left = project(H, basis, H.mean(axis=0), "remove")
        return np.abs(np.cov(left.T, (H @ W.T).T)[:9, 9:]).max()

    assert worst(ace(H, W, K).basis) < 1e-9
    assert worst(principal(H, K)) > 1e-3
    assert worst(frame(rng, 9, K)) > 1e-3


@given(seed=seeds, r=st.integers(1, 6))
@quick
def test_keep_remove_and_flip_fit_together(seed, r):
    rng = np.random.default_rng(seed)
    H, mean = rng.standard_normal((20, 6)), rng.standard_normal(6)
    Q = frame(rng, 6, r)
    kept, removed, flipped = (project(H, Q, mean, mode) for mode in ("keep", "remove", "flip"))
    np.testing.assert_allclose(kept + removed, H + mean, atol=1e-12)
    np.testing.assert_allclose(flipped, removed - (kept - mean), atol=1e-12)
    np.testing.assert_allclose(project(flipped, Q, mean, "flip"), H, atol=1e-12)
    np.testing.assert_allclose(project(kept, Q, mean, "keep"), kept, atol=1e-12)
    np.testing.assert_allclose((removed - mean) @ Q, 0, atol=1e-12)
    np.testing.assert_allclose((flipped - mean) @ Q, -(H - mean) @ Q, atol=1e-12)


def test_zero_ablation_projects_raw_activations():
    rng = np.random.default_rng(0)
    H, Q = rng.standard_normal((20, 6)) + 5, frame(rng, 6, 2)
    zero = project(H, Q, np.zeros(6), "keep")
    np.testing.assert_allclose(zero, H @ Q @ Q.T, atol=1e-12)
    assert np.abs(zero - project(H, Q, H.mean(axis=0), "keep")).max() > 1


def test_interventions_and_coordinates_take_sequences_as_they_are():
    rng = np.random.default_rng(0)
    H, J, _ = planted(0, 10, 3)
    core, shaped = ace(H, J, 3), H.reshape(20, 10, 10)
    np.testing.assert_allclose(core.coordinates(shaped).reshape(200, 3), core.coordinates(H))
    mean = rng.standard_normal(10)
    np.testing.assert_allclose(
        project(shaped, core.basis, mean, "flip").reshape(200, 10),
        project(H, core.basis, mean, "flip"),
    )


def test_coordinates_are_centred_and_rebuild_what_keep_keeps():
    H, J, _ = planted(0, 10, 3)
    core = ace(H, J, 3)
    z = core.coordinates(H)
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(
        core.mean + z @ core.basis.T, project(H, core.basis, core.mean, "keep"), atol=1e-10
    )
    np.testing.assert_allclose(core.basis.T @ core.basis, np.eye(3), atol=1e-12)


def test_energy_share_sets_the_rank():
    rng = np.random.default_rng(0)
    H = white(rng, 100, 5)
    J = np.diag(np.sqrt([0.5, 0.3, 0.15, 0.04, 0.01]))
    for share, rank in [(0.5, 1), (0.79, 2), (0.94, 3), (0.98, 4), (0.995, 5)]:
        assert ace(H, J, share).rank == rank
        assert ace_balanced(H, J, share).rank == rank


@pytest.mark.parametrize(("threshold", "rank"), [(0.5, 1), (0.51, 2), (0.8, 2), (1.0, 3)])
def test_rank_of_is_the_smallest_that_holds_the_share(threshold, rank):
    assert rank_of(np.array([5.0, 3.0, 2.0]), threshold) == rank


@given(seed=seeds, threshold=st.floats(0.01, 1))
@quick
def test_rank_of_holds_the_share_and_one_less_does_not(seed, threshold):
    energy = np.sort(np.random.default_rng(seed).random(9))[::-1]
    r = rank_of(energy, threshold)
    share = np.cumsum(energy) / energy.sum()
    assert share[r - 1] >= threshold - 1e-9
    assert r == 1 or share[r - 2] < threshold


def test_copies_make_the_necessary_rank_exceed_the_sufficient_one():
    # One sign, held in three orthogonal directions of falling strength; five more hold noise.
    rng = np.random.default_rng(0)
    sign = rng.choice([-1.0, 1.0], 400)
    H = np.hstack([sign[:, None] * [3, 2, 1], 0.1 * rng.standard_normal((400, 5))])

    def accuracy(h):
        guess = np.sign(np.round(h[:, :3], 9).sum(axis=1))
        return float(np.mean(guess == sign))

    basis, mean = np.eye(8)[:, :5], np.zeros(8)
    keep = rank_curve(H, basis, mean, "keep", accuracy)
    remove = rank_curve(H, basis, mean, "remove", accuracy)
    np.testing.assert_array_equal(keep, [1, 1, 1, 1, 1])
    np.testing.assert_array_equal(remove, [1, 1, 0, 0, 0])
    assert sufficient_rank(keep, accuracy(H)) == 1
    assert necessary_rank(remove, 0.5) == 3


def test_joint_information_makes_the_sufficient_rank_exceed_the_necessary_one():
    # All three signs are asked for at once: every direction is needed, each alone is necessary.
    H = np.array(list(product([-1.0, 1.0], repeat=3))) * [3, 2, 1]

    def accuracy(h):
        return float(np.mean((np.sign(np.round(h, 9)) == np.sign(H)).all(axis=1)))

    core = ace(H, np.eye(3), 3)
    mean = np.zeros(3)
    keep = rank_curve(H, core.basis, mean, "keep", accuracy)
    remove = rank_curve(H, core.basis, mean, "remove", accuracy)
    assert sufficient_rank(keep, accuracy(H)) == 3
    assert necessary_rank(remove, 2 / 8) == 1


def test_ranks_are_the_smallest_that_qualify_and_none_if_nothing_does():
    keep = np.array([0.3, 0.7495, 0.6, 0.75])
    assert sufficient_rank(keep, 0.75) == 2
    assert sufficient_rank(keep, 0.75, tolerance=1e-4) == 4
    assert sufficient_rank(keep, 0.9) is None
    remove = np.array([0.7, 0.26, 0.3, 0.25])
    assert necessary_rank(remove, 0.26) == 2
    assert necessary_rank(remove, 0.2) is None


@both_forms
@pytest.mark.parametrize("rank", [0, 13, -1])
def test_a_rank_outside_the_layer_is_named(extract, rank):
    H, J = random_case(0, 12, 12)
    with pytest.raises(ValueError, match=rf"must lie in 1…12 \(D = 12\); got {rank}"):
        extract(H, J, rank)


@both_forms
@pytest.mark.parametrize(("rank_h", "rank_j"), [(3, 12), (12, 3), (3, 5)])
def test_a_rank_above_what_is_active_and_relevant_is_named(extract, rank_h, rank_j):
    H, J = random_case(1, rank_h, rank_j)
    with pytest.raises(ValueError, match=r"rank 4 is above the 3 directions.* at most 3"):
        extract(H, J, 4)


@both_forms
def test_nan_activations_are_named_with_their_row(extract):
    H, J = random_case(0, 12, 3)
    H[7, 2] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity, first in row 7 of 80"):
        extract(H, J)


@both_forms
def test_constant_activations_are_named(extract):
    with pytest.raises(ValueError, match=r"activations are constant.*varied inputs"):
        extract(np.full((10, 4), 3.7), np.eye(4))


@both_forms
@pytest.mark.parametrize("shape", [(3, 5), (79, 3, 12), (80, 3, 11), (12,)])
def test_a_jacobian_that_does_not_fit_is_named(extract, shape):
    H, _ = random_case(0, 12, 3)
    with pytest.raises(ValueError, match=r"\(N, D\) = \(80, 12\); got shape"):
        extract(H, np.ones(shape))


@both_forms
@pytest.mark.parametrize("shape", [(12,), (1, 12), (4, 5, 6), (5, 0)])
def test_activations_of_a_wrong_shape_are_named(extract, shape, unchecked):
    with pytest.raises(ValueError, match=r"must be \(N, D\) with N ≥ 2 and D ≥ 1; got shape"):
        extract(np.ones(shape), np.eye(shape[-1]))


def test_a_bad_jacobian_is_named():
    H = np.random.default_rng(0).standard_normal((5, 3))
    with pytest.raises(ValueError, match="the Jacobian holds NaN"):
        check_jacobian(np.full((2, 3), np.inf), H)
    with pytest.raises(ValueError, match="do not depend on this layer"):
        check_jacobian(np.zeros((2, 3)), H)


def test_outputs_that_look_only_where_nothing_is_active_are_named():
    rng = np.random.default_rng(0)
    H = rng.standard_normal((20, 4)) * [1, 1, 0, 0]
    with pytest.raises(ValueError, match="no direction is both active and relevant"):
        ace(H, np.array([[0.0, 0, 1, 0]]))
    with pytest.raises(ValueError, match="no direction is both active and relevant"):
        ace_balanced(H, np.array([[0.0, 0, 1, 0]]))


def test_single_precision_becomes_double():
    H = check_activations(np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32))
    assert H.dtype == np.float64


@pytest.mark.parametrize("threshold", [0.0, -0.5, 1.1])
def test_an_energy_threshold_outside_its_range_is_named(threshold):
    with pytest.raises(ValueError, match=r"energy threshold lies in \(0, 1\]"):
        rank_of(np.ones(3), threshold)


def test_an_unknown_intervention_is_named():
    with pytest.raises(ValueError, match="'keep', 'remove' or 'flip'; got 'swap'"):
        project(np.ones((2, 3)), np.eye(3), np.zeros(3), "swap")


def as_stated(H, J, r):
    """Leading r directions of C O and their eigenvalues, from the definition, nothing rescaled."""
    C, gramian = np.cov(H, rowvar=False), np.mean([j.T @ j for j in J], axis=0)
    values, vectors = np.linalg.eig(C @ gramian)
    order = np.argsort(-values.real)[:r]
    return np.linalg.qr(vectors.real[:, order])[0], values.real[order]


@both_forms
def test_rescaling_inside_changes_nothing_on_ordinary_data(extract):
    rng = np.random.default_rng(0)
    # distinct energies and full rank, so that every subspace is well defined
    H = white(rng, 100, 5) @ np.diag([5.0, 4, 3, 2, 1]) @ frame(rng, 5, 5) + 2
    J = rng.standard_normal((100, 3, 5))
    for r in (1, 2, 3):
        basis, energy = as_stated(H, J, r)
        core = extract(H, J, r)
        assert distance(core.basis, basis) < 1e-12
        np.testing.assert_allclose(core.energy[:r], energy, rtol=1e-12)
        np.testing.assert_allclose(core.mean, H.mean(axis=0), rtol=1e-14)


@both_forms
@pytest.mark.parametrize(
    ("size_h", "size_j"), [(1e-14, 1), (1e-150, 1e20), (1e160, 1e-160), (1e150, 1), (1, 1e-14)]
)
def test_the_core_does_not_depend_on_the_units(extract, size_h, size_j):
    H, J, _ = planted(0, 8, 3, per_input=True)
    plain, scaled = extract(H, J, 3), extract(size_h * H, size_j * J, 3)
    assert distance(plain.basis, scaled.basis) < 1e-12
    np.testing.assert_allclose(scaled.mean / size_h, plain.mean, rtol=1e-10)
    np.testing.assert_allclose(
        scaled.energy / (size_h * size_j) ** 2, plain.energy, atol=1e-10 * plain.energy[0]
    )


@both_forms
@pytest.mark.parametrize("size", [1e160, 1e-160])
def test_energies_beyond_double_precision_are_named(extract, size):
    H, J, _ = planted(0, 8, 3)
    with pytest.raises(ValueError, match=r"leave the range of float64.*Rescale one of them"):
        extract(size * H, J * (size / 1e10 if size < 1 else size), 3)


@pytest.mark.parametrize("size", [1e-14, 1e-300, 1.0, 1e160, 1e300])
def test_activations_are_constant_relative_to_their_own_size(size):
    H = np.random.default_rng(0).standard_normal((9, 3))
    np.testing.assert_array_equal(check_activations(size * H), size * H)
    with pytest.raises(ValueError, match="activations are constant"):
        check_activations(size * (1 + 1e-14 * H))
    check_activations(size * (1 + 1e-10 * H))


def test_activations_that_are_all_zero_are_constant():
    with pytest.raises(ValueError, match="activations are constant"):
        check_activations(np.zeros((4, 3)))


@both_forms
@pytest.mark.parametrize("integer", [np.int64(2), np.int32(2), np.uint8(2)])
def test_numpy_integers_are_ranks(extract, integer):
    H, J = random_case(0, 12, 4)
    assert extract(H, J, integer).rank == 2


@both_forms
@pytest.mark.parametrize("kind", [np.float32, np.float64, float])
def test_numpy_floats_are_energy_shares(extract, kind):
    H = white(np.random.default_rng(0), 100, 3)
    J = np.diag(np.sqrt([0.5, 0.3, 0.2]))
    assert extract(H, J, kind(0.75)).rank == 2
    assert extract(H, J, kind(1)).rank == 3


@both_forms
@pytest.mark.parametrize("rank", [None, "3", True, np.True_, 1j, [3]])
def test_a_rank_that_is_no_number_is_named(extract, rank, unchecked):
    H, J = random_case(0, 12, 4)
    with pytest.raises(TypeError, match=r"an int is the rank, a float in \(0, 1\] the energy"):
        extract(H, J, rank)


@both_forms
@pytest.mark.parametrize("rank", [3.0, 0.0, -0.5, np.nan])
def test_a_float_rank_that_is_no_share_is_named(extract, rank):
    H, J = random_case(0, 12, 4)
    with pytest.raises(ValueError, match=r"an int is the rank, a float in \(0, 1\] the energy"):
        extract(H, J, rank)


def test_an_energy_share_of_huge_energies_is_found():
    assert rank_of(np.array([1e308, 1e308, 1e300]), 0.99) == 2


@both_forms
@pytest.mark.parametrize("shape", [(0, 12), (80, 0, 12)])
def test_a_jacobian_without_outputs_is_named(extract, shape):
    H, _ = random_case(0, 12, 3)
    with pytest.raises(ValueError, match=r"Jacobian is empty: shape .*at least one output"):
        extract(H, np.ones(shape))


@pytest.mark.parametrize(
    ("basis", "mean"), [((5, 2), (4,)), ((4, 2), (5,)), ((4,), (4,)), ((4, 2), ())]
)
def test_a_basis_or_mean_of_another_dimension_is_named(basis, mean, unchecked):
    with pytest.raises(ValueError, match=r"must share D; got \(3, 4\), .*from one layer"):
        project(np.ones((3, 4)), np.ones(basis), np.ones(mean), "keep")
