"""Bridges and hooked models: components, means, and every fast path against the plain one."""

import numpy as np
import pytest
import torch

from helpers import post_norm, pretrained
from helpers.attribution import (
    Attribution,
    Effects,
    Passes,
    ap_by_batch,
    attribution_patching,
    brackets,
    component_means,
    cumulative_ablation,
    find_components,
    from_answers,
    integrated_gradients,
    last_position,
    mean_ablation,
    next_token,
    pearson,
    relative_error,
)
from helpers.attribution.interpolate import run
from helpers.attribution.replay import Replay, start_of
from helpers.dyck.model import OUTPUTS
from helpers.models import ModelConfig, SmallTransformer, to_bridge
from helpers.stitching import score
from helpers.tasks import dyck
from tests.hooked_toy import Toy, toy_objective
from tests.rotated_pair import rotated_pair

SIZES = {"n_layers": 2, "d_model": 16, "n_heads": 4, "d_mlp": 32}
KINDS = ("head", "attn", "mlp", "block")


def bracket_model():
    return rotated_pair().A, brackets(rotated_pair().tokens[:7])


def bridge():
    config = ModelConfig(6, 8, **SIZES)
    tokens = torch.randint(0, 6, (7, 8), generator=torch.Generator().manual_seed(100))
    state = SmallTransformer(config, 100).state_dict()
    return to_bridge(config, state).double(), next_token(tokens)


def hooked_post_norm():
    config = ModelConfig(6, 4, norm="post", **SIZES)
    g = torch.Generator().manual_seed(100)
    tokens, answers = (
        torch.randint(0, 6, (7, 4), generator=g),
        torch.randint(0, 6, (7,), generator=g),
    )
    state = SmallTransformer(config, 100).state_dict()
    return post_norm.to_hooked(config, state).double(), last_position(tokens, answers)


MODELS = {"site": bracket_model, "layer": bridge, "tokens": hooked_post_norm}


@pytest.fixture(scope="module", params=MODELS)
def case(request):
    return request.param, *MODELS[request.param]()


def plain_loss(model, objective, fwd_hooks=()):
    """Row by row, with all padding, and no other help than hooks."""
    rows = []
    for i, tokens in enumerate(objective.tokens):
        logits = model.run_with_hooks(tokens[None], fwd_hooks=list(fwd_hooks))
        losses = objective.losses(logits.double(), torch.tensor([i]))[0]
        rows.append(losses[objective.asked[i]].sum())
    return torch.stack(rows).detach().numpy()


def plain_hooks(component, mean):
    kept = {}

    def keep(value, hook):
        kept["base"] = value

    def replace(value, hook):
        value = value.clone()
        wanted = mean[: value.shape[1]].to(value)
        if component.head is not None:
            value[:, :, component.head] = wanted
        elif component.base:
            value[:] = kept["base"] + wanted
        else:
            value[:] = wanted
        return value

    return ([(component.base, keep)] if component.base else []) + [(component.hook, replace)]


def test_components_are_found_in_the_order_of_the_computation(case):
    start, model, _ = case
    assert start_of(model) == start
    names = [c.name for c in find_components(model, KINDS)]
    heads = [f"L0H{h}" for h in range(4)]
    assert names[:7] == [*heads, "attn0", "MLP0", "block0"]
    assert len(names) == 14


@pytest.mark.parametrize("positions", ["pooled", "each"])
def test_ablation_is_what_plain_hooks_give(case, positions):
    _, model, objective = case
    components = find_components(model, KINDS)
    means = component_means(model, objective, components, positions)
    found = mean_ablation(model, objective, components, positions=positions)
    clean = plain_loss(model, objective)
    assert found.clean == pytest.approx(clean.sum() / objective.asked.sum())
    assert found.passes == Passes(15)
    for k, component in enumerate(components):
        wanted = plain_loss(model, objective, plain_hooks(component, means[component.name]))
        np.testing.assert_allclose(found.rows[:, k], wanted - clean, atol=1e-9)
    assert np.abs(found.rows).max() > 1e-3


