"""Rank curves against one intervention at a time, and planted redundancy with known ranks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import helpers.rank_curves
from helpers.interventions import rank_curve
from helpers.rank_curves import (
    accuracy,
    causal_ranks,
    principal_basis,
    random_basis,
    random_readout,
    random_readout_ranks,
    rank_curves,
)
from helpers.readout import Readout

quick = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)
both_modes = pytest.mark.parametrize("mode", ["keep", "remove"])


def drawn(seed, kind, D=12, K=6, N=60):
    """A read-out, activations, labels that it mostly gets right, and a mean from other data."""
    rng = np.random.default_rng(seed)
    scale = None if kind == "linear" else rng.uniform(0.5, 2, D)
    bias = 2 * rng.standard_normal(D) if kind == "norm and bias" else None
    readout = Readout(rng.standard_normal((D, K)), scale, bias, eps=0.1)
    H = rng.standard_normal((N, D)) @ rng.standard_normal((D, D)) + rng.standard_normal(D)
    labels = readout.logits(H + 0.5 * rng.standard_normal(H.shape)).argmax(axis=1)
    return readout, H, labels, H.mean(axis=0) + 0.1 * rng.standard_normal(D), rng


def one_by_one(readout, H, labels, basis, mean, mode):
    return rank_curve(H, basis, mean, mode, lambda X: accuracy(readout, X, labels))


def circles(p, modes, D, generator, copies=3):
    """p classes on a circle for each mode, in planes at right angles; the read-out sees them all.

    Each circle alone tells all classes apart (p is prime).  One axis of a circle tells only its
    two extremes right.  So with M circles the sufficient rank is 2 and the necessary one 2 M - 1.
    """
    angle = 2 * np.pi * np.outer(np.arange(p), modes) / p + generator.uniform(0, 6, len(modes))
    points = np.stack([np.cos(angle), np.sin(angle)], axis=-1).reshape(p, -1)
    planes = random_basis(D, 2 * len(modes), generator)
    labels = np.tile(np.arange(p), copies)
    unseen = generator.standard_normal((p * copies, D))
    H = points[labels] @ planes.T + unseen - unseen @ planes @ planes.T
    return Readout(planes @ points.T), H, labels, planes


@both_modes
@given(
    seed=seeds,
    kind=st.sampled_from(["linear", "norm", "norm and bias"]),
    m=st.integers(1, 11),
    orthonormal=st.booleans(),
)
@quick
def test_the_incremental_pass_equals_one_intervention_a_rank(mode, seed, kind, m, orthonormal):
    readout, H, labels, mean, rng = drawn(seed, kind)
    basis = random_basis(12, m, rng)
    if not orthonormal:  # z = (h - mean) B Bᵀ is a sum over columns whatever they are
        basis = basis + 0.2 * rng.standard_normal(basis.shape)
    curve = rank_curves(readout, H, labels, basis, mean, mode)
    np.testing.assert_array_equal(curve, one_by_one(readout, H, labels, basis, mean, mode))


@both_modes
def test_the_variance_of_the_norm_counts(mode, monkeypatch):
    """A mutant that keeps the first rank's σ must be noticed by the comparison above."""
    readout, H, labels, mean, rng = drawn(0, "norm and bias")
    basis = random_basis(12, 11, rng)
    wanted = one_by_one(readout, H, labels, basis, mean, mode)
    right = helpers.rank_curves._sigmas
    stale = lambda *given: np.repeat(right(*given)[:, :1], 11, axis=1)  # noqa: E731
    monkeypatch.setattr(helpers.rank_curves, "_sigmas", stale)
    assert (rank_curves(readout, H, labels, basis, mean, mode) != wanted).sum() >= 3


def test_the_whole_basis_keeps_everything_and_removal_leaves_a_constant_guess():
    readout, H, labels, mean, rng = drawn(3, "norm and bias")
    basis = random_basis(12, 12, rng)
    keep, remove = (rank_curves(readout, H, labels, basis, mean, m) for m in ("keep", "remove"))
    assert keep[-1] == accuracy(readout, H, labels)
    assert remove[-1] == np.mean(labels == readout.logits(mean[None]).argmax())


