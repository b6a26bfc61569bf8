"""Directions are the planted ones, whatever else goes along with them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.steering import NAMES, SITE, directions, matched_difference, places
from helpers.tasks import dyck
from tests.rotated_pair import rotated_pair

ROWS = dyck.train_rows(np.random.default_rng(101), 400)


class PlantedStream:
    """A stream that is a sum of known parts: depth, error, kind of token, position, and no more."""

    def __init__(self):
        g = np.random.default_rng(101)
        self.depth, self.sticky, self.closer, self.position = g.standard_normal((4, 6))

    def run_with_cache(self, tokens, names_filter):
        rows = tokens.numpy()
        full = np.zeros((len(rows), 64), dtype=np.int64)
        full[:, : rows.shape[1]] = rows
        labels = dyck.label(full)
        parts = (labels.depth, labels.sticky, np.isin(full, dyck.CLOSERS), np.arange(64) + 0 * full)
        vectors = (self.depth, self.sticky, self.closer, self.position)
        x = sum(part[..., None] * v for part, v in zip(parts, vectors, strict=True))
        return None, {SITE: torch.from_numpy(x[:, : rows.shape[1]])}


def test_sticky_and_closer_are_the_planted_vectors_alone():
    model = PlantedStream()
    found = directions(model, ROWS)
    assert tuple(found) == NAMES
    np.testing.assert_allclose(found["sticky"], model.sticky, atol=1e-9)
    np.testing.assert_allclose(found["closer"], model.closer, atol=1e-9)


def test_depth_is_the_planted_vector_where_position_writes_nothing():
    model = PlantedStream()
    model.position *= 0
    np.testing.assert_allclose(directions(model, ROWS)["depth"], model.depth, atol=1e-9)


def test_without_matching_other_things_come_along():
    """The broken version: a plain difference of means is a mixture."""
    model = PlantedStream()
    labels = dyck.label(ROWS)
    brackets = ROWS >= 3
    _, cache = model.run_with_cache(torch.from_numpy(ROWS), None)
    x = cache[SITE].numpy()[brackets]
    invalid = labels.sticky[brackets] == 1
    plain = x[invalid].mean(axis=0) - x[~invalid].mean(axis=0)
    assert np.abs(plain - model.sticky).max() > 0.3


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(100, 10**6), strata=st.integers(1, 6))
def test_a_matched_difference_is_blind_to_strata(seed, strata):
    g = np.random.default_rng(seed)
    effect, offsets = g.standard_normal(3), 100 * g.standard_normal((strata, 3))
    one, two = (np.append(g.integers(0, strata, 20), 0) for _ in range(2))
    found = matched_difference(
        offsets[one] + effect,
        one[:, None],
        offsets[two],
        two[:, None] + np.zeros_like(two)[:, None],
    )
    np.testing.assert_allclose(found, effect, atol=1e-9)


def test_weights_go_with_what_a_difference_is_worth():
    """Strata with differences 1 and 5, and 1 · 1 / 2 and 2 · 2 / 4 = 1 as weights."""
    plus, plus_keys = np.array([[1.0], [5.0], [5.0], [99.0]]), np.array([[0], [1], [1], [2]])
    minus, minus_keys = np.array([[0.0], [0.0], [0.0], [7.0]]), np.array([[0], [1], [1], [3]])
    found = matched_difference(plus, plus_keys, minus, minus_keys)
    assert found[0] == pytest.approx((0.5 * 1 + 1 * 5) / 1.5)


def test_groups_without_a_common_stratum():
    one, keys = np.ones((2, 3)), np.array([[0], [0]])
    with pytest.raises(ValueError, match="rows of both groups"):
        matched_difference(one, keys, one, keys + 1)


def test_rows_without_brackets(unchecked):
    with pytest.raises(ValueError, match="hold no bracket"):
        directions(PlantedStream(), np.array([[1, 2, 0, 0]]))


def test_directions_turn_with_the_stream():
    pair = rotated_pair()
    one, two = directions(pair.A, pair.tokens), directions(pair.B, pair.tokens)
    for name in NAMES:
        np.testing.assert_allclose(one[name] @ pair.R, two[name], atol=1e-9)
        assert np.linalg.norm(one[name]) > 0.1


def test_places_of_each_direction():
    row = np.array([[1, 3, 5, 6, 4, 4, 3, 2, 0, 0]])  # ( [ ] ) ) ( : the second ) is an error
    where = {name: np.flatnonzero(places(name, row)[0]).tolist() for name in NAMES}
    assert where == {"depth": [1, 2, 3, 4], "sticky": [1, 2, 3, 4], "closer": [1, 2]}
    deep = np.array([[1, *[3] * 8, 4, 2]])
    assert np.flatnonzero(places("depth", deep)[0]).tolist() == [1, 2, 3, 4, 5, 6, 7, 9]
    with pytest.raises(ValueError, match="the directions are depth, sticky, closer"):
        places("width", row)