def test_means_are_over_the_positions_that_the_loss_depends_on(case):
    _, model, objective = case
    for component in (find_components(model, KINDS)[i] for i in (1, 5, 6)):
        values = []
        for tokens, asked in zip(objective.tokens, objective.asked, strict=True):
            length = int(torch.nonzero(asked).max()) + 1
            _, cache = model.run_with_cache(tokens[None, :length])
            a = cache[component.hook] - (cache[component.base] if component.base else 0)
            values.append(a[0] if component.head is None else a[0, :, component.head])
        pooled = component_means(model, objective, [component])[component.name]
        torch.testing.assert_close(pooled[0], torch.cat(values).mean(0))
        each = component_means(model, objective, [component], "each")[component.name]
        for p, mean in enumerate(each):
            there = [v[p] for v in values if len(v) > p]
            if there:
                torch.testing.assert_close(mean, torch.stack(there).mean(0))


def test_attribution_patching_is_gradient_times_difference(case):
    _, model, objective = case
    components = find_components(model, ("head", "mlp"))
    found = attribution_patching(model, objective, components)
    assert found.passes == Passes(1, 1)
    means = component_means(model, objective, components)
    for k in (0, 3, 4, 8, 9):
        component, seen = components[k], {}

        def watch(value, hook, component=component, seen=seen):
            seen["a"] = value if component.head is None else value[:, :, component.head]
            seen["added"] = torch.zeros_like(seen["a"], requires_grad=True)
            if component.head is None:
                return value + seen["added"]
            return value.index_add(2, torch.tensor([component.head]), seen["added"][:, :, None])

        for i in (0, 3):
            logits = model.run_with_hooks(
                objective.tokens[i : i + 1], fwd_hooks=[(component.hook, watch)]
            )
            losses = objective.losses(logits.double(), torch.tensor([i]))[0]
            (gradient,) = torch.autograd.grad(losses[objective.asked[i]].sum(), seen["added"])
            wanted = (gradient * (means[component.name].to(gradient) - seen["a"])).sum()
            assert found.rows[i, k] == pytest.approx(float(wanted.detach()), abs=1e-9)


def test_attribution_leaves_no_gradient_and_no_hook_behind(case):
    _, model, objective = case
    attribution_patching(model, objective)
    integrated_gradients(model, objective, points=2)
    assert all(p.grad is None for p in model.parameters())
    assert not any(point.has_hooks() for point in model.hook_dict.values())


@pytest.mark.parametrize("rule", ["midpoint", "adaptive", "pooled"])
def test_integrated_gradients_stack_their_points(case, rule, monkeypatch):
    _, model, objective = case
    components = find_components(model, ("head", "block"))[2:7]
    gradients, at = [], Replay.at

    def counted(self, component, shares, which):
        gradients.append(len(shares) if shares.requires_grad else 0)
        return at(self, component, shares, which)

    monkeypatch.setattr(Replay, "at", counted)
    found = integrated_gradients(model, objective, components, rule=rule, points=6)
    forward = 1 + 5 * 6 if rule == "midpoint" else 2 + 5 * (6 + 15)
    assert found.passes == Passes(forward, 30)
    assert sum(gradients) == 30 * len(objective.tokens)  # none that is not counted
    monkeypatch.setattr("helpers.attribution.integrated.AT_ONCE", 8)
    monkeypatch.setattr("helpers.attribution.integrated.ROWS", 2)
    parts = integrated_gradients(model, objective, components, rule=rule, points=6)
    np.testing.assert_allclose(found.rows, parts.rows, atol=1e-10)


