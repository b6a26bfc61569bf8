"""Features, annotation and roles: planted heads are found, and what is not there is not found."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.dyck import SMALL, DyckTransformer, to_hooked
from helpers.specification import (
    FEATURES,
    Component,
    Effect,
    annotate,
    components,
    feature_columns,
    find_roles,
    mlp_statistics,
    roles,
)
from helpers.specification import head_statistics as statistics
from helpers.specification.evidence import judge
from helpers.specification.features import first_error, local_invalidity, matches
from helpers.specification.head_statistics import Heads
from helpers.tasks import dyck

ROWS = dyck.train_rows(np.random.default_rng(100), 200)
HEADS = [c for c in components() if c.head is not None]


def rng():
    return np.random.default_rng(100)


def plain_matches(row):
    """(query, key) of closers up to the first error, with a stack in the open."""
    stack, found = [], []
    for t, token in enumerate(row):
        if token in dyck.OPENERS:
            if len(stack) == dyck.MAX_DEPTH:
                break
            stack.append(t)
        elif token in dyck.CLOSERS:
            if not stack:
                break
            key = stack.pop()
            found.append((t, key))
            if row[key] + 1 != token:
                break
    return found


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(100, 10**6), nearest=st.integers(1, 4))
def test_matches_are_those_of_a_stack(seed, nearest):
    g = np.random.default_rng(seed)
    rows = np.concatenate([dyck.train_rows(g, 20), dyck.compositional_rows(g, 10)])
    found = matches(rows, nearest=nearest)
    wanted = {
        (i, q, k) for i, row in enumerate(rows) for q, k in plain_matches(row) if q - k >= nearest
    }
    triples = list(zip(found.row, found.query, found.key, strict=True))
    assert {tuple(map(int, each)) for each in triples} == wanted
    assert len(triples) == len(wanted)


def test_errors_are_where_the_text_shows_them():
    local, error = local_invalidity(ROWS), first_error(ROWS)
    wrong = re.compile(r"(?=\([\]}]|\[[)}]|\{[)\]]|\^[)\]}])")
    labels = dyck.label(ROWS)
    for row, seen, place, sticky in zip(ROWS, local, error, labels.sticky, strict=True):
        found = [m.start() + 1 for m in wrong.finditer(dyck.text(row))]
        assert np.flatnonzero(seen).tolist() == found
        assert place == (list(sticky).index(1) if 1 in sticky else -1)


def test_features_have_a_row_for_each_real_position():
    columns, mask = feature_columns(ROWS), dyck.label(ROWS).mask
    assert tuple(columns) == FEATURES
    assert {len(x) for x in columns.values()} == {mask.sum()}
    assert columns["first_error"].sum() == (first_error(ROWS) >= 0).sum()
    for name in ("token", "family", "depth_levels"):
        assert (columns[name].sum(axis=1) == 1).all()
    depth = columns["depth_levels"] @ np.arange(9)
    np.testing.assert_array_equal(depth, columns["depth"][:, 0])


class Planted:
    """A model whose stream at a site is a function of the rows; two layers."""

    config = SMALL

    def __init__(self, **sites):
        self.sites = sites

    def run_with_cache(self, tokens, names_filter):
        streams = {name.replace("__", "."): make for name, make in self.sites.items()}
        kept = {n: torch.from_numpy(m(tokens.numpy())) for n, m in streams.items()}
        return None, {name: value for name, value in kept.items() if names_filter(name)}


def stream_of_depth(rows):
    """Depth along one direction with twice the noise's variance, noise elsewhere."""
    g = np.random.default_rng(int(rows.sum()))
    labels = dyck.label(rows)
    depth = labels.depth / labels.depth[labels.mask].std()
    x = 0.5 * g.standard_normal((*rows.shape, 6))
    x[..., 0] += np.sqrt(0.5) * depth
    turn = np.linalg.qr(np.random.default_rng(100).standard_normal((6, 6)))[0]
    return x @ turn


def test_annotation_finds_what_was_planted_and_how_much_of_it():
    rows = dyck.train_rows(rng(), 1500)
    found = annotate(Planted(here=stream_of_depth), rows, ["here"], rng())["here"]
    # depth s with variance 1/2 in noise of 1/4: R² = 2/3, read off or written
    assert found.decoded["depth"] == pytest.approx(2 / 3, abs=0.02)
    column = found.columns.index("depth")
    assert found.directions[0, column] == pytest.approx(2 / 3, abs=0.02)
    assert np.abs(found.directions[1:]).max() < 0.02
    assert found.share[0] == pytest.approx(0.75 / 2, abs=0.02)
    assert abs(found.shuffled["depth"]) < 0.01
    assert found.decoded["token"] < 0.2
    assert found.directions[0, -1] >= found.directions[0, column] - 0.01


def test_annotation_scores_sequences_that_no_fit_has_seen(monkeypatch):
    """With as many directions as rows a fit on the scored rows would be perfect."""
    rows = dyck.train_rows(rng(), 12)

    def noise(rows):
        g = np.random.default_rng(int(rows.sum()))
        return g.standard_normal((*rows.shape, 150))

    found = annotate(Planted(here=noise), rows, ["here"], rng())["here"]
    assert found.decoded["sticky"] < 0


