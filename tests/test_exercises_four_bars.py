"""Checks of chapter 5's exercises accept the right answer, got here another way, and no other."""

import numpy as np
import pytest

from helpers import notebook
from helpers.attribution import quadrature
from helpers.dyck.model import DyckTransformer
from helpers.exercises import four_bars as exercises
from helpers.specification import averaged_depth, divergence, module_logits
from helpers.specification.exact import cross_entropy
from helpers.tasks import dyck


@pytest.fixture(autouse=True)
def no_tries_yet(monkeypatch):
    """Every test begins as a reader does: with no wrong try counted."""
    monkeypatch.setattr(notebook, "_tries", {})


class DepthAlone:
    """The exact algorithm, where copy and sticky count as right."""

    def kl(self, rows, labels, logits):
        found = np.zeros((len(logits), 3))
        found[:, 1] = cross_entropy(logits[:, 40:49], labels.depth[labels.mask])
        return found


def test_the_decoy_has_what_a_model_with_averaged_rows_has():
    state = averaged_depth(DyckTransformer(seed=100).state_dict())
    module = DyckTransformer()
    module.load_state_dict(state)
    found = divergence(
        DepthAlone(), module_logits(module), dyck.train_rows, 2000, np.random.default_rng(0)
    )
    assert exercises.decoy_bar(found.value).right is True
    assert exercises.decoy_bar(np.log(9)).right is False
    assert exercises.decoy_bar(np.log2(9) / 3).right is False
    assert exercises.decoy_bar(None).right is None


def test_the_number_of_looks_is_what_draws_give():
    passes = np.random.default_rng(1).random((200_000, 20)) < 0.05
    some = np.maximum.accumulate(passes, axis=1).mean(axis=0)
    right = int(np.argmax(some > 0.5)) + 1
    assert exercises.looks_until_even(right).right is True
    for wrong in (right - 1, right + 1, 10, 20):
        assert exercises.looks_until_even(wrong).right is False


def test_a_path_by_hand_is_what_the_rules_give():
    def slope(alpha):
        return 4 * alpha**3

    rules = [quadrature(rule, 2) for rule in ("endpoint", "midpoint", "gauss-legendre")]
    right = [slope(0.0), *(float(w @ slope(x)) for x, w in rules)]
    assert exercises.quadrature_by_hand(right).right is True
    assert exercises.quadrature_by_hand(np.array(right)).right is True
    assert exercises.quadrature_by_hand([0, 2.25, 0.875, 0.875]).right is False
    assert exercises.quadrature_by_hand([1, 2.25, 0.875, 1]).right is False


def test_what_cannot_be_a_minimum_is_what_some_loss_beats():
    """A pair is possible if losses exist that have it as a minimum and start at (1, 5)."""
    possible = set()
    for name, (w, a) in exercises.REPORTED.items():
        candidates = np.array([[1.0, 5.0], [w, a]])  # all that R can give, if it is to be a minimum
        smallest_w = candidates[:, 0].min() == 1.0
        if smallest_w and candidates.sum(axis=1).argmin() == 1:
            possible.add(name)
    right = set(exercises.REPORTED) - possible
    assert right == {"B", "C", "D"}
    assert exercises.impossible_minima(right).right is True
    assert exercises.impossible_minima(sorted(right)).right is True
    for wrong in ({"B", "C"}, {"B", "C", "D", "E"}, set(), set("ABCDE")):
        assert exercises.impossible_minima(wrong).right is False
    assert exercises.impossible_minima(None).right is None