def test_the_rows_of_a_plan_are_those_of_the_model(case):
    """A row's loss is its own, wherever it stands among repeated rows in any order."""
    _, model, objective = case
    component = find_components(model, ("head", "block"))[3]
    means = component_means(model, objective, [component])
    replay = Replay(model, objective, torch.arange(4), 4, [component], means)
    which, shares = torch.tensor([2, 0, 2, 3]), torch.tensor([0.1, 0.7, 1.0, 0.0])
    with torch.no_grad():
        found = replay.at(component, shares, which)
        for i, share, loss in zip(which, shares, found, strict=True):
            wanted = run(model, objective, i[None], 4, means, {component: share})
            torch.testing.assert_close(loss, wanted[0])


def test_integrated_gradients_are_complete_and_attribution_patching_is_not(case):
    _, model, objective = case
    components = find_components(model, ("head", "mlp"))[3:6]
    measured = mean_ablation(model, objective, components)
    fine = integrated_gradients(model, objective, components, points=32)
    assert Attribution("IG", fine, measured).relative_error < 0.01
    rough = attribution_patching(model, objective, components)
    assert Attribution("AP", rough, measured).relative_error > 0.02


def test_cumulative_ablation_is_what_all_hooks_together_give(case):
    _, model, objective = case
    components = find_components(model, ("head", "mlp"))[::-1]
    means = component_means(model, objective, components)
    found = cumulative_ablation(model, objective, components)
    clean = plain_loss(model, objective)
    for k in (1, 4, 10):
        together = [h for c in components[:k] for h in plain_hooks(c, means[c.name])]
        np.testing.assert_allclose(
            found.rows[:, k - 1], plain_loss(model, objective, together) - clean, atol=1e-9
        )
    single = mean_ablation(model, objective, components)
    np.testing.assert_allclose(found.rows[:, 0], single.rows[:, 0], atol=1e-9)
    assert np.abs(found.mean - np.cumsum(single.mean)).max() > 1e-4  # effects do not add up


def test_a_block_that_is_ablated_with_others_keeps_what_reaches_it():
    model, objective = Toy(act=torch.tanh), toy_objective()
    components = find_components(model, ("mlp", "block"))
    chosen = [components[0], components[3]]  # MLP0, block1
    means = component_means(model, objective, components)
    together = run(model, objective, torch.arange(6), 5, means, dict.fromkeys(chosen, 1.0))
    hooks = [h for c in chosen for h in plain_hooks(c, means[c.name])]
    np.testing.assert_allclose(together.detach(), plain_loss(model, objective, hooks), atol=1e-10)


def test_a_pretrained_bridge_with_parallel_parts_is_ablated_as_plain_hooks_do():
    model = pretrained.load("toy:neox").bridge()
    tokens = torch.randint(3, 40, (4, 7), generator=torch.Generator().manual_seed(1))
    objective, components = next_token(tokens), find_components(model, ("head", "mlp", "block"))
    assert len(components) == 18
    chosen = [components[i] for i in (1, 4, 5, 13, 16)]
    means = component_means(model, objective, chosen)
    found = mean_ablation(model, objective, chosen)
    clean = plain_loss(model, objective)
    for k, component in enumerate(chosen):
        wanted = plain_loss(model, objective, plain_hooks(component, means[component.name]))
        np.testing.assert_allclose(found.rows[:, k], wanted - clean, atol=1e-4)


def test_the_bracket_loss_is_the_sum_of_the_three_that_training_minimises():
    pair = rotated_pair()
    objective = brackets(pair.tokens[:20])
    found = mean_ablation(pair.A, objective, find_components(pair.A, ("mlp",)))
    with torch.no_grad():
        wanted = score(pair.A(torch.from_numpy(pair.tokens[:20])), dyck.label(pair.tokens[:20]))
    assert found.clean == pytest.approx(wanted.total)
    assert set(OUTPUTS) == set(wanted.loss)