def test_annotation_refuses_a_feature_that_does_not_vary():
    row = np.full(64, dyck.PAD)
    row[:4] = 1, 3, 4, 2
    rows = np.stack([row, np.where(row == 3, 5, np.where(row == 4, 6, row))])
    with pytest.raises(ValueError, match="is constant on these rows"):
        annotate(Planted(here=stream_of_depth), rows, ["here"], rng())


def test_an_mlp_that_writes_a_feature_closes_what_was_missing():
    def noise(rows):
        return np.random.default_rng(int(rows.sum())).standard_normal((*rows.shape, 12))

    def quantised(rows):
        return np.concatenate([noise(rows), np.eye(9)[dyck.label(rows).depth]], axis=-1)

    sites = {"blocks__0__hook_resid_mid": noise, "blocks__0__hook_resid_post": quantised}
    sites |= {"blocks__1__hook_resid_mid": quantised, "blocks__1__hook_resid_post": noise}
    names = ["depth_levels", "local_invalidity"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mlp_statistics, "HookedDyck", Planted, raising=False)
        found = mlp_statistics.closed_share(Planted(**sites), ROWS, names, rng())
    assert found["depth_levels"]["value"][0] == pytest.approx(1, abs=1e-6)
    assert found["depth_levels"]["value"][1] < -100  # it hides all of it
    assert abs(found["depth_levels"]["shuffled"][0]) < 0.05
    assert found["local_invalidity"]["value"][0] < 0.5


def test_local_invalidity_is_scored_up_to_the_first_error():
    open_yet = mlp_statistics.undecided(ROWS)
    error = first_error(ROWS)
    for row, where, last in zip(ROWS, open_yet, error, strict=True):
        n = int((row != dyck.PAD).sum())
        assert where.sum() == (n if last < 0 else last + 1)


def uniform(rows):
    """Equal attention of every head, which writes noise."""
    length = rows.shape[1]
    even = np.tril(np.ones((length, length))) / np.arange(1, length + 1)[:, None]
    pattern = np.broadcast_to(even, (2, 4, len(rows), length, length)).copy()
    return Heads(rows, pattern, rng().standard_normal((2, 4, *rows.shape, 5)))


def test_uniformity_is_one_for_equal_and_zero_for_one_hot_attention():
    heads, where = uniform(ROWS), dyck.label(ROWS).mask.copy()
    where[:, 0] = False
    heads.pattern[0, 1] = np.eye(64)
    heads.pattern[0, 2] = np.tril(np.ones((64, 64)))  # over the last two places
    heads.pattern[0, 2] -= np.tril(np.ones((64, 64)), -2)
    heads.pattern[0, 2] /= heads.pattern[0, 2].sum(axis=-1, keepdims=True)
    found = statistics.uniformity(heads, where)
    np.testing.assert_allclose(found[1], 1)
    assert found[0, 1] == 0
    wanted = (np.log(2) / np.log(np.nonzero(where)[1] + 1)).mean()
    assert found[0, 2] == pytest.approx(wanted)


def test_a_planted_matcher_is_found_by_its_statistic():
    heads, found = uniform(ROWS), matches(ROWS)
    heads.pattern[1, 3, found.row, found.query] = 0
    heads.pattern[1, 3, found.row, found.query, found.key] = 1
    result = statistics.family_matcher(heads, rng())
    assert result.value[1, 3] == 1 and result.shuffled[1, 3] == 0
    rest = np.delete(result.value.ravel(), 7)
    np.testing.assert_allclose(rest, result.chance)


def test_a_planted_or_is_found_by_its_statistic():
    heads, error = uniform(ROWS), first_error(ROWS)
    for i, place in enumerate(error):
        if place >= 0:
            heads.pattern[1, 0, i, place:] = 0
            heads.pattern[1, 0, i, place:, place] = 1
    result = statistics.sticky_or(heads, rng())
    assert result.value[1, 0] == 1 and result.shuffled[1, 0] == 0
    np.testing.assert_allclose(np.delete(result.value.ravel(), 4), result.chance)


def test_a_head_that_looks_at_one_early_place_is_no_or():
    """The shuffled null catches it: errors come early, so a fixed place is often right."""
    heads = uniform(ROWS)
    heads.pattern[0, 0] = 0
    heads.pattern[0, 0, :, :, 1] = 1
    result = statistics.sticky_or(heads, rng())
    assert result.value[0, 0] > 3 * result.chance
    assert result.shuffled[0, 0] > 3 * result.chance


def counter_state(reads=1.0, sharp=0.0):
    """An untrained model whose head 0.2 averages +1 for openers and −1 for closers."""
    state = DyckTransformer(seed=100).double().state_dict()
    state = {name: value.clone() for name, value in state.items()}
    state["tok_embed.weight"][:, 10] = torch.tensor(np.pad(dyck._KIND, (0, 31))) * 3.0
    here = slice(32, 48)
    for name in ("q", "k", "v"):
        state[f"layers.0.attn.{name}.weight"][here] *= sharp if name != "v" else 0
    state["layers.0.attn.v.weight"][32, 10 if reads else 20] = 1.0
    return state


