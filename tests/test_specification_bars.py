"""Both specifications against plain formulas: exact answers, replaced components, KL, the decoy."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, rel_entr

from helpers.dyck import SMALL, DyckTransformer, fold_norms, to_hooked
from helpers.dyck.model import OUTPUTS
from helpers.specification import (
    DISTRIBUTIONS,
    Component,
    Effect,
    Exact,
    ReplacedDyck,
    ablation_effects,
    averaged_depth,
    blocks,
    component_means,
    components,
    constructive,
    dead_components,
    divergence,
    fast_logits,
    module_logits,
    told_apart,
)
from helpers.specification.exact import cross_entropy
from helpers.tasks import dyck
from tests.rotated_pair import shaken

ROWS = dyck.train_rows(np.random.default_rng(100), 24)
MORE = dyck.train_rows(np.random.default_rng(101), 24)


@pytest.fixture(scope="module")
def state():
    return shaken(100)


def plain(state, rows=ROWS):
    """Logits of the module at the real positions."""
    module = DyckTransformer().double()
    module.load_state_dict(state)
    with torch.no_grad():
        return module(torch.from_numpy(rows)).numpy()[dyck.label(rows).mask]


def test_exact_answers_are_the_labels_and_probabilities_sum_to_one():
    labels, values = dyck.label(ROWS), Exact().log_probs(ROWS)
    for name, part in OUTPUTS.items():
        np.testing.assert_array_equal(values[..., part].argmax(axis=-1), getattr(labels, name))
        np.testing.assert_array_equal(np.exp(values[..., part]).sum(axis=-1), 1)


def test_kl_from_one_hot_is_that_of_the_definition(state):
    labels, logits = dyck.label(ROWS), plain(state)
    found = Exact().kl(ROWS, labels, logits)
    one_hot = np.exp(Exact().log_probs(ROWS)[labels.mask])
    for i, part in enumerate(OUTPUTS.values()):
        q = np.exp(log_softmax(logits[:, part], axis=1))
        np.testing.assert_allclose(found[:, i], rel_entr(one_hot[:, part], q).sum(axis=1))


def test_tiny_losses_are_not_rounded_away():
    logits = np.array([[40.0, 0.0, 0.0], [0.0, 40.0, 0.0]], np.float32)
    found = cross_entropy(logits, np.array([0, 0]))
    np.testing.assert_allclose(found, [2 * np.exp(-40.0), 40], rtol=1e-12)
    single = -torch.from_numpy(logits).log_softmax(1)[0, 0]
    assert single == 0  # the plain form does round


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(100, 10**6), scale=st.floats(0.01, 500))
def test_cross_entropy_is_scipys(seed, scale):
    g = np.random.default_rng(seed)
    logits, answers = scale * g.standard_normal((20, 9)), g.integers(0, 9, 20)
    wanted = -log_softmax(logits, axis=1)[np.arange(20), answers]
    np.testing.assert_allclose(cross_entropy(logits, answers), wanted, rtol=1e-9, atol=1e-12)


def test_bad_logits_are_refused():
    labels = dyck.label(ROWS)
    with pytest.raises(ValueError, match="row by row; got 3"):
        Exact().kl(ROWS, labels, np.zeros((3, 51)))
    with pytest.raises(ValueError, match="NaN"):
        Exact().kl(ROWS, labels, np.full((int(labels.mask.sum()), 51), np.nan))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("positions", [1, 777, 40_000])
def test_blocks_give_exactly_so_many_positions(name, positions):
    parts = list(blocks(DISTRIBUTIONS[name], positions, np.random.default_rng(100)))
    assert sum(int(labels.mask.sum()) for _, labels in parts) == positions
    for rows, labels in parts:
        lengths = labels.mask.sum(axis=1)
        assert lengths.min() >= 1
        real = np.arange(64) < lengths[:, None]  # a row's first places
        np.testing.assert_array_equal(labels.mask, real)
        assert (rows[labels.mask] != dyck.PAD).all()
    whole = np.concatenate([labels.mask.sum(axis=1) for _, labels in parts])[:-1]
    rows = np.concatenate([rows for rows, _ in parts])[:-1]
    np.testing.assert_array_equal(whole, (rows != dyck.PAD).sum(axis=1))
    with pytest.raises(ValueError, match="at least one position"):
        next(blocks(DISTRIBUTIONS[name], 0, np.random.default_rng(100)))


def test_a_stream_is_the_plain_mean_over_all_of_its_positions():
    module = DyckTransformer(seed=100).eval()
    draw, n = dyck.train_rows, 30_000
    found = divergence(
        Exact(), fast_logits(module.state_dict()), draw, n, np.random.default_rng(100)
    )
    losses, answers = [], []
    for rows, labels in blocks(draw, n, np.random.default_rng(100)):
        with torch.no_grad():
            logits = module(torch.from_numpy(rows))[torch.from_numpy(labels.mask)].double().numpy()
        parts, row = [], np.arange(len(logits))
        for name, part in OUTPUTS.items():
            right = getattr(labels, name)[labels.mask]
            parts.append(-log_softmax(logits[:, part], axis=1)[row, right])
        answers.append(labels.depth[labels.mask])
        losses.append(np.stack(parts, axis=1))
    means = np.concatenate(losses).mean(axis=0)
    np.testing.assert_allclose(list(found.kl.values()), means, rtol=1e-5)
    assert found.value == pytest.approx(means.mean(), rel=1e-5)
    share = np.bincount(np.concatenate(answers)) / n
    assert found.constant["depth"] == pytest.approx(-(share * np.log(share)).sum())
    assert found.rows.sum(axis=0) / n == pytest.approx(list(found.kl.values()))
    assert found.lengths.sum() == n


def test_compiled_and_plain_logits_agree():
    module = DyckTransformer(seed=100).eval()
    mask = dyck.label(ROWS).mask
    one, two = (f(ROWS, mask) for f in (fast_logits(module.state_dict()), module_logits(module)))
    np.testing.assert_allclose(one, two, atol=1e-4)
    with pytest.raises(ValueError, match="float32"):
        fast_logits(module.double().state_dict())


class ByRow:
    """A value that all positions of a row share: its second token."""

    def kl(self, rows, labels, logits):
        return np.repeat(rows[:, 1] * 1.0, labels.mask.sum(axis=1))[:, None].repeat(3, axis=1)


def test_the_standard_error_is_that_of_rows_and_not_of_positions():
    def nothing(rows, mask):
        return np.zeros((int(mask.sum()), 51))

    runs = [
        divergence(ByRow(), nothing, dyck.train_rows, 20_000, np.random.default_rng(100 + i))
        for i in range(60)
    ]
    spread = np.std([run.value for run in runs], ddof=1)
    assert runs[0].standard_error == pytest.approx(spread, rel=0.35)
    values = np.repeat(runs[0].rows[:, 0] / runs[0].lengths, runs[0].lengths)
    assert values.std() / np.sqrt(len(values)) < 0.4 * spread  # positions as units: too small


def hooked_outcome(state, component, mean, rows=ROWS):
    """Logits with a component's write replaced by a hook, the plain way."""
    hooked = to_hooked(state)
    layer, head = component

    def attention(out, hook):
        z = hooked.kept
        return out - z[:, :, head] @ hooked.W_O[layer, head] + mean

    def keep(z, hook):
        hooked.kept = z

    block = f"blocks.{layer}."
    hooks = [(block + "attn.hook_z", keep), (block + "hook_attn_out", attention)]
    if head is None:
        hooks = [(block + "hook_mlp_out", lambda out, hook: mean.expand_as(out))]
    with torch.no_grad():
        logits = hooked.run_with_hooks(torch.from_numpy(rows), fwd_hooks=hooks)
    return logits.numpy()[dyck.label(rows).mask]


