"""A's shift operator in B: exact under a planted rotation, useless where no frequency is shared."""

import numpy as np
import pytest

from helpers.alignment.haar import haar
from helpers.alignment.maps import Alignment, fit_affine
from helpers.carried_shift import carried_shift, frequencies_of
from helpers.cores import Core
from helpers.cyclic import shift_eigenvalues

P, D = 23, 16


def clocks(modes, seed, sizes=None):
    """Class means (p, D) with one circle a mode, in a frame of the seed, and their core."""
    angle = 2 * np.pi * np.outer(np.arange(P), modes) / P
    waves = np.concatenate([np.cos(angle), np.sin(angle)], axis=1)
    waves *= np.tile(np.ones(len(modes)) if sizes is None else sizes, 2)
    frame = haar(np.random.default_rng(seed), D, 1)[0][: 2 * len(modes)]
    return waves @ frame, Core(frame.T, np.zeros(D), np.ones(2 * len(modes)))


def between(frame_A, frame_B):
    """The rotation that takes one frame to the other, and anything elsewhere."""
    full = [np.linalg.svd(frame, full_matrices=True)[2] for frame in (frame_A.T, frame_B.T)]
    r = frame_A.shape[1]
    R = frame_A @ frame_B.T + full[0][r:].T @ full[1][r:]
    return Alignment(R, np.zeros(D), np.zeros(D))


def test_the_same_clocks_in_another_frame_obey_the_carried_operator():
    (means_A, A), (means_B, B) = clocks([2, 5, 7], 0), clocks([2, 5, 7], 1, [3, 1, 2])
    to_B = between(A.basis, B.basis)
    assert carried_shift(A, means_A, B, means_B, to_B) == pytest.approx(1, abs=1e-9)
    random = Alignment(haar(np.random.default_rng(5), D, 1)[0], np.zeros(D), np.zeros(D))
    assert carried_shift(A, means_A, B, means_B, random) < 0.5


def test_other_clocks_are_of_the_same_kind_and_do_not_obey():
    (means_A, A), (means_B, B) = clocks([2, 5], 0), clocks([4, 11], 1)
    found = carried_shift(A, means_A, B, means_B, between(A.basis, B.basis))
    assert found < 0.5
    for means, core, modes in ((means_A, A, [2, 5]), (means_B, B, [4, 11])):
        values = shift_eigenvalues(means @ core.basis)
        assert np.abs(np.abs(values) - 1).max() < 1e-9
        assert frequencies_of(values, P) == modes


def test_only_the_shared_clock_is_predicted():
    (means_A, A), (means_B, B) = clocks([2, 5], 0), clocks([2, 9], 1, [2, 1])
    planes = [np.r_[0, 2], np.r_[1, 3]]
    shared_only = A.basis[:, planes[0]] @ B.basis[:, planes[0]].T
    rest = np.linalg.svd(shared_only)
    R = shared_only + rest[0][:, 2:] @ rest[2][2:]  # the other clock goes elsewhere
    found = carried_shift(A, means_A, B, means_B, Alignment(R, np.zeros(D), np.zeros(D)))
    assert found < 0.85
    assert found > 0.3


def test_maps_that_are_no_rotation_and_other_classes_are_refused():
    (means_A, A), (means_B, B) = clocks([2, 5], 0), clocks([2, 5], 1)
    sheared = fit_affine(means_A, means_B, ridge=1.0)
    with pytest.raises(ValueError, match="orthogonal"):
        carried_shift(A, means_A, B, means_B, sheared)
    with pytest.raises(ValueError, match="same classes"):
        carried_shift(A, means_A, B, means_B[:-1], between(A.basis, B.basis))
