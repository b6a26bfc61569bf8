"""Bar B has two helpers, one for any model and one for the bracket model: they give one number."""

import numpy as np
import pytest

from helpers.bars import behavioural
from helpers.dyck import DyckTransformer
from helpers.dyck.model import OUTPUTS
from helpers.specification import (
    DISTRIBUTIONS,
    Exact,
    blocks,
    constructive,
    divergence,
    fast_logits,
    module_logits,
)
from helpers.tasks import dyck
from tests.rotated_pair import shaken

POSITIONS = 1500


def draw():
    return np.random.default_rng(100)


def answers(rows):
    labels = dyck.label(rows)
    return {name: getattr(labels, name) for name in OUTPUTS}


def general(spec, model, kind, **how):
    """Bar B by :mod:`helpers.bars`, which knows nothing of brackets, on the stream's rows."""
    stream = blocks(DISTRIBUTIONS[kind], POSITIONS, draw())
    rows = [np.where(labels.mask, part, dyck.PAD) for part, labels in stream]
    how = {"outputs": OUTPUTS, "asked": lambda r: r != dyck.PAD, **how}
    return behavioural(spec, model, {kind: rows}, **how)


@pytest.fixture(scope="module")
def model():
    module = DyckTransformer().double().eval()
    module.load_state_dict(shaken(100))
    return module


@pytest.fixture(scope="module")
def written(model):
    g = draw()
    rows = dyck.train_rows(g, 24)
    spec = constructive(model.state_dict(), rows, dyck.train_rows(g, 24), share=0.9)
    assert spec.dead  # or it would be the model itself
    return {"exact": (Exact(), answers), "constructive": (spec, spec.module)}


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
@pytest.mark.parametrize("name", ["exact", "constructive"])
def test_both_helpers_of_bar_b_give_one_number(model, written, name, kind):
    spec, as_module = written[name]
    fast = divergence(spec, module_logits(model), DISTRIBUTIONS[kind], POSITIONS, draw())
    found = general(as_module, model, kind)
    assert found.positions == fast.n == POSITIONS
    assert found.value == pytest.approx(fast.value, abs=1e-8) and fast.value > 0.1
    for output, value in fast.kl.items():
        assert found.table[kind][output] == pytest.approx(value, abs=1e-8)


def test_the_compiled_passes_differ_by_single_precision_only():
    module = DyckTransformer(seed=100).eval()
    fast = divergence(Exact(), fast_logits(module.state_dict()), dyck.train_rows, POSITIONS, draw())
    assert general(answers, module, "training").value == pytest.approx(fast.value, rel=1e-6)


def shifted(rows):
    """A labeller that is one position late."""
    return {name: np.roll(value, 1, axis=1) for name, value in answers(rows).items()}


def test_mutants_do_not_pass_for_the_same_number(model, written):
    spec, stripped = written["constructive"]
    exact, other = (
        divergence(one, module_logits(model), dyck.train_rows, POSITIONS, draw())
        for one in (Exact(), spec)
    )
    mutants = {
        "padding counts": (general(answers, model, "training", asked=None).value, exact),
        "answers one position late": (general(shifted, model, "training").value, exact),
        "rows count alike": ((exact.rows.mean(axis=1) / exact.lengths).mean(), exact),
        "the other way round": (general(model, stripped, "training").value, other),
    }
    for name, (mutant, right) in mutants.items():
        assert abs(mutant - right.value) > 1e-5, name
