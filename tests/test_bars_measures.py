"""The four measurements against plain formulas, planted answers and nulls."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.attribution import find_components, mean_ablation, next_token, pearson
from helpers.bars import (
    Behaviour,
    behavioural,
    causal,
    parametric,
    predictive,
    random_match,
    same_function,
    shuffled,
    zeros,
)
from helpers.dyck import SMALL, DyckTransformer, to_hooked
from helpers.dyck.model import OUTPUTS
from helpers.models import ModelConfig, SmallTransformer, to_bridge
from helpers.stitching import score
from helpers.tasks import dyck
from tests.hooked_toy import Toy, toy_objective

SLICES = {"one": slice(0, 3), "two": slice(3, 7)}


def random_logits(seed):
    draw = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(11, 7, generator=draw)


def model_of(seed):
    """Logits by token, so that every position's answer is known."""
    table = random_logits(seed)
    return lambda tokens: table[tokens]


def rows_of(seed, n=6, pos=5):
    return np.random.default_rng(seed).integers(0, 11, (n, pos))


def exact(rows):
    labels = dyck.label(rows)
    return {name: getattr(labels, name) for name in OUTPUTS}


def test_b_is_the_mean_kl_over_positions_and_outputs():
    blocks = [rows_of(1), rows_of(2, n=3)]
    found = behavioural(model_of(5), model_of(6), {"a": blocks}, outputs=SLICES)
    wanted = {name: [] for name in SLICES}
    for token in np.concatenate([block.ravel() for block in blocks]):
        for name, part in SLICES.items():
            p, q = (F.softmax(random_logits(s)[token, part], 0).double().numpy() for s in (5, 6))
            wanted[name].append((p * np.log(p / q)).sum())
    for name, values in wanted.items():
        assert found.table["a"][name] == pytest.approx(np.mean(values), rel=1e-5)
    assert found.value == pytest.approx(np.mean(list(wanted.values())), rel=1e-5)
    assert found.worst["a"] == pytest.approx(np.max(list(wanted.values())), rel=1e-5)
    assert found.positions == 45


def test_a_spec_of_right_answers_gives_the_cross_entropy():
    tokens = dyck.train_rows(np.random.default_rng(100), 20)
    state = DyckTransformer(SMALL, 100).state_dict()
    hooked = to_hooked(state)
    found = behavioural(
        exact,
        hooked,
        {"training": [tokens[:12], tokens[12:]]},
        outputs=OUTPUTS,
        asked=lambda rows: rows != dyck.PAD,
    )
    with torch.no_grad():
        wanted = score(hooked(torch.from_numpy(tokens)), dyck.label(tokens))
    for name, loss in wanted.loss.items():
        assert found.table["training"][name] == pytest.approx(loss, rel=1e-6)
    assert found.value == pytest.approx(wanted.total / 3, rel=1e-6)


def test_one_hot_logits_and_right_answers_are_one_specification():
    rows = rows_of(1)
    right = lambda r: {"one": r % 3, "two": r % 4}  # noqa: E731
    hot = {"one": 3, "two": 4}
    as_logits = lambda r: {  # noqa: E731
        name: torch.log(F.one_hot(torch.from_numpy(answers), hot[name]).float())
        for name, answers in right(r).items()
    }
    one = behavioural(right, model_of(6), {"a": [rows]}, outputs=SLICES)
    other = behavioural(as_logits, model_of(6), {"a": [rows]}, outputs=SLICES)
    np.testing.assert_allclose(one.sums["a"], other.sums["a"])


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), shift=st.floats(-50, 50))
def test_b_is_never_negative_zero_for_itself_and_blind_to_a_constant(seed, shift):
    rows = rows_of(seed)
    table = random_logits(seed)
    shifted = table + shift * torch.cat([torch.ones(3), -torch.ones(4)])
    same = behavioural(lambda r: table[r], lambda t: shifted[t], {"a": [rows]}, outputs=SLICES)
    assert abs(same.value) < 1e-5
    other = behavioural(model_of(seed + 1), model_of(seed), {"a": [rows]}, outputs=SLICES)
    assert (np.array(other.sums["a"]) >= 0).all() and other.value > 1e-3


