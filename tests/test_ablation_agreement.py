"""Mean ablation by hooks, and by constants folded into the bracket model, are one measurement."""

import numpy as np
import pytest

from helpers.attribution import brackets, mean_ablation
from helpers.dyck import SMALL, DyckTransformer, to_hooked
from helpers.specification import ablation_effects, component_means
from helpers.tasks import dyck


def test_hooks_and_replaced_weights_measure_the_same_effects():
    state = {k: v.double() for k, v in DyckTransformer(SMALL, 100).state_dict().items()}
    rows = dyck.train_rows(np.random.default_rng(100), 24)
    general = mean_ablation(to_hooked(state).double(), brackets(rows))
    fast = ablation_effects(state, component_means(state, rows), rows)
    names = [
        f"MLP{e.component.layer}"
        if e.component.head is None
        else f"L{e.component.layer}H{e.component.head}"
        for e in fast
    ]
    wanted = dict(zip(general.names, general.mean, strict=True))
    assert max(abs(v) for v in wanted.values()) > 1e-3
    assert [e.total for e in fast] == pytest.approx([wanted[n] for n in names], abs=1e-8)
