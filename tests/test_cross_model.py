"""The report of a pair: exact on a planted rotation, plain formulas, and nulls that fall short."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.alignment.cka import linear_cka
from helpers.cross_model import (
    collect,
    cross_model_report,
    one_sae_on_another,
    pair_maps,
    prepare,
    side,
    split_sequences,
)
from helpers.sae import (
    ReluSAE,
    SAEConfig,
    TopKSAE,
    encoded,
    firing_correlation,
    match_one_to_one,
    match_rows,
    planted_activations,
    train_saes,
    transfer,
)
from helpers.stitching import Outputs
from tests.rotated_pair import random_sae, rotated_pair, turned_sae

SITE = "blocks.1.hook_resid_mid"


report = partial(cross_model_report, draws=99)  # a table of 1999 takes seconds


def rng(seed=100):
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def exact():
    """Both sides of a model and its rotation, the rotation, and an unrelated model's side."""
    pair = rotated_pair()
    plan = split_sequences(rng(), pair.tokens)

    def of(model):
        mask = pair.labels.mask
        return [
            collect(model, pair.tokens[rows], [SITE], mask=mask[rows])[SITE]
            for rows in (plan.fit, plan.score)
        ]

    rows_A = of(pair.A)
    config = SAEConfig(expansion=2, l1=0.01, steps=200)
    weights = vars(train_saes(rows_A[:1], config, init_seeds=[100], data_seed=100)[0].sae)
    sae = ReluSAE(**{name: value.double() for name, value in weights.items()})
    A = prepare(*rows_A, sae, rng())
    B = prepare(*of(pair.B), turned_sae(sae, pair.R), rng())
    other = prepare(*of(pair.other), random_sae(101), rng())
    return A, B, pair.R, other, plan.groups(pair.labels.mask)


@pytest.fixture(scope="module")
def found(exact):
    """The whole report of the rotated pair."""
    A, B, _, _, groups = exact
    return report(A, B, rng(), groups=groups)


@pytest.fixture(scope="module")
def noisy():
    """A planted model and its rotation with noise, in float32 as SAEs are; top-k and ReLU."""
    g = rng(102)
    x = planted_activations(g, 3000, d=16, n_features=24).activations
    Q = np.linalg.qr(g.standard_normal((16, 16)))[0]
    y = x @ Q + 0.3 * g.standard_normal(x.shape) + 1
    relu = random_sae(102, 16, 32, torch.float32)
    top = TopKSAE(relu.W_enc, relu.b_enc, relu.W_dec, relu.b_dec, 4)
    return prepare(x[:2000], x[2000:], relu, g), prepare(y[:2000], y[2000:], top, g)


# ---- an exact rotation


def test_a_planted_rotation_is_recovered(exact, found):
    R = exact[2]
    np.testing.assert_allclose(found.to_A.R, R.T, atol=1e-5)
    assert found.frobenius == pytest.approx(np.sqrt(128 - 2 * np.trace(R)), abs=1e-4)
    assert found.trace == pytest.approx(np.trace(R), abs=1e-4)
    assert found.split.active == pytest.approx(1, abs=1e-6)
    assert found.split.everywhere == pytest.approx(1, abs=1e-5)
    assert found.cka == pytest.approx(1, abs=1e-9)


def test_under_a_planted_rotation_every_score_is_the_model_s_own(found):
    assert found.ev_self > 0.7
    for score in ("rotated", "true", "sent"):
        assert getattr(found.ev["rotation"], score) == pytest.approx(found.ev_self, abs=1e-6)
    assert found.ev["rotation"].map == pytest.approx(1, abs=1e-9)
    assert found.ev["affine"].map == pytest.approx(1, abs=1e-6)
    assert found.firing["rotation"].mean == pytest.approx(1, abs=1e-6)
    decoder = found.decoder["rotation"]
    assert decoder.best == pytest.approx(1, abs=1e-6)
    assert decoder.one_to_one == pytest.approx(1, abs=1e-6)
    assert decoder.share == 1


def test_without_the_rotation_and_under_the_nulls_nothing_is_left(found):
    """The broken versions of the two tests above."""
    assert found.ev_naive < found.ev_self - 0.5
    for null in ("principal_axes", "shuffled", "haar"):
        assert found.ev[null].map < 0
        assert found.ev[null].true < found.ev_self - 0.3
        assert found.ev[null].sent < found.ev_self - 0.3
    for name in ("raw", "haar"):
        assert abs(found.firing[name].mean) < 0.3
        assert found.decoder[name].best < 0.5
    assert found.decoder["random"].best < 0.6
    assert found.decoder["random_rotated"].best < 0.6


def test_an_unrelated_model_is_not_made_of_this_one(exact):
    A, _, _, other, groups = exact
    shared = report(A, other, rng(), groups=groups)
    assert shared.ev["rotation"].map < 0.9
    assert shared.decoder["rotation"].best < 0.5
    assert shared.cka < 0.95


