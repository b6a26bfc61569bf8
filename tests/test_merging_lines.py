"""Alignments that are planted and found again, and barriers along the line between two models."""

from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch

from helpers.alignment.maps import fit_affine, fit_rotation
from helpers.merging import (
    alignments,
    barrier,
    blend,
    by_activations,
    by_core,
    core_rotation,
    ensemble,
    fold,
    line,
    match,
    pair_lines,
    permutation,
    raw_line,
    readout_core,
    score,
    stitched,
    streams,
    transform,
)
from helpers.merging.elements import rows
from helpers.merging.exams import answer, grade
from helpers.merging.forms import TENSORS
from helpers.merging.matching import costs, distance, match_heads, match_neurons
from helpers.symmetry.group import Symmetry, random_element
from tests.merging_models import CONFIGS, exam, module

KINDS = tuple(CONFIGS)
THREE = (0, 0.5, 1)


def folded(kind, seed=100):
    return fold(module(kind, seed).state_dict(), CONFIGS[kind])


def turned(form, seed=7):
    """The same function under a random element of the group."""
    return transform(form, random_element(np.random.default_rng(seed), form))


def own_exam(kind, form, seed=100):
    """Rows whose right answers are those of this model: whatever differs from it is worse."""
    rows_ = exam(kind, seed)
    values = answer(form, rows_, torch.float64)
    right = [values[:, part].argmax(1).numpy() for part in rows_.outputs.values()]
    return replace(rows_, answers=np.stack(right, axis=1))


def double_line(A, B, rows_, alphas=THREE, **more):
    return line(A, B, rows_, alphas, dtype=torch.float64, **more)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by", ["weights", "activations"])
def test_a_copy_in_another_basis_is_brought_back(kind, by):
    A = folded(kind)
    B, rows_ = turned(A), own_exam(kind, A)
    assert double_line(A, B, rows_).barrier > 0.05  # so that there is something to align
    if by == "weights":
        g = match(B, A, np.random.default_rng(100)).symmetry
    else:
        g = by_activations(B, A, exam(kind, 102))
    back = transform(B, g)
    assert double_line(A, back, rows_).barrier < 1e-6
    assert score(back, rows_, torch.float64).total == pytest.approx(
        score(B, rows_, torch.float64).total, abs=1e-9
    )


def test_permuted_heads_and_neurons_are_brought_back_by_permutation_alone():
    A = folded("markov")
    g = random_element(np.random.default_rng(7), A)
    still = Symmetry.identity(A)
    shuffled = transform(A, replace(still, heads=g.heads, neurons=g.neurons))
    back = transform(shuffled, permutation(shuffled, A))
    assert max(np.abs(getattr(back, n) - getattr(A, n)).max() for n in TENSORS) < 1e-12
    # with the residual stream turned as well, permutations do not help
    other = transform(turned(A), permutation(turned(A), A))
    assert double_line(A, other, own_exam("markov", A)).barrier > 0.05


@pytest.mark.parametrize("seed", range(101, 104))
def test_permutations_are_the_best_of_all(seed):
    """Of three heads and, on their own, of five neurons: every permutation tried."""
    A, B = folded("no norms", seed), folded("no norms", seed + 10)
    c, still = costs(A), Symmetry.identity(B)
    found = permutation(B, A)

    def heads(first):
        g = replace(still, heads=np.stack([first, still.heads[1]]))
        return distance(transform(B, g), A, c)

    best = min(permutations(range(3)), key=lambda p: heads(np.array(p)))
    assert tuple(found.heads[0]) == best

    five = replace_neurons(B, 5), replace_neurons(A, 5)
    found = match_neurons(*five, Symmetry.identity(five[0]), costs(five[1]), scale=False)

    def neurons(second):
        still = Symmetry.identity(five[0])
        g = replace(still, neurons=np.stack([still.neurons[0], second]))
        return distance(transform(five[0], g), five[1], costs(five[1]))

    best = min(permutations(range(5)), key=lambda p: neurons(np.array(p)))
    assert tuple(found.neurons[1]) == best