def test_means_are_those_of_what_components_write_at_real_positions(state):
    hooked, mask = to_hooked(state), torch.from_numpy(dyck.label(ROWS).mask)
    with torch.no_grad():
        _, cache = hooked.run_with_cache(torch.from_numpy(ROWS))
    means = component_means(state, ROWS)
    assert tuple(means) == components()
    for (layer, head), mean in means.items():
        if head is None:
            write = cache[f"blocks.{layer}.hook_mlp_out"]
        else:
            z = cache[f"blocks.{layer}.attn.hook_z"][:, :, head]
            write = (z @ hooked.W_O[layer, head]).detach()
        torch.testing.assert_close(mean, write[mask].mean(dim=0))
        assert not torch.allclose(mean, write.mean(dim=(0, 1)))  # padding does not count


@pytest.mark.parametrize("component", components(), ids=str)
def test_a_replaced_component_is_that_of_a_hook(state, component):
    mean = component_means(state, MORE)[component]
    found = module_logits(ReplacedDyck(state, {component: mean}))(ROWS, dyck.label(ROWS).mask)
    wanted = hooked_outcome(state, component, mean)
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    assert np.abs(found - plain(state)).max() > 1e-2


def test_effects_are_differences_of_plain_losses(state):
    means = component_means(state, MORE)
    labels = dyck.label(ROWS)
    intact = Exact().kl(ROWS, labels, plain(state)).mean(axis=0)
    chosen = {c: means[c] for c in (Component(0, 1), Component(1))}
    effects = ablation_effects(state, chosen, ROWS)
    for effect, (component, mean) in zip(effects, chosen.items(), strict=True):
        logits = hooked_outcome(state, component, mean)
        losses = Exact().kl(ROWS, labels, logits).mean(axis=0)
        assert effect.component == component
        np.testing.assert_allclose(list(effect.loss.values()), losses - intact, atol=1e-10)
        assert effect.total == pytest.approx((losses - intact).sum())
        depth = labels.depth[labels.mask]
        right, still = (
            x[:, OUTPUTS["depth"]].argmax(axis=1) == depth for x in (plain(state), logits)
        )
        assert effect.kept["depth"] == pytest.approx(still[right].mean())