def test_pairs_of_other_tokens_are_noticed_by_true_and_not_by_rotated(exact):
    A, B, *_ = exact
    mixed = rng().permutation(len(B.score))
    broken = prepare(B.fit, B.score[mixed], B.sae, rng())
    right, wrong = (
        one_sae_on_another(A, side_B, pair_maps(A, B, rng())["rotation"]) for side_B in (B, broken)
    )
    assert wrong.rotated == pytest.approx(right.rotated, abs=1e-6)
    assert wrong.true < right.true - 0.3
    assert wrong.map < 0 < right.map


# ---- against the plain formulas


def test_scores_are_those_of_the_plain_transfer(noisy):
    for A, B in (noisy, noisy[::-1]):
        maps = pair_maps(A, B, rng())
        found = report(A, B, rng())
        assert list(maps) == ["rotation", "principal_axes", "shuffled", "haar", "affine"]
        for name, there in maps.items():
            every = 4 if name in ("principal_axes", "shuffled") else 1
            rows = slice(None, None, every)
            plain = transfer(A.sae, A.score[rows], B.score[rows], *there).ev()
            for score, value in found.ev[name]._asdict().items():
                assert value == pytest.approx(plain[score], abs=1e-4), (name, score)
        assert found.ev_self == pytest.approx(
            transfer(A.sae, A.score, B.score, there[0], there[1]).ev()["self"], abs=1e-5
        )
        assert found.ev_naive == pytest.approx(plain["naive"], abs=1e-4)


def test_firing_is_the_plain_correlation(noisy):
    for A, B in (noisy, noisy[::-1]):
        found = report(A, B, rng())
        maps = pair_maps(A, B, rng())
        own = encoded(A.sae, A.score)
        inputs = {"raw": B.score} | {
            name: maps[name].to_A.apply(B.score) for name in ("rotation", "haar")
        }
        assert set(found.firing) == set(inputs)
        for name, x in inputs.items():
            plain = firing_correlation(own, encoded(A.sae, x))
            np.testing.assert_allclose(found.firing[name].r, plain.r, atol=1e-4)
            np.testing.assert_array_equal(found.firing[name].silent_two, plain.silent_two)
            np.testing.assert_array_equal(found.firing[name].silent_one, plain.silent_one)
            np.testing.assert_array_equal(found.firing[name].varies_one, plain.varies_one)
        assert found.firing["rotation"].mean > found.firing["haar"].mean + 0.2


def test_features_that_never_fire_or_never_rest_have_no_correlation():
    W = torch.eye(4, dtype=torch.float64)
    b = torch.tensor([0.0, -100.0, 0.0, 0.0], dtype=torch.float64)  # 1 never fires
    W_enc = W.clone()
    W_enc[:, 2], b[2] = 0, 1.0  # 2 always fires alike
    sae = ReluSAE(W_enc, b, W, torch.zeros(4, dtype=torch.float64))
    x = rng().standard_normal((400, 4))
    A = prepare(x[:200], x[200:], sae, rng())
    found = report(A, A, rng()).firing["raw"]
    np.testing.assert_allclose(found.r, [1, np.nan, np.nan, 1], atol=1e-12)
    assert found.silent_one.tolist() == found.silent_two.tolist() == [False, True, False, False]
    assert A.live.tolist() == [True, False, True, True]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(100, 10**6),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    offset=st.floats(-1e6, 1e6),
)
def test_columns_fed_in_parts_are_those_of_the_whole(seed, sizes, offset):
    g = rng(seed)
    code = g.standard_normal((sum(sizes), 3)) + offset
    code[:, 2] = offset
    pattern = torch.from_numpy(g.standard_normal(code.shape))
    columns = side.Columns(pattern)
    for part in torch.from_numpy(code).split(sizes):
        columns.add(part)
    np.testing.assert_allclose(columns.mean, code.mean(axis=0), rtol=1e-9, atol=1e-9)
    spread = ((code - code.mean(axis=0)) ** 2).sum(axis=0)
    np.testing.assert_allclose(columns.spread, spread, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        columns.products, (pattern.numpy() * code).sum(axis=0), rtol=1e-9, atol=1e-6
    )
    assert columns.constant.tolist() == (np.ptp(code, axis=0) == 0).tolist()


def test_parts_of_the_rows_change_nothing(noisy, monkeypatch):
    A, B = noisy
    whole = report(A, B, rng()).row()
    monkeypatch.setattr(side, "AT_ONCE", 77)
    parts = [prepare(s.fit, s.score, s.sae, rng(7)) for s in noisy]
    in_parts = report(*parts, rng()).row()
    for name in set(whole) - {"ev.gaussian"}:
        assert in_parts[name] == pytest.approx(whole[name], abs=1e-5), name