@given(seed=seeds, kind=st.sampled_from(["linear", "norm and bias"]))
@quick
def test_the_activations_are_left_as_they_were(seed, kind):
    readout, H, labels, mean, rng = drawn(seed, kind)
    before = H.copy(), mean.copy()
    for mode in ("keep", "remove"):
        rank_curves(readout, H, labels, random_basis(12, 3, rng), mean, mode)
    np.testing.assert_array_equal(H, before[0])
    np.testing.assert_array_equal(mean, before[1])


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_redundant_circles_raise_the_necessary_rank_only(count):
    rng = np.random.default_rng(count)
    readout, H, labels, planes = circles(11, np.arange(1, 6)[:count], 20, rng)
    assert accuracy(readout, H, labels) == 1
    found = causal_ranks(readout, H, labels, planes, np.zeros(20))
    assert found == (2, 2 * count - 1)


def test_directions_that_the_outputs_do_not_see_have_no_causal_rank():
    rng = np.random.default_rng(0)
    readout, H, labels, planes = circles(11, [1, 2], 20, rng)
    rest = np.linalg.svd(planes)[0][:, 4:]
    assert causal_ranks(readout, H, labels, rest, np.zeros(20)) == (None, None)


def test_tolerance_and_ceiling_move_the_ranks():
    rng = np.random.default_rng(1)
    readout, H, labels, planes = circles(11, [1, 2, 3], 20, rng)
    ranks = causal_ranks(readout, H, labels, planes, np.zeros(20), tolerance=0.9, ceiling=0.99)
    assert ranks[0] == 1
    assert 1 <= ranks[1] <= 5
    assert causal_ranks(readout, H, labels, planes, np.zeros(20), ceiling=0.0)[1] is None


def test_principal_directions_are_orthonormal_and_hold_the_largest_variances():
    H = np.random.default_rng(0).standard_normal((50, 6)) * [3, 0.1, 2, 0.2, 1, 0.3] + 5
    basis = principal_basis(H, 3)
    np.testing.assert_allclose(basis.T @ basis, np.eye(3), atol=1e-12)
    values = np.linalg.eigvalsh(np.cov(H, rowvar=False))[::-1]
    np.testing.assert_allclose((H @ basis).var(axis=0, ddof=1), values[:3])


def test_random_bases_are_orthonormal_and_uniform():
    rng = np.random.default_rng(0)
    drawn_bases = [random_basis(8, 3, rng) for _ in range(400)]
    for basis in drawn_bases[:5]:
        np.testing.assert_allclose(basis.T @ basis, np.eye(3), atol=1e-12)
    mean_projector = np.mean([Q @ Q.T for Q in drawn_bases], axis=0)
    np.testing.assert_allclose(mean_projector, np.eye(8) * 3 / 8, atol=0.06)


def test_a_random_read_out_keeps_the_norm_and_the_size():
    rng = np.random.default_rng(0)
    readout = Readout(0.3 * rng.standard_normal((64, 53)), np.ones(64), np.ones(64), 0.1)
    other = random_readout(readout, rng)
    assert other.scale is readout.scale and other.bias is readout.bias and other.eps == 0.1
    assert abs(np.corrcoef(other.W_U.ravel(), readout.W_U.ravel())[0, 1]) < 0.06
    assert np.std(other.W_U) == pytest.approx(0.3, rel=0.05)


def test_ace_on_a_random_linear_read_out_meets_both_conditions_by_construction():
    # K outputs have K - 1 differences.  On white activations the core is the span of these, so
    # keep changes no output and removal makes all of them constant, whatever the outputs are.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 20))
    H = np.linalg.qr(X - X.mean(axis=0))[0] + 0.01  # a covariance in proportion to I
    readout = Readout(rng.standard_normal((20, 5)))
    for _ in range(5):
        sufficient, necessary = random_readout_ranks(readout, H, H, 4, rng)
        assert sufficient is not None and sufficient <= 4
        assert necessary is not None and necessary <= 4