def planted(noise, n=64, m=6):
    """Effects in which a row's prediction is the truth and noise of its own."""
    g = np.random.default_rng(100)
    truth = np.tile(g.standard_normal(m), (n, 1))
    counts = np.full(n, 3)
    names = tuple("abcdef"[:m])
    predicted = truth + noise * g.standard_normal((n, m))
    make = lambda rows: Effects(names, 3 * rows, counts, 0.0, Passes(1))  # noqa: E731
    return Attribution("AP", make(predicted), make(truth))


def test_r_rises_with_the_batch_where_noise_is_the_cause_and_not_where_it_is_not():
    noisy = ap_by_batch(planted(5.0), [1, 8, 64], np.random.default_rng(1), draws=60)
    assert noisy.same.shape == (3, 60)
    r = noisy.all.mean(axis=1)
    assert r[0] < r[1] < r[2] and r[2] - r[0] > 0.3
    np.testing.assert_allclose(noisy.same[2], planted(5.0).r)  # the whole, in another order
    biased = planted(0.0)
    shifted = Effects(
        biased.names,
        biased.predictions.rows[:, ::-1].copy(),
        biased.predictions.counts,
        0.0,
        Passes(1),
    )
    wrong = ap_by_batch(
        Attribution("AP", shifted, biased.measurements),
        [1, 8, 64],
        np.random.default_rng(1),
        draws=20,
    )
    assert np.ptp(wrong.all) < 1e-9
    for sizes in ([0], [65], []):
        with pytest.raises(ValueError, match="batches hold 1 to 64"):
            ap_by_batch(biased, sizes, np.random.default_rng(1))


def test_relative_error_sees_the_scale_that_r_does_not():
    x = np.array([1.0, 2.0, 4.0])
    assert pearson(3 * x + 1, x) == pytest.approx(1)
    assert relative_error(3 * x + 1, x) == pytest.approx(17 / 7)
    assert np.isnan(pearson(x * 0, x))
    with pytest.raises(ValueError, match="do nothing"):
        relative_error(x, x * 0)


def test_the_interval_resamples_rows():
    noisy = planted(1.0)
    low, high = noisy.interval(pearson, np.random.default_rng(1))
    assert low <= noisy.r <= high and 0 < high - low < 0.5
    exact = planted(0.0).interval(relative_error, np.random.default_rng(1))
    assert exact == (0.0, 0.0) or max(exact) < 1e-12


def test_bad_input_is_refused(unchecked):
    model, objective = bracket_model()
    with pytest.raises(ValueError, match="kinds are some of"):
        find_components(model, ("neuron",))
    with pytest.raises(ValueError, match="positions is one of"):
        mean_ablation(model, objective, positions="all")
    heads = find_components(model, ("head",))
    with pytest.raises(ValueError, match="different components"):
        mean_ablation(model, objective, [heads[0], heads[0]])
    with pytest.raises(ValueError, match="means lack L0H1"):
        means = component_means(model, objective, heads[:1])
        mean_ablation(model, objective, heads, means=means)
    with pytest.raises(ValueError, match="row 1 asks nothing"):
        from_answers(
            torch.zeros(2, 3, dtype=torch.long),
            torch.zeros(2, 3, 1, dtype=torch.long),
            torch.tensor([[True] * 3, [False] * 3]),
        )
    with pytest.raises(ValueError, match="one for each of the outputs"):
        from_answers(
            torch.zeros(2, 3, dtype=torch.long),
            torch.zeros(2, 3, 2, dtype=torch.long),
            torch.ones(2, 3, dtype=torch.bool),
        )
    full = planted(1.0)
    half = Effects(
        full.names, full.predictions.rows[:9], full.predictions.counts[:9], 0.0, Passes(1)
    )
    with pytest.raises(ValueError, match="different rows"):
        Attribution("", half, full.measurements)


def test_a_hook_point_that_the_model_lacks_is_named():
    model = Toy()
    for block in model.blocks:
        block.attn.hook_z = torch.nn.Identity()
    model.setup()
    with pytest.raises(ValueError, match="no component of kind 'head'"):
        find_components(model)
