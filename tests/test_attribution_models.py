"""Bridges and hooked models: components, means, and every fast path against the plain one."""

from collections import Counter

import numpy as np
import pytest
import torch

from helpers import pretrained
from helpers.attribution import (
    Attribution,
    Passes,
    attribution_patching,
    brackets,
    component_means,
    cumulative_ablation,
    find_components,
    from_answers,
    integrated_gradients,
    mean_ablation,
    next_token,
)
from helpers.attribution.interpolate import run
from helpers.attribution.quadrature import pooled
from helpers.attribution.replay import Replay, start_of
from helpers.dyck.model import OUTPUTS
from helpers.stitching import score
from helpers.tasks import dyck
from tests.attribution_cases import MODELS, bracket_model
from tests.hooked_toy import Toy, toy_objective
from tests.rotated_pair import rotated_pair

KINDS = ("head", "attn", "mlp", "block")


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
    gradients, looks = spied(monkeypatch)
    found = integrated_gradients(model, objective, components, rule=rule, points=6)
    forward = 1 + 5 * 6 if rule == "midpoint" else 2 + 5 * (6 + 15)
    assert found.passes == Passes(forward, 30)
    assert sum(gradients.values()) == 30 * len(objective.tokens)  # none that is not counted
    assert max(looks, default=0) < 1  # the end of the path would be the answer
    monkeypatch.setattr("helpers.attribution.integrated.AT_ONCE", 8)
    monkeypatch.setattr("helpers.attribution.integrated.ROWS", 2)
    parts = integrated_gradients(model, objective, components, rule=rule, points=6)
    np.testing.assert_allclose(found.rows, parts.rows, atol=1e-10)


def spied(monkeypatch):
    """Gradients by component and row, and the shares of runs without a gradient."""
    gradients, looks, at = Counter(), [], Replay.at

    def counted(self, component, shares, which):
        if shares.requires_grad:
            gradients.update((component.name, int(i)) for i in self.rows[which])
        else:
            looks.extend(shares.tolist())
        return at(self, component, shares, which)

    monkeypatch.setattr(Replay, "at", counted)
    return gradients, looks


def test_pooled_points_go_to_the_rows_and_components_that_need_them(monkeypatch):
    model, objective = bracket_model()
    components = find_components(model, ("head", "mlp"))[2:6]
    means = component_means(model, objective, components)
    rows, values = torch.arange(7), []
    with torch.no_grad():
        for share in np.arange(16) / 16:
            losses = [run(model, objective, rows, 64, means, {c: share}) for c in components]
            values.append(torch.stack(losses, dim=1).flatten())  # row by row
    plan = pooled(torch.stack(values).numpy(), 8)
    gradients, _ = spied(monkeypatch)
    integrated_gradients(model, objective, components, points=8, means=means)
    found = [gradients[c.name, i] for i in range(7) for c in components]
    assert found == [len(points) for points, _ in plan] and np.ptp(found) > 4


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


def test_a_hook_point_that_the_model_lacks_is_named():
    model = Toy()
    for block in model.blocks:
        block.attn.hook_z = torch.nn.Identity()
    model.setup()
    with pytest.raises(ValueError, match="no component of kind 'head'"):
        find_components(model)