def test_a_random_read_outs_ceiling_allows_for_the_commonest_answer(monkeypatch):
    rng = np.random.default_rng(0)
    readout, H = Readout(rng.standard_normal((20, 5))), 2 + rng.standard_normal((1000, 20))

    def necessary_ranks():
        generator = np.random.default_rng(1)
        return [random_readout_ranks(readout, H, H, 4, generator)[1] for _ in range(10)]

    assert None not in necessary_ranks()
    # A mutant without the allowance: a constant guess scores above 2/K, so nothing is necessary.
    plain = lambda *given, ceiling: causal_ranks(*given)  # noqa: E731
    monkeypatch.setattr(helpers.rank_curves, "causal_ranks", plain)
    assert necessary_ranks().count(None) >= 5


@pytest.mark.parametrize(
    ("basis", "mean", "labels"), [((4, 2), (5,), (3,)), ((5, 2), (4,), (3,)), ((5, 2), (5,), (2,))]
)
def test_arrays_that_do_not_belong_together_are_named(basis, mean, labels, unchecked):
    with pytest.raises(ValueError, match=r"activations \(3, 5\) need a basis"):
        rank_curves(
            Readout(np.ones((5, 2))),
            np.ones((3, 5)),
            np.zeros(labels, dtype=int),
            np.ones(basis),
            np.ones(mean),
            "keep",
        )


def test_an_unknown_mode_is_named():
    readout, H, labels, mean, rng = drawn(0, "norm")
    with pytest.raises(ValueError, match="'keep' or 'remove'; got 'flip'"):
        rank_curves(readout, H, labels, random_basis(12, 2, rng), mean, "flip")


@pytest.mark.parametrize("rank", [0, 7])
def test_bases_of_impossible_size_are_named(rank):
    with pytest.raises(ValueError, match=f"got rank {rank}"):
        principal_basis(np.ones((9, 6)), rank)
    with pytest.raises(ValueError, match=f"got {rank}"):
        random_basis(6, rank, np.random.default_rng(0))


def test_activations_of_a_model_that_diverged_have_no_ranks():
    """The largest logit of NaN is the first: they would look as if one direction were all."""
    readout, H, labels, mean, rng = drawn(0, "norm and bias")
    basis = random_basis(12, 3, rng)
    with pytest.raises(ValueError, match="first in row 0 of 60"):
        causal_ranks(readout, np.full_like(H, np.nan), labels, basis, mean)
    with pytest.raises(ValueError, match="first in row 0 of 60"):
        random_readout_ranks(readout, H, np.full_like(H, np.nan), 3, rng)
    for basis_, mean_ in ((basis * np.nan, mean), (basis, mean * np.nan)):
        with pytest.raises(ValueError, match="basis or the mean holds NaN"):
            rank_curves(readout, H, labels, basis_, mean_, "keep")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda labels: labels[:1], r"60 activations need as many labels; got shape \(1,\)"),
        (lambda labels: labels[:, None], r"got shape \(60, 1\)"),
        (lambda labels: labels + 6, r"labels lie in 0…5"),
        (lambda labels: labels - 6, r"labels lie in 0…5"),
    ],
)
def test_labels_that_would_count_as_wrong_answers_are_named(change, says, unchecked):
    readout, H, labels, _, _ = drawn(0, "norm")
    with pytest.raises(ValueError, match=says):
        accuracy(readout, H, change(labels))


def test_labels_outside_the_outputs_have_no_curve():
    readout, H, labels, mean, rng = drawn(0, "norm")
    with pytest.raises(ValueError, match="labels lie in 0…5"):
        rank_curves(readout, H, labels + 6, random_basis(12, 3, rng), mean, "remove")


def test_a_random_read_outs_core_is_fitted_on_the_one_half_and_scored_on_the_other():
    # The halves vary in different directions, so a core of the one does nothing on the other.
    rng = np.random.default_rng(0)
    readout, planes = Readout(rng.standard_normal((20, 5))), random_basis(20, 20, rng)
    white = [rng.standard_normal((200, 10)) for _ in range(2)]
    white = [np.linalg.qr(X - X.mean(axis=0))[0] for X in white]
    fit, score = white[0] @ planes[:, :10].T, white[1] @ planes[:, 10:].T
    for _ in range(5):
        assert None not in random_readout_ranks(readout, score, score, 4, rng)
        assert random_readout_ranks(readout, fit, score, 4, rng) == (None, None)