def test_blocks_are_streamed_and_how_they_are_cut_changes_nothing():
    rows = rows_of(1, n=600)
    whole = behavioural(model_of(5), model_of(6), {"a": [rows]}, outputs=SLICES)
    alive = []

    def blocks():  # each is drawn when it is wanted
        for start in range(0, 600, 50):
            alive.append(start)
            yield rows[start : start + 50]

    seen = []

    def model(tokens):
        seen.append(len(alive))
        return model_of(6)(tokens)

    parts = behavioural(model_of(5), model, {"a": blocks()}, outputs=SLICES)
    assert seen == list(range(1, 13))  # none waits in memory for its turn
    assert parts.value == pytest.approx(whole.value)
    assert parts.sums["a"].shape == (12, 2)
    low, high = parts.interval(np.random.default_rng(1))
    assert low <= parts.value <= high and 0 < high - low < parts.value
    both = behavioural(model_of(5), model_of(6), {"a": [rows], "b": [rows]}, outputs=SLICES)
    with pytest.raises(ValueError, match="name one of the distributions a, b"):
        both.interval(np.random.default_rng(1))
    assert set(both.table) == {"a", "b"}


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    g, hits = np.random.default_rng(1), 0
    for _ in range(30):
        counts = g.integers(50, 150, 20)
        sums = (counts * g.exponential(2.0, 20))[:, None]
        found = Behaviour(("x",), {"a": sums}, {"a": counts}, {"a": 1.0})
        low, high = found.interval(g)
        hits += low <= 2.0 <= high
    assert 24 <= hits <= 30


def test_bad_answers_are_refused():
    with pytest.raises(ValueError, match="does not fit logits"):
        behavioural(
            lambda r: {"one": r[:, 1:], "two": r}, model_of(6), {"a": [rows_of(1)]}, outputs=SLICES
        )
    with pytest.raises(ValueError, match="NaN or infinity"):
        behavioural(model_of(5), lambda t: model_of(6)(t) / 0, {"a": [rows_of(1)]}, outputs=SLICES)
    with pytest.raises(ValueError, match="no position is asked"):
        behavioural(
            model_of(5), model_of(6), {"a": [rows_of(1)]}, outputs=SLICES, asked=lambda r: r < 0
        )


def tensors(seed):
    g = np.random.default_rng(seed)
    return {"W": g.standard_normal((6, 6)), "small": 0.01 * g.standard_normal((6, 6))}


def test_p_is_the_largest_mse_and_depends_on_the_scale_as_its_share_does_not():
    one, other = tensors(1), tensors(2)
    found = parametric(one, other)
    assert found.mse["W"] == pytest.approx(((one["W"] - other["W"]) ** 2).mean())
    assert found.worst == "W" and found.value == found.mse["W"]
    assert found.mse["small"] < 1e-3 < found.normalised["small"]  # raw, it would clear the bar
    scaled = parametric(*({k: 10 * v for k, v in side.items()} for side in (one, other)))
    assert scaled.value == pytest.approx(100 * found.value)
    assert scaled.largest_normalised == pytest.approx(found.largest_normalised)


def test_p_aligns_the_model_and_its_nulls_do_not_get_there():
    one, g = tensors(1), np.random.default_rng(3)
    order = g.permutation(6)
    moved = {name: torch.from_numpy(value[order]) for name, value in one.items()}

    def align(model, spec):
        back = np.argsort(order)
        return {name: np.asarray(value)[back] for name, value in model.items()}

    assert parametric(one, moved).value > 0.1
    assert parametric(one, moved, align).value == 0
    assert set(parametric(one, zeros(one), align).normalised.values()) == {1.0}
    null = parametric(one, shuffled(moved, g), align)
    assert null.value > 0.5
    np.testing.assert_allclose(np.sort(shuffled(one, g)["W"].ravel()), np.sort(one["W"].ravel()))


def test_other_tensors_are_refused():
    one = tensors(1)
    for other, words in (
        ({"W": one["W"]}, "look at small"),
        ({**one, "W": one["W"][:3]}, "must be equal"),
        ({**one, "W": one["W"] * np.nan}, "all finite"),
    ):
        with pytest.raises(ValueError, match=words):
            parametric(one, other)


def test_a_tensor_of_zeros_has_no_scale():
    one = tensors(1)
    nothing = {**one, "W": 0 * one["W"]}
    assert parametric(nothing, one).normalised["W"] == np.inf
    assert parametric(nothing, nothing).normalised["W"] == 0


def swapped(model):
    """The same function with the two heads of every layer exchanged."""
    other = Toy(act=torch.tanh)
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        for block in other.blocks:
            block.attn.W_V.copy_(block.attn.W_V.flip(0))
            block.attn.W_O.copy_(block.attn.W_O.flip(0))
    return other


