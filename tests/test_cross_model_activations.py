"""Residual streams side by side: the right rows in the right order, and a split without leaks."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.cross_model import activations, collect, split_sequences, streams
from helpers.tasks import dyck
from tests.rotated_pair import rotated_pair

SITES = ("blocks.0.hook_resid_pre", "blocks.1.hook_resid_mid", "ln_final.hook_normalized")


@pytest.fixture(scope="module")
def pair():
    return rotated_pair()


def test_rows_are_what_a_sequence_gives_alone_and_without_padding(pair):
    tokens, mask = pair.tokens[:5], pair.labels.mask[:5]
    found = collect(pair.A, tokens, SITES, mask=mask)
    alone = {site: [] for site in SITES}
    for row, real in zip(tokens, mask, strict=True):
        _, cache = pair.A.run_with_cache(torch.from_numpy(row[None, real]))
        for site in SITES:
            alone[site].append(cache[site][0].detach().numpy())
    assert list(found) == list(SITES)
    for site in SITES:
        np.testing.assert_allclose(found[site], np.concatenate(alone[site]), atol=1e-12)


def test_every_model_has_the_same_rows(pair):
    one, two = (collect(m, pair.tokens, SITES[:2], mask=pair.labels.mask) for m in (pair.A, pair.B))
    for site in SITES[:2]:
        np.testing.assert_allclose(one[site] @ pair.R, two[site], atol=1e-10)


def test_any_mask_chooses_its_positions(pair):
    tokens, real = pair.tokens[:9], pair.labels.mask[:9]
    some = real & (np.random.default_rng(100).random(real.shape) < 0.2)
    some[2] = False
    whole = np.zeros((*tokens.shape, 64))
    whole[real] = collect(pair.A, tokens, SITES[1:2], mask=real)[SITES[1]]
    found = collect(pair.A, tokens, SITES[1:2], mask=some)[SITES[1]]
    np.testing.assert_allclose(found, whole[some], atol=1e-12)


def test_parts_change_nothing(pair, monkeypatch):
    tokens, mask = pair.tokens[:11], pair.labels.mask[:11].copy()
    mask[4:8] = False  # a part without a position
    at_once = collect(pair.A, tokens, SITES, mask=mask)
    monkeypatch.setattr(activations, "AT_ONCE", 4)
    in_parts = collect(pair.A, tokens, SITES, mask=mask)
    for site in SITES:
        np.testing.assert_allclose(in_parts[site], at_once[site], atol=1e-12)


def test_what_cannot_be_collected(pair, unchecked):
    tokens, mask = pair.tokens[:2], pair.labels.mask[:2]
    with pytest.raises(ValueError, match=r"no hook point 'blocks\.7\.hook_resid_mid'"):
        collect(pair.A, tokens, ["blocks.7.hook_resid_mid"], mask=mask)
    with pytest.raises(ValueError, match="different names, at least one"):
        streams(pair.A, tokens, [])
    for bad in (mask[:, :5], np.zeros_like(mask)):
        with pytest.raises(ValueError, match="keep a position"):
            collect(pair.A, tokens, SITES, mask=bad)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(100, 10**6), share=st.floats(0.1, 0.9))
def test_no_sequence_is_on_both_sides_and_none_is_lost(seed, share):
    g = np.random.default_rng(seed)
    tokens = dyck.train_rows(g, 40)[g.integers(0, 40, 120)]  # most of them several times
    plan = split_sequences(g, tokens, share=share)
    fit, score = ({row.tobytes() for row in tokens[part]} for part in (plan.fit, plan.score))
    assert not fit & score
    assert sorted([*plan.fit, *plan.score]) == list(range(120))
    assert len(fit) == round(share * len(fit | score))


def test_a_split_of_positions_or_of_row_numbers_would_leak():
    """The broken versions: the property above must be able to fail."""
    g = np.random.default_rng(100)
    tokens = dyck.train_rows(g, 40)[g.integers(0, 40, 120)]
    order = g.permutation(120)
    fit, score = ({row.tobytes() for row in tokens[part]} for part in np.split(order, 2))
    assert fit & score


def test_groups_name_the_sequence_of_each_position():
    tokens = np.array([[1, 3, 4, 2, 0], [1, 3, 2, 0, 0], [1, 5, 6, 3, 2], [1, 4, 2, 0, 0]])
    plan = activations.Plan(np.array([0, 2, 3]), np.array([1]))
    mask = tokens != 0
    assert plan.groups(mask).tolist() == [0] * 4 + [1] * 5 + [2] * 3


@pytest.mark.parametrize("share", [0.0, 1.0, 0.01])
def test_a_split_needs_two_sides(share):
    tokens = dyck.train_rows(np.random.default_rng(100), 12)
    with pytest.raises(ValueError, match="do not make two sides"):
        split_sequences(np.random.default_rng(100), tokens, share=share)