def test_firing_can_stop_at_a_number_of_rows(noisy, monkeypatch):
    monkeypatch.setattr(side, "AT_ONCE", 100)
    monkeypatch.setattr(side, "FIRING_ROWS", 300)
    A, B = (prepare(s.fit, s.score, s.sae, rng()) for s in noisy)
    plain = firing_correlation(encoded(A.sae, A.score[:300]), encoded(A.sae, B.score[:300]))
    found = report(A, B, rng())
    np.testing.assert_allclose(found.firing["raw"].r, plain.r, atol=1e-4)
    assert found.ev_naive == pytest.approx(report(*noisy, rng()).ev_naive, abs=1e-6)


def test_cosines_are_those_of_the_live_rows(noisy):
    A, B = noisy
    found = report(A, B, rng())
    turned, live = found.to_A.direction(B.sae.decoder), (A.live, B.live)
    for rows, name in ((B.sae.decoder, "raw"), (turned, "rotation")):
        best = match_rows(A.sae.decoder, rows, live=live)
        assert found.decoder[name].best == pytest.approx(best.mean)
        assert found.decoder[name].share == pytest.approx((best.cosine > 0.5).mean())
        paired = match_one_to_one(A.sae.decoder, rows, live=live)
        assert found.decoder[name].one_to_one == pytest.approx(paired.mean)


def test_cka_is_that_of_the_rows_to_score_on(noisy):
    A, B = noisy
    assert report(A, B, rng()).cka == pytest.approx(linear_cka(A.score, B.score))


def test_p_values_and_sizes_of_the_rotation(noisy):
    from helpers.alignment.haar_tests import CLAIMED, haar_p_values

    A, B = noisy
    found = cross_model_report(A, B, rng())
    p = haar_p_values(found.to_A.R[None], CLAIMED)[0]
    assert found.p == dict(zip(CLAIMED, p, strict=True))
    own = cross_model_report(A, A, rng())  # the identity, which is no Haar draw
    assert own.frobenius == pytest.approx(0, abs=1e-6)
    assert max(own.p.values()) < 0.01


# ---- which batch is which


def test_maps_know_the_rows_to_fit_on_and_no_others(noisy):
    A, B = noisy
    other = prepare(B.fit, rng(5).standard_normal(B.score.shape), B.sae, rng())
    for name, there in pair_maps(A, B, rng()).items():
        again = pair_maps(A, other, rng())[name]
        np.testing.assert_array_equal(there.to_A.R, again.to_A.R)
        np.testing.assert_array_equal(there.to_B.mean_y, again.to_B.mean_y)


def test_nulls_do_not_know_the_pairing_and_the_rotation_does(noisy):
    A, B = noisy
    mixed = prepare(rng(6).permutation(B.fit), B.score, B.sae, rng())
    one, two = (pair_maps(A, b, rng()) for b in (B, mixed))
    for null in ("principal_axes", "haar"):
        np.testing.assert_allclose(one[null].to_A.R, two[null].to_A.R, atol=1e-8)
    assert np.abs(one["rotation"].to_A.R - two["rotation"].to_A.R).max() > 0.1
    assert (
        one_sae_on_another(A, B, one["shuffled"]).map
        < 0
        < one_sae_on_another(A, B, one["rotation"]).map
    )


def test_the_affine_map_is_an_upper_bound_and_reached_where_no_rotation_is():
    g = rng(103)
    x = g.standard_normal((900, 6))
    y = x @ (np.eye(6) + 0.5 * g.standard_normal((6, 6))) + 2
    sae = random_sae(103, 6, 12)
    A, B = (prepare(z[:600], z[600:], sae, g) for z in (x, y))
    found = report(A, B, g).ev
    assert found["affine"].map == pytest.approx(1, abs=1e-6)
    assert found["affine"].sent == pytest.approx(
        transfer(sae, A.score, B.score, *pair_maps(A, B, rng())["affine"]).sent.ev, abs=1e-9
    )
    assert found["rotation"].map < 0.95


def test_what_the_data_leave_open_is_drawn_and_scores_alike():
    g = rng(104)
    x = g.standard_normal((800, 5)) @ g.standard_normal((5, 16))
    y = x @ np.linalg.qr(g.standard_normal((16, 16)))[0]
    sae = random_sae(104, 16, 32)
    A, B = (prepare(z[:500], z[500:], sae, g) for z in (x, y))
    one, two = (report(A, B, rng(seed)) for seed in (1, 2))
    assert np.abs(one.to_A.R - two.to_A.R).max() > 0.1
    assert one.ev["rotation"].map == pytest.approx(1, abs=1e-9)
    assert two.ev["rotation"].true == pytest.approx(one.ev["rotation"].true, abs=1e-9)
    assert one.split.active == pytest.approx(1, abs=1e-9)
    assert one.split.everywhere < 0.9