def replace_neurons(form, n):
    """A form with only the first n neurons of each layer."""
    parts = {"W_in": form.W_in[:, :, :n], "b_in": form.b_in[:, :n], "W_out": form.W_out[:, :n]}
    return replace(form, **parts)


def test_every_step_of_the_search_lowers_the_distance():
    A, B = folded("addition"), folded("addition", 101)
    c, still = costs(A), Symmetry.identity(B)
    one = match_heads(B, A, still, c)
    two = match_neurons(B, A, one, c)
    course = [distance(transform(B, g), A, c) for g in (still, one, two)]
    course.append(match(B, A, np.random.default_rng(100)).distance)
    assert all(after < before for before, after in pairwise(course))


def test_a_random_element_does_worse_than_none_for_one_model():
    A = folded("dyck")
    rows_ = own_exam("dyck", A)
    assert double_line(A, A, rows_).barrier < 1e-12
    g = alignments(A, A, exam("dyck", 101), np.random.default_rng(100), starts=0)
    lines = {name: double_line(A, transform(A, one), rows_).barrier for name, one in g.items()}
    assert lines.pop("random") > 0.05 and max(lines.values()) < 1e-6


def test_a_core_is_carried_and_the_rest_stays_close_to_where_it_is():
    A, fit = folded("markov"), exam("markov", 101)
    B = turned(A)
    (core_A, Y), (core_B, X) = (readout_core(form, fit, 2) for form in (A, B))
    R = core_rotation(core_B, core_A, X, Y)
    np.testing.assert_allclose(R @ R.T, np.eye(16), atol=1e-12)
    np.testing.assert_allclose(X @ R @ core_A.basis, Y @ core_A.basis, atol=1e-8)
    inside = core_B.basis @ core_B.basis.T
    rest = np.eye(16) - inside
    # no other map of the rest is closer to the identity: Haar draws of it are tried
    own = np.linalg.norm((R - np.eye(16)).T @ rest)
    for seed in range(20):
        N = np.linalg.qr(core_B.basis, mode="complete")[0][:, 2:]
        H = np.linalg.qr(np.random.default_rng(seed).standard_normal((14, 14)))[0]
        other = (N @ H @ N.T + inside) @ R
        assert np.linalg.norm((other - np.eye(16)).T @ rest) > own
    assert np.array_equal(by_core(B, A, fit, 2).heads, Symmetry.identity(B).heads)


def test_cores_of_different_ranks_are_refused():
    A, fit = folded("markov"), exam("markov")
    (one, X), (two, Y) = readout_core(A, fit, 1), readout_core(A, fit, 2)
    with pytest.raises(ValueError, match="one rank for both"):
        core_rotation(one, two, X, Y)


# ---- lines


def test_barriers_of_curves_whose_barrier_is_known():
    at = np.linspace(0, 1, 11)
    assert barrier(at, 1 + 2 * at) == pytest.approx(0, abs=1e-12)  # straight
    assert barrier(at, at**2 - 3 * at + 5) == pytest.approx(0, abs=1e-12)  # convex
    assert barrier(at, 4 * at * (1 - at) + at) == pytest.approx(1)  # concave, over a slope


@pytest.mark.parametrize("alphas", [(0, 0.5), (0.1, 1), (0, 0.5, 0.5, 1), (0,)])
def test_alphas_rise_from_0_to_1(alphas):
    with pytest.raises(ValueError, match="rise from 0 to 1"):
        barrier(alphas, np.zeros(len(alphas)))


@pytest.mark.parametrize("kind", ["markov", "dyck"])
def test_a_raw_line_runs_through_averaged_states(kind):
    nets = [module(kind, seed) for seed in (100, 101)]
    states, rows_ = [net.state_dict() for net in nets], exam(kind)
    found = raw_line(*states, CONFIGS[kind], rows_, (0, 0.3, 1), dtype=torch.float64)
    mixed = module(kind)
    mixed.load_state_dict({n: 0.7 * v + 0.3 * states[1][n] for n, v in states[0].items()})
    for net, one in zip((nets[0], mixed, nets[1]), found.scores, strict=True):
        with torch.no_grad():
            values = net(torch.from_numpy(rows_.tokens))[torch.from_numpy(rows_.mask)]
        assert one.total == pytest.approx(grade(values, rows_).total, abs=1e-10)