def test_nothing_replaced_changes_no_bit(state):
    for dtype in (torch.float32, torch.float64):
        weights = {name: value.to(dtype) for name, value in state.items()}
        module = DyckTransformer().to(dtype)
        module.load_state_dict(weights)
        tokens = torch.from_numpy(ROWS)
        assert torch.equal(ReplacedDyck(weights, {})(tokens), module(tokens))


def test_folding_leaves_the_logits_as_they_are(state):
    folded = fold_norms(state)
    assert (folded["ln_out.weight"] == 1).all() and not (state["ln_out.weight"] == 1).all()
    np.testing.assert_allclose(plain(folded), plain(state), atol=1e-10)
    some = {"layers.0.ln1.weight": torch.ones(64, dtype=torch.float64)}
    assert np.abs(plain({**state, **some}) - plain(state)).max() > 1e-2  # a gain that got lost


def test_a_specification_without_dead_components_is_the_model_itself(state):
    spec = constructive(state, MORE, ROWS, share=0.0)
    alive = constructive_of(spec, ())
    labels = dyck.label(ROWS)
    assert np.abs(alive.kl(ROWS, labels, plain(state))).max() < 1e-12
    one = constructive_of(spec, (Component(0, 2),))
    assert one.kl(ROWS, labels, plain(state)).mean() > 1e-4


def constructive_of(spec, dead):
    """The same with other components dead."""
    module = ReplacedDyck(spec.state, {c: spec.means[c] for c in dead})
    return type(spec)(spec.state, spec.means, spec.effects, module)


def test_the_dead_are_replaced_together_and_kl_is_that_of_the_definition(state):
    spec = constructive(state, MORE, ROWS, share=0.9)
    largest = max(effect.total for effect in spec.effects)
    assert 0 < len(spec.dead) < 10
    assert spec.dead == tuple(e.component for e in spec.effects if e.total < 0.9 * largest)
    for c in spec.dead:
        mean = component_means(fold_norms(state), MORE)[c]
        torch.testing.assert_close(spec.means[c], mean)
    labels = dyck.label(ROWS)
    logits, own = plain(state), module_logits(spec.module)(ROWS, labels.mask)
    found = spec.kl(ROWS, labels, logits)
    for i, part in enumerate(OUTPUTS.values()):
        p, q = (np.exp(log_softmax(x[:, part], axis=1)) for x in (own, logits))
        np.testing.assert_allclose(found[:, i], rel_entr(p, q).sum(axis=1), atol=1e-10)
        log_p = spec.log_probs(ROWS)[labels.mask][:, part]
        np.testing.assert_allclose(np.exp(log_p), p, atol=1e-12)
    assert found.mean() > 1e-3
    targets = spec.targets(ROWS)
    wanted = own[:, OUTPUTS["sticky"]].argmax(axis=1)
    np.testing.assert_array_equal(targets.sticky[labels.mask], wanted)


def effect(component, total):
    return Effect(component, {"copy": total, "depth": 0.0, "sticky": 0.0}, {})


def test_dead_is_under_one_percent_of_the_largest():
    made = [(Component(0, 0), 1.0), (Component(0, 1), 0.0101), (Component(0), 0.0099)]
    made.append((Component(1), -0.5))
    found = dead_components([effect(*each) for each in made])
    assert found == (Component(0), Component(1))
    for bad in ([], [effect(Component(0), -1.0)]):
        with pytest.raises(ValueError, match="Is the model trained"):
            dead_components(bad)


def test_what_cannot_be_replaced(state):
    with pytest.raises(ValueError, match=r"head 0\.7 .* none of this model's components"):
        ReplacedDyck(state, {Component(0, 7): torch.zeros(64)})
    with pytest.raises(ValueError, match="none of this model's"):
        ReplacedDyck(state, {Component(0): torch.zeros(5)})


def test_the_decoy_loses_its_depth_and_nothing_else(state):
    decoy, labels = averaged_depth(state), dyck.label(ROWS)
    before, after = (Exact().kl(ROWS, labels, plain(s)) for s in (state, decoy))
    np.testing.assert_allclose(after[:, 1], np.log(9), rtol=1e-12)
    np.testing.assert_allclose(after[:, [0, 2]], before[:, [0, 2]], atol=1e-12)
    head = state["head.weight"]
    torch.testing.assert_close(decoy["head.weight"][45], head[40:49].mean(dim=0))
    assert decoy["tok_embed.weight"] is not state["tok_embed.weight"]


def test_told_apart_is_a_ratio():
    assert told_apart(2e-4, 0.2) == pytest.approx(1000)
    assert told_apart(0.0, 0.2) == np.inf
    assert np.isnan(told_apart(0.0, 0.0))
    for bad in ((-1.0, 1.0), (1.0, np.inf), (np.nan, 1.0)):
        with pytest.raises(ValueError, match="finite and not negative"):
            told_apart(*bad)


def test_components_have_names():
    assert [str(c) for c in components(SMALL)][3:6] == ["head 0.3", "MLP 0", "head 1.0"]
