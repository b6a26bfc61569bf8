"""Effects of a vector against the plain run with hooks, and its transfer along a planted map."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from helpers.alignment.haar import haar
from helpers.alignment.maps import Alignment
from helpers.steering import (
    MEASURES,
    NAMES,
    SITE,
    Steered,
    Steerer,
    TransferCurves,
    directions,
    overlap,
    places,
    transfer_curves,
)
from helpers.steering.effects import log_odds
from helpers.tasks import dyck
from tests.rotated_pair import rotated_pair

DOSES = (-1.0, 0.0, 0.5, 1.0, 3.0)
ROWS = slice(0, 24)


@pytest.fixture(scope="module")
def pair():
    return rotated_pair()


@pytest.fixture(scope="module")
def vectors(pair):
    return directions(pair.A, pair.tokens), directions(pair.B, pair.tokens)


def steerer(model, pair, name="depth", site=SITE):
    tokens = pair.tokens[ROWS]
    return Steerer(model, tokens, places(name, tokens), site=site)


def test_log_odds_stay_finite_where_a_probability_is_0_or_1():
    logits = torch.tensor([[900.0, 0.0, -900.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    event = torch.tensor([[True, False, False], [True, True, False]])
    found = log_odds(logits.log_softmax(dim=1), event)
    torch.testing.assert_close(found, torch.tensor([900.0, np.log(2.0)], dtype=torch.float64))
    torch.testing.assert_close(log_odds(logits.log_softmax(dim=1), ~event), -found)


def plain(model, tokens, where, added, site):
    """Log-probabilities at the places, from a whole run with a hook."""

    def add(value, hook):
        return value + torch.from_numpy(where[:, :, None] * added)

    with torch.no_grad():
        logits = model.run_with_hooks(torch.from_numpy(tokens), fwd_hooks=[(site, add)])
    logits = logits.numpy()[where]
    parts = {"copy": logits[:, :40], "depth": logits[:, 40:49], "sticky": logits[:, 49:]}
    return {name: log_softmax(part, axis=1) for name, part in parts.items()}


@pytest.mark.parametrize("site", [SITE, "blocks.0.hook_resid_mid", "ln_final.hook_normalized"])
def test_effects_are_those_of_a_whole_run_with_a_hook(pair, vectors, site):
    """Behind the last attention the chosen positions alone are computed, elsewhere all."""
    tokens, v = pair.tokens[ROWS], vectors[0]["depth"]
    where, labels = places("depth", tokens), dyck.label(tokens)
    found = steerer(pair.A, pair, site=site)(v, [2.0])
    before, after = (plain(pair.A, tokens, where, dose * v, site) for dose in (0.0, 2.0))
    depth = labels.depth[where]
    row = np.arange(len(depth))

    def odds(p):
        return (np.log(p) - np.log1p(-p)).mean()

    def measures(log_p):
        p = {name: np.exp(value) for name, value in log_p.items()}
        return {
            "logit_deeper": odds(p["depth"][row, depth + 1]),
            "logit_invalid": odds(p["sticky"][:, 1]),
            "logit_closer": odds(p["copy"][:, [4, 6, 8]].sum(axis=1)),
            "p_deeper": p["depth"][row, depth + 1].mean(),
            "expected_depth": (p["depth"] * np.arange(9)).sum(axis=1).mean(),
            "p_invalid": p["sticky"][:, 1].mean(),
            "p_closer": p["copy"][:, [4, 6, 8]].sum(axis=1).mean(),
        }

    assert set(found.shift) == set(MEASURES)
    for name in MEASURES:
        wanted = measures(after)[name] - measures(before)[name]
        assert found.shift[name][0] == pytest.approx(wanted, abs=1e-10)
        assert abs(wanted) > 1e-6
    for name in ("copy", "depth", "sticky"):
        kl = (np.exp(before[name]) * (before[name] - after[name])).sum(axis=1).mean()
        assert found.kl[name][0] == pytest.approx(kl, abs=1e-10)
        right = after[name].argmax(axis=1) == getattr(labels, name)[where]
        assert found.accuracy[name][0] == pytest.approx(right.mean())


def test_no_dose_does_nothing_and_more_does_more(pair, vectors):
    found = steerer(pair.A, pair)(vectors[0]["depth"], [0.0, 0.5, 1.0])
    assert max(abs(found.shift[name][0]) for name in MEASURES) < 1e-12
    for kl in found.kl.values():
        assert abs(kl[0]) < 1e-12 < kl[1] < kl[2]


def test_at_the_greatest_depth_alone_nothing_can_be_deeper(pair):
    tokens = np.array([[1, *[3] * 8, 2]])
    where = np.zeros(tokens.shape, dtype=bool)
    where[0, 8] = True
    found = Steerer(pair.A, tokens, where)(np.ones(64), [1.0])
    assert np.isnan(found.shift["p_deeper"][0])
    assert np.isfinite(found.shift["expected_depth"][0])


def test_what_cannot_be_steered(pair, unchecked):
    tokens = pair.tokens[ROWS]
    where = places("depth", tokens)
    for bad in (where[:, :5], np.zeros_like(where)):
        with pytest.raises(ValueError, match="at least one true"):
            Steerer(pair.A, tokens, bad)
    with pytest.raises(ValueError, match="padding has no right answer"):
        Steerer(pair.A, tokens, tokens == dyck.PAD)
    with pytest.raises(ValueError, match="no site 'hook_embed'"):
        Steerer(pair.A, tokens, where, site="hook_embed")
    ready = Steerer(pair.A, tokens, where)
    for bad in (np.ones(63), np.full(64, np.nan)):
        with pytest.raises(ValueError, match=r"a direction is \(64,\) and finite"):
            ready(bad, [1.0])
    with pytest.raises(ValueError, match="at least one dose"):
        ready(np.ones(64), [])


# ---- transfer


def curves_of(pair, vectors, name, **keywords):
    zero = np.zeros(64)
    random = haar(np.random.default_rng(102), 64, 1)[0]
    maps = {"rotated": Alignment(pair.R, zero, zero), "wrong": Alignment(random, zero, zero)}
    return transfer_curves(
        steerer(pair.B, pair, name),
        name,
        source=vectors[0][name],
        native=vectors[1][name],
        maps=maps,
        doses=DOSES,
        generator=np.random.default_rng(100),
        **keywords,
    )


@pytest.mark.parametrize("name", NAMES)
def test_vectors_transfer_exactly_along_a_planted_rotation_and_not_otherwise(pair, vectors, name):
    found = curves_of(pair, vectors, name)
    np.testing.assert_allclose(found.difference("rotated"), 0, atol=1e-9)
    assert found.cosine["rotated"] == pytest.approx(1, abs=1e-9)
    for output, native in found.curves["native"].kl.items():
        np.testing.assert_allclose(found.curves["rotated"].kl[output], native, atol=1e-9)
    for broken in ("raw", "wrong"):
        assert np.abs(found.difference(broken)).max() > 1e-5
        assert abs(found.cosine[broken]) < 0.5
    assert np.abs(found.difference("random")).max(axis=1).min() > 1e-5


def test_random_vectors_have_the_source_s_length_and_are_new_each_draw(pair, vectors):
    one = curves_of(pair, vectors, "depth", draws=3)
    again = curves_of(pair, vectors, "depth", draws=3)
    assert one.effect("random").shape == (3, len(DOSES))
    np.testing.assert_array_equal(one.effect("random"), again.effect("random"))
    assert len(np.unique(one.effect("random")[:, -1])) == 3
    lengths = {np.linalg.norm(v).round(9) for k, v in one.vectors.items() if k != "native"}
    assert len(lengths) == 1


def test_the_measure_can_be_chosen(pair, vectors):
    found = curves_of(pair, vectors, "depth", measure="expected_depth")
    np.testing.assert_array_equal(
        found.effect("native"), found.curves["native"].shift["expected_depth"]
    )
    assert curves_of(pair, vectors, "sticky").measure == "p_invalid"


def test_overlap_is_one_for_the_identity_and_has_mean_0_and_sd_1_over_root_d_for_haar():
    v, d = np.random.default_rng(100).standard_normal(64), 64
    assert overlap(v, np.eye(d)) == pytest.approx(1)
    assert overlap(3 * v, -np.eye(d)) == pytest.approx(-1)
    values = np.array([overlap(v, R) for R in haar(np.random.default_rng(101), d, 2000)])
    assert values.mean() == pytest.approx(0, abs=4 / np.sqrt(d * 2000))
    assert values.std() == pytest.approx(1 / np.sqrt(d), rel=0.1)


def test_overlap_by_map_is_that_of_the_source(pair, vectors):
    found = curves_of(pair, vectors, "closer")
    v = vectors[0]["closer"]
    assert found.overlap["rotated"] == pytest.approx(v @ pair.R @ v / (v @ v))


def planted(doses, **effects):
    """Curves of given effects."""
    made = {
        name: Steered(np.array(doses, float), {"p_deeper": np.array(effect, float)}, {}, {})
        for name, effect in effects.items()
    }
    return TransferCurves(made, (), {}, {}, {}, "p_deeper")


def test_half_of_the_native_maximum_is_found_between_doses():
    found = planted([2, -1, 0, 1], native=[0.8, -0.5, 0, 0.5], raw=[0.6, 0.9, 0, 0.2])
    assert found.half_dose("native").dose == pytest.approx(0.8)
    assert found.half_dose("raw").dose == pytest.approx(1.5)  # 0.2 at 1, 0.6 at 2; −1 is no dose
    assert found.half_dose("raw").reason == ""


def test_below_the_first_dose_the_effect_comes_from_zero():
    found = planted([1, 2], native=[0.8, 0.8], raw=[0.4, 0.8])
    assert found.half_dose("native").dose == pytest.approx(0.5)
    assert found.half_dose("raw").dose == pytest.approx(1.0)


def test_a_curve_that_falls_again_counts_where_it_first_gets_there():
    found = planted([1, 2, 3], native=[1.0, 0.2, 0.0], raw=[0.0, 0.6, 0.0])
    assert found.half_dose("native").dose == pytest.approx(0.5)
    assert found.half_dose("raw").dose == pytest.approx(1 + 5 / 6)


def test_a_half_dose_that_is_none_says_why():
    found = planted([1, 2], native=[0.4, 0.8], raw=[0.1, 0.2])
    none = found.half_dose("raw")
    assert np.isnan(none.dose)
    assert none.reason == "the effect is at most 0.2, half is 0.4"
    weak = planted([1, 2], native=[0.001, -0.3], raw=[0.5, 0.9])
    assert np.isnan(weak.half_dose("raw").dose)
    assert weak.half_dose("raw").reason == "the native effect is at most 0.001"
    with pytest.raises(ValueError, match="random is several curves"):
        found.half_dose("random")


def test_a_ratio_is_left_out_where_the_native_effect_is_too_small():
    found = planted([0, 1, 2], native=[0.0, 0.005, -0.5], raw=[0.0, 0.5, 0.25])
    np.testing.assert_allclose(found.ratio("raw"), [np.nan, np.nan, -0.5])
    np.testing.assert_allclose(found.ratio("raw", floor=0.001), [np.nan, 100, -0.5])
    np.testing.assert_allclose(found.difference("raw"), [0, 0.495, 0.75])


def test_transfers_that_make_no_sense(pair, vectors, unchecked):
    ready, v = steerer(pair.B, pair), vectors[0]["depth"]
    some = {"source": v, "native": v, "maps": {}, "doses": DOSES}
    some["generator"] = np.random.default_rng(100)
    with pytest.raises(ValueError, match="directions are"):
        transfer_curves(ready, "width", **some)
    with pytest.raises(ValueError, match="directions are"):
        transfer_curves(ready, "depth", measure="p_wide", **some)
    with pytest.raises(ValueError, match="draws ≥ 1"):
        transfer_curves(ready, "depth", draws=0, **some)
    identity = Alignment(np.eye(64), np.zeros(64), np.zeros(64))
    with pytest.raises(ValueError, match="cannot be called 'raw'"):
        transfer_curves(ready, "depth", **{**some, "maps": {"raw": identity}})
    with pytest.raises(ValueError, match="a vector of zeros"):
        transfer_curves(ready, "depth", **{**some, "source": 0 * v})