def test_all_lines_of_a_pair_have_the_same_ends():
    states = [module("markov", seed).state_dict() for seed in (100, 101)]
    rows_, rng = exam("markov"), np.random.default_rng(100)
    found = pair_lines(*states, CONFIGS["markov"], exam("markov", 101), rows_, rng, alphas=THREE)
    assert list(found)[:2] == ["raw", "folded"] and len(found) == 8
    for one in found.values():
        np.testing.assert_allclose(one.loss[[0, -1]], found["raw"].loss[[0, -1]], atol=1e-5)


def test_a_line_ends_at_the_parents():
    A, B, rows_ = folded("addition"), folded("addition", 101), exam("addition")
    found = double_line(A, B, rows_)
    ends = [score(form, rows_, torch.float64).total for form in (A, B)]
    np.testing.assert_allclose(found.loss[[0, -1]], ends, atol=1e-12)
    assert found.accuracy[0] == score(A, rows_).accuracy["answer"]


def test_only_the_subspace_is_blended():
    A, B = folded("addition"), folded("addition", 101)
    Q = np.linalg.qr(np.random.default_rng(100).standard_normal((16, 3)))[0]
    mixed = blend(A, B, 0.25, Q)
    for name in ("W_E", "W_Q", "W_out", "W_U"):
        a, b, found = (rows(form, name) for form in (A, B, mixed))
        np.testing.assert_allclose(found @ Q, (0.75 * a + 0.25 * b) @ Q, atol=1e-12)
        outside = np.eye(16) - Q @ Q.T
        np.testing.assert_allclose(found @ outside, b @ outside, atol=1e-12)
    np.testing.assert_array_equal(mixed.b_in, B.b_in)


def test_models_of_different_sizes_are_not_merged():
    with pytest.raises(ValueError, match="only models of one size"):
        line(folded("addition"), folded("markov"), exam("addition"))


# ---- what they are compared with


@pytest.mark.parametrize("site", ["blocks.0.hook_resid_mid", "blocks.1.hook_resid_post"])
def test_a_stitched_copy_loses_nothing(site):
    A, fit = folded("markov"), exam("markov", 101, 60)
    B, rows_ = turned(A), own_exam("markov", A)
    X, Y = (streams(form, fit)[site] for form in (A, B))
    right = score(A, rows_, torch.float64).total
    for fitted in (fit_rotation(X, Y), fit_affine(X, Y, ridge=1e-9)):
        found = stitched(A, B, fitted, site, rows_, torch.float64)
        assert found.total == pytest.approx(right, abs=1e-5)
    wrong = replace(fit_rotation(X, Y), R=np.eye(16))
    assert stitched(A, B, wrong, site, rows_, torch.float64).total > right + 0.05


def test_ensembles_are_means_of_log_probabilities_and_of_probabilities():
    forms, rows_ = [folded("dyck"), folded("dyck", 101)], exam("dyck")
    parts = list(rows_.outputs.items())
    for mean in ("log_probs", "probs"):
        found = ensemble(forms, rows_, mean, torch.float64)
        for k, (name, part) in enumerate(parts):
            p = torch.stack([answer(f, rows_, torch.float64)[:, part].softmax(-1) for f in forms])
            mixed = p.mean(0) if mean == "probs" else p.log().mean(0).exp()
            mixed = mixed / mixed.sum(-1, keepdim=True)
            right = mixed[torch.arange(len(mixed)), torch.from_numpy(rows_.answers[:, k])]
            assert found.loss[name] == pytest.approx(float(-right.log().mean()), abs=1e-10)
    with pytest.raises(ValueError, match="a mean of"):
        ensemble(forms, rows_, "median")