# ---- the Gaussian, rows, options, errors


def test_the_gaussian_has_the_mean_and_covariance_of_the_activations():
    """An SAE that keeps the first two dimensions explains their share of the variance."""
    g = rng(105)
    scale = np.array([3.0, 2.0, 1.0, 1.0])
    x = g.laplace(size=(20_000, 4)) * scale + 7
    half = torch.eye(4, dtype=torch.float64)[:2]
    W_dec = torch.cat([half, -half])
    sae = ReluSAE(
        W_dec.T.contiguous(), torch.zeros(4).double(), W_dec, torch.full((4,), 7.0).double()
    )
    A = prepare(x[:10_000], x[10_000:], sae, g)
    share = (9 + 4) / (9 + 4 + 1 + 1)
    assert A.ev_self == pytest.approx(share, abs=0.01)
    assert A.ev_gaussian == pytest.approx(share, abs=0.01)
    wrong = ReluSAE(sae.W_enc, sae.b_enc, sae.W_dec, torch.zeros(4).double())  # the mean is lost
    assert prepare(x[:10_000], x[10_000:], wrong, g).ev_gaussian < 0


def test_a_gaussian_is_no_sparse_code():
    """Rows along single decoder directions come back whole, a Gaussian of their covariance not."""
    g = rng(106)
    planted = planted_activations(g, 4000, active=1.0, d=16, n_features=24)
    D = torch.from_numpy(planted.dictionary)
    sae = TopKSAE(D.T.contiguous(), torch.zeros(24).double(), D, torch.from_numpy(planted.mean), 1)
    one = planted.codes.astype(bool).sum(axis=1) == 1
    x = planted.activations[one]
    A = prepare(x[:700], x[700:], sae, g)
    assert A.ev_self == pytest.approx(1, abs=1e-9)
    assert A.ev_gaussian < 0.6


def test_a_row_is_flat_numbers(found):
    row = found.row()
    assert all(isinstance(value, float) for value in row.values())
    for name in ("ev.rotation.true", "ev.haar.map", "decoder.random_rotated.one_to_one", "trace"):
        assert np.isfinite(row[name])
    assert {"p.T_8", "firing.haar.silent_zero", "split.active", "ev.gaussian"} <= set(row)
    assert not any(name.startswith("stitching") for name in row)


def test_the_cheap_report_is_the_same_without_nulls(exact, found):
    A, B, *_ = exact
    cheap = report(A, B, rng(), nulls=False)
    assert list(cheap.ev) == ["rotation"]
    assert list(cheap.firing) == list(cheap.decoder) == ["raw", "rotation"]
    for name in ("ev.naive", "ev.rotation.true", "ev.rotation.sent", "decoder.raw.best", "cka"):
        assert cheap.row()[name] == pytest.approx(found.row()[name], abs=1e-12)


def test_stitching_gets_every_map_from_A_to_B(exact):
    A, B, R, *_ = exact
    seen = []

    def stitch(to_B):
        seen.append(to_B)
        worst = float(np.abs(to_B.apply(A.score) - B.score).max())
        return Outputs({"copy": worst, "depth": 0.0, "sticky": 0.0}, {"copy": 0.0})

    found = report(A, B, rng(), stitch=stitch)
    names = ["identity", "rotation", "principal_axes", "shuffled", "haar", "affine"]
    assert list(found.stitching) == names
    np.testing.assert_array_equal(seen[0].R, np.eye(64))
    assert not seen[0].mean_x.any()
    np.testing.assert_allclose(seen[1].R, R, atol=1e-5)
    row = found.row()
    assert max(row[f"stitching.{name}.loss.copy"] for name in ("rotation", "affine")) < 1e-4
    assert row["stitching.haar.loss.copy"] > 1 < row["stitching.identity.loss.copy"]


def test_sides_that_do_not_fit(exact, noisy, unchecked):
    A, B, *_ = exact
    with pytest.raises(ValueError, match="same positions, row for row"):
        report(A, prepare(B.fit[:-1], B.score, B.sae, rng()), rng())
    with pytest.raises(ValueError, match="the SAE takes 16 dimensions"):
        prepare(A.fit, A.score, noisy[0].sae, rng())
    with pytest.raises(ValueError, match="NaN"):
        prepare(A.fit * np.nan, A.score, A.sae, rng())


def test_an_sae_that_never_fires_has_no_decoder_to_compare(exact):
    A, B, *_ = exact
    dead = ReluSAE(B.sae.W_enc, B.sae.b_enc - 1e6, B.sae.W_dec, B.sae.b_dec)
    with pytest.raises(ValueError, match="at least one of them true"):
        report(A, prepare(B.fit, B.score, dead, rng()), rng())