def effects(costly):
    """Made-up ablation effects: 5 nats on every output for these, next to nothing for the rest."""
    return [
        Effect(
            c,
            dict.fromkeys(("copy", "depth", "sticky"), 5.0 if c in costly else 1e-3),
            dict.fromkeys(("copy", "depth", "sticky"), 0.5 if c in costly else 1.0),
        )
        for c in components()
    ]


@pytest.fixture(scope="module")
def untrained():
    return [to_hooked(DyckTransformer(seed=101 + i).double().state_dict()) for i in range(2)]


def counter(model, untrained, costly):
    found = find_roles(model, untrained, ROWS[:100], effects(costly), rng())
    assert [e.role for e in found] == [*roles.HEAD_ROLES, *roles.MLP_ROLES, roles.CLEAN_UP]
    return {e.role: e for e in found}


def test_a_hand_built_uniform_head_is_found_as_counter(untrained):
    chosen = Component(0, 2)
    found = counter(to_hooked(counter_state()), untrained, HEADS)
    assert found["depth counter"].carriers == (chosen,)
    assert found["depth counter"].values[chosen] > 0.7
    assert found["depth counter"].others < 0.3
    for role in ("family matcher", "sticky OR", "local invalidity", "depth quantiser"):
        assert not found[role].supported
        assert found[role].row()["carried by"] == "none"
    row = found["depth counter"].row()
    assert row["carried by"] == row["shown"] == "head 0.2" and row["loss"] == 5.0


@pytest.mark.parametrize(
    "change, costly",
    [({"reads": 0.0}, HEADS), ({"sharp": 30.0}, HEADS), ({}, [Component(0, 0), Component(1)])],
    ids=["counts something else", "not uniform", "nothing depends on it"],
)
def test_what_only_looks_like_a_counter_is_none(untrained, change, costly):
    found = counter(to_hooked(counter_state(**change)), untrained, costly)
    assert found["depth counter"].carriers == ()


def test_an_untrained_model_has_no_role(untrained):
    model = to_hooked(DyckTransformer(seed=110).double().state_dict())
    found = counter(model, untrained, HEADS)
    assert [e.role for e in found.values() if e.supported] == []


def test_heads_are_those_of_the_cache():
    model = to_hooked(DyckTransformer(seed=110).double().state_dict())
    heads = statistics.heads_on(model, ROWS[:3])
    _, cache = model.run_with_cache(torch.from_numpy(ROWS[:3]))
    for layer in (0, 1):
        wanted = cache[f"blocks.{layer}.attn.hook_pattern"].detach().numpy()
        np.testing.assert_array_equal(heads.pattern[layer].swapaxes(0, 1), wanted)
        total = cache[f"blocks.{layer}.hook_attn_out"].detach().numpy()
        np.testing.assert_allclose(heads.write[layer].sum(axis=0), total, atol=1e-10)


A, B, C = Component(0, 0), Component(0, 1), Component(0, 2)


@pytest.mark.parametrize(
    "values, nulls, losses, carriers",
    [
        ((0.9, 0.8, 0.1), 0.3, (1.0, 2.0, 3.0), (A, B)),
        ((0.9, 0.8, 0.1), 0.85, (1.0, 2.0, 3.0), (A,)),
        ((0.9, 0.8, 0.1), 0.3, (0.01, 2.0, 3.0), (B,)),
        ((0.4, 0.3, 0.1), 0.05, (1.0, 2.0, 3.0), ()),
        ((0.9, 0.8, 0.7), 0.05, (-1.0, -2.0, -3.0), ()),
    ],
    ids=["two", "null", "idle", "floor", "nothing lost"],
)
def test_the_three_rules(values, nulls, losses, carriers):
    keys = (A, B, C)
    made = (dict(zip(keys, each, strict=True)) for each in (values, losses))
    values, losses = made
    found = judge("r", values, {"untrained": 0.01, "shuffled": nulls}, losses, output="depth")
    assert found.carriers == carriers and found.supported == bool(carriers)
    assert found.best == A
    assert found.shown == (carriers[0] if carriers else A)


def test_what_cannot_be_judged(untrained):
    with pytest.raises(ValueError, match="every null a finite value"):
        judge("r", {A: 1.0}, {"untrained": np.nan}, {A: 1.0}, output="depth")
    with pytest.raises(ValueError, match="every component needs"):
        judge("r", {A: 1.0}, {}, {B: 1.0}, output="depth")
    with pytest.raises(ValueError, match="at least one untrained"):
        find_roles(untrained[0], [], ROWS, effects(HEADS), rng())


def test_clean_up_is_who_leaves_the_answers_right():
    made = effects([Component(1)])
    kept = {"copy": 1.0, "depth": 0.97, "sticky": 0.99}
    made = [e for e in made if e.component != Component(1)]
    made.append(Effect(Component(1), dict.fromkeys(kept, 0.2), kept))
    found = roles._clean_up(ROWS, made)
    assert found.values[Component(1)] == 0.97
    assert found.carriers == (Component(1),)  # MLP 0 keeps all, and costs nothing