MATCH = {
    "L0H0": "L0H1",
    "L0H1": "L0H0",
    "L1H0": "L1H1",
    "L1H1": "L1H0",
    "MLP0": "MLP0",
    "MLP1": "MLP1",
}


@pytest.fixture(scope="module")
def trio():
    model = Toy(act=torch.tanh)
    return model, swapped(model), toy_objective(lambda y: y**2, n=20)


def test_within_one_model_both_bars_pass_and_say_that_they_must(trio):
    model, _, objective = trio
    for found in (causal(model, model, objective), predictive(model, model, objective)):
        assert found.same_function
        assert found.r > 0.9999 and found.relative_error < 0.01
    assert causal(model, model, objective).names[:3] == ("L0H0", "L0H1", "MLP0")


def test_the_match_decides_across_two_copies(trio):
    model, other, objective = trio
    for bar in (causal, predictive):
        matched = bar(model, other, objective, match=MATCH)
        wrong = bar(model, other, objective)
        assert matched.same_function and wrong.same_function
        assert matched.relative_error < 0.01 < wrong.relative_error
        assert matched.r > wrong.r


def test_another_model_is_no_theorem_and_fails(trio):
    model, _, objective = trio
    other = Toy(act=torch.tanh, seed=101)
    found = causal(model, other, objective)
    assert not found.same_function
    assert found.r < 0.99 and found.relative_error > 0.05
    measured = mean_ablation(other, objective, find_components(other))
    np.testing.assert_allclose(found.measured, measured.mean)


def test_c_and_pr_are_two_measurements(trio):
    model, _, objective = trio
    other = Toy(act=torch.tanh, seed=101)
    c, pr = (bar(model, other, objective) for bar in (causal, predictive))
    assert pr.names == tuple(f"top {k}" for k in range(1, 7))
    single = mean_ablation(model, objective, find_components(model)).mean
    assert pr.predicted[0] == pytest.approx(single.max())  # the largest comes first
    # ablated together they do not add up: one does not follow from the other
    order = np.argsort(-single)
    assert np.abs(np.cumsum(c.measured[order]) - pr.measured).max() > 1e-3
    assert c.r != pytest.approx(pr.r, abs=1e-3)


def test_the_random_match_stays_within_the_kind(trio):
    model, other, _ = trio
    drawn = [random_match(model, other, np.random.default_rng(s)) for s in range(20)]
    for match in drawn:
        assert sorted(match) == sorted(match.values()) == sorted(MATCH)
        assert all(one[:3] == "MLP" or other[:3] != "MLP" for one, other in match.items())
    assert len({tuple(match.values()) for match in drawn}) > 5


def test_a_match_that_is_no_pairing_is_refused(trio):
    model, other, objective = trio
    for wrong in ({}, {**MATCH, "MLP1": "MLP0"}, {**MATCH, "L0H0": "L5H0"}, {**MATCH, "x": "MLP0"}):
        with pytest.raises(ValueError, match="one to one"):
            causal(model, other, objective, match=wrong)


def test_the_bars_work_on_a_bridge_of_chapter_one():
    config = ModelConfig(5, 6, n_layers=1, d_model=8, n_heads=2, d_mlp=16)
    states = [SmallTransformer(config, seed).state_dict() for seed in (100, 101)]
    one, other = (to_bridge(config, state) for state in states)
    tokens = torch.randint(0, 5, (12, 6), generator=torch.Generator().manual_seed(1))
    found = causal(one, other, next_token(tokens))
    assert found.names == ("L0H0", "L0H1", "MLP0") and not found.same_function
    assert causal(one, one, next_token(tokens)).r > 0.999
    b = behavioural(one, other, {"tokens": [tokens.numpy()]})
    p, q = (m(tokens).detach().double().log_softmax(-1) for m in (one, other))
    assert b.value == pytest.approx(float((p.exp() * (p - q)).sum(-1).mean()))
    assert behavioural(one, one, {"tokens": [tokens.numpy()]}).value == 0
    assert parametric(*states).value > 0.01


def test_the_same_function_is_found_and_a_small_change_too(trio):
    model, other, objective = trio
    assert same_function(model, other, objective)
    changed = swapped(other)
    with torch.no_grad():
        changed.blocks[0].W[0, 0] += 0.01
    assert not same_function(model, changed, objective)


def test_r_alone_does_not_see_a_wrong_scale(trio):
    model, _, objective = trio
    found = causal(model, model, objective)
    assert pearson(3 * found.predicted, found.measured) == pytest.approx(found.r)
