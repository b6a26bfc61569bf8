"""A core carried into another model, on planted rotations whose answer is known."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from helpers.alignment.haar import haar
from helpers.alignment.maps import Alignment, fit_affine, fit_rotation
from helpers.carrying import (
    Side,
    active_share,
    carry,
    causal_rank,
    cut,
    haar_alignment,
    judge,
    random_angles,
    row_jacobian,
    sample_curve,
    transplanted,
)
from helpers.comparison import principal_angles
from helpers.cores import ace
from helpers.cross_model import collect
from helpers.readout import Readout
from tests.rotated_pair import rotated_pair

D, K = 12, 4


def planted(seed, R=None, noise=0.3):
    """K classes in few dimensions of D, in the frame R; the read-out sees no others."""
    draw = np.random.default_rng(seed)
    R = np.eye(D) if R is None else R
    centres = np.linalg.qr(np.random.default_rng(5).standard_normal((D, K)))[0].T * 4
    labels = draw.integers(K, size=600)
    H = (centres[labels] + noise * draw.standard_normal((600, D))) @ R
    W = centres.T
    readout = Readout(R.T @ W)
    fit, held_out = H[:300], H[300:]
    answers = labels[300:]

    def score(x):
        return float(np.mean(readout.logits(x).argmax(axis=1) == answers))

    core = ace(fit, readout.jacobian(fit[:1])[0], K - 1)
    return Side(fit, held_out, core, score, 1.3 / K)


@pytest.fixture(scope="module")
def pair():
    """Two models of one function on the same inputs, and the rotation between them."""
    R = haar(np.random.default_rng(3), D, 1)[0]
    return planted(0), planted(0, R), R


def test_a_planted_rotation_carries_the_core_exactly(pair):
    A, B, R = pair
    to_B = fit_rotation(A.fit, B.fit)
    found = judge(carry(A.core.basis, to_B), B)
    assert np.abs(to_B.R - R).max() < 1e-8
    assert found.largest < 1e-4
    assert found.keep_minus_base == pytest.approx(0, abs=0.005)
    assert found.remove_over_limit <= 1
    assert found.flip < 0.2 < found.base


def test_the_right_subspace_with_wrong_coordinates_fails_the_transplant(pair):
    A, B, _ = pair
    to_B = fit_rotation(A.fit, B.fit)
    assert transplanted(A, B, to_B) == pytest.approx(B.base, abs=0.005)
    Q = A.core.basis
    cycle = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))[0]
    turned = np.eye(D) + Q @ (cycle - np.eye(3)) @ Q.T  # within the core, nothing elsewhere
    wrong = replace(to_B, R=turned @ to_B.R)
    assert judge(carry(Q, wrong), B).largest < 1e-4
    assert transplanted(A, B, wrong) < B.base - 0.3


def test_an_affine_map_carries_it_too_where_the_other_frame_is_sheared(pair):
    A, B, _ = pair
    shear = np.eye(D) + 1.5 * np.random.default_rng(1).standard_normal((D, D)) / np.sqrt(D)
    target = replace(
        B, fit=A.fit @ shear, core=replace(B.core, basis=np.linalg.qr(shear.T @ A.core.basis)[0])
    )
    by = {f: carry(A.core.basis, f(A.fit, target.fit)) for f in (fit_affine, fit_rotation)}
    largest = {f: judge(basis, target).largest for f, basis in by.items()}
    assert largest[fit_affine] < 1e-4 < 1 < largest[fit_rotation]


def test_a_random_rotation_carries_it_nowhere(pair):
    A, B, _ = pair
    found = judge(carry(A.core.basis, haar_alignment(A, B, np.random.default_rng(0))), B)
    assert found.largest > np.quantile(
        random_angles(D, 3, 3, 200, np.random.default_rng(1))[:, -1], 0.05
    )
    assert found.keep < B.base - 0.1
    assert found.remove > B.limit


def test_angles_under_a_haar_draw_do_not_depend_on_the_core():
    draw = np.random.default_rng(0)
    basis, own = (np.linalg.qr(draw.standard_normal((D, 3)))[0] for _ in range(2))
    zero = np.zeros(D)
    moved = np.array(
        [principal_angles(carry(basis, Alignment(R, zero, zero)), own) for R in haar(draw, D, 300)]
    )
    drawn = random_angles(D, 3, 3, 300, draw)
    assert np.abs(moved.mean(axis=0) - drawn.mean(axis=0)).max() < 3


def test_the_causal_rank_of_planted_classes_is_one_less_than_their_number(pair):
    A, _, _ = pair
    assert causal_rank(A) == K - 1
    assert cut(A.core, 2).basis.shape == (D, 2)
    with pytest.raises(ValueError, match="ranks 1…3"):
        cut(A.core, 4)


def test_a_core_without_a_necessary_rank_counts_whole(pair):
    A, _, _ = pair
    assert causal_rank(replace(A, limit=0.0)) == A.core.rank


def test_the_share_inside_the_active_subspace():
    H = np.random.default_rng(0).standard_normal((500, D)) * np.where(np.arange(D) < 4, 1, 1e-4)
    inside, outside = np.eye(D)[:, :2], np.eye(D)[:, 9:]
    half = np.eye(D)[:, [0, 9]]
    shares = [active_share(basis, H) for basis in (inside, outside, half)]
    assert shares == pytest.approx([1, 0, 0.5], abs=1e-3)


def test_more_samples_carry_better_and_few_do_not(pair):
    A, B, _ = pair
    curve = sample_curve(A, B, [2, 30, 300], np.random.default_rng(0))
    assert curve[0] < -0.2 < -0.01 < curve[-1]
    with pytest.raises(ValueError, match="300 samples"):
        sample_curve(A, B, [301], np.random.default_rng(0))


def test_samples_are_whole_groups(pair):
    A, B, _ = pair
    one_group_is_a_hundred_rows = np.repeat([0, 1, 2], 100)
    found = sample_curve(A, B, [2], np.random.default_rng(0), one_group_is_a_hundred_rows)
    assert found[0] > -0.01


def test_a_map_that_kills_the_core_is_refused(pair):
    A, _, _ = pair
    nothing = Alignment(np.zeros((D, D)), np.zeros(D), np.zeros(D))
    with pytest.raises(ValueError, match="to nothing"):
        carry(A.core.basis, nothing)
    with pytest.raises(ValueError, match="one site"):
        carry(np.eye(D + 1)[:, :2], nothing)


def test_the_jacobian_of_rows_is_that_of_the_closed_form():
    draw = np.random.default_rng(0)
    H, W = draw.standard_normal((7, D)), draw.standard_normal((D, K))
    readout = Readout(W, np.ones(D), np.zeros(D))

    def forward(x):
        return torch.layer_norm(x, (D,)) @ torch.from_numpy(W).float()

    assert np.abs(row_jacobian(forward, H) - readout.jacobian(H)).max() < 1e-4


def test_the_core_of_a_turned_bracket_model_is_the_turned_core():
    site, part = "blocks.1.hook_resid_mid", slice(40, 49)
    given = rotated_pair()
    bases = {}
    for name, model in (("A", given.A), ("B", given.B)):
        H = collect(model, given.tokens, [site], mask=given.labels.mask)[site]
        run = copy.deepcopy(model).float()  # others share the pair, in double

        def forward(x, run=run):
            return run(start_at=site, resid=x[:, None])[:, 0, part]

        bases[name] = ace(H, row_jacobian(forward, H), 4).basis
        model.double()
    zero = np.zeros(64)
    carried = carry(bases["A"], Alignment(given.R, zero, zero))
    assert principal_angles(carried, bases["B"])[-1] < 0.5
    assert principal_angles(bases["A"], bases["B"])[-1] > 45
