"""Tests of Haar: their size, what they notice, what they cannot, and Holm's correction."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.alignment import haar_tests as module
from helpers.alignment.alternatives import (
    ALTERNATIVES,
    blocks,
    cyclic_shift,
    haar_draw,
    heavy_tailed,
    hidden,
    near_identity,
    part_way,
    permutation,
    pinned,
    signed_permutation,
)
from helpers.alignment.haar import haar
from helpers.alignment.haar_tests import (
    CLAIMED,
    STATISTICS,
    haar_p_values,
    haar_statistics,
    haar_tests,
    null_table,
)
from helpers.alignment.holm import holm
from helpers.alignment.maps import fit_rotation
from helpers.alignment.power import power_table
from helpers.alignment.spectrum import eigenangles

quick = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)


@pytest.mark.parametrize("group", ["SO", "O-", "O"])
def test_every_test_rejects_haar_draws_in_about_five_percent(group):
    p = haar_p_values(haar(np.random.default_rng(1), 64, 1500, group))
    rates = np.mean(p <= 0.05, axis=0)
    # two standard errors are about 0.011 from the draws and as much from the null
    assert ((rates >= 0.03) & (rates <= 0.07)).all(), dict(zip(STATISTICS, rates, strict=True))


def test_a_null_with_the_wrong_determinant_has_the_wrong_size(monkeypatch):
    R = haar(np.random.default_rng(2), 4, 1500, "O-")
    right = np.mean(haar_p_values(R) <= 0.05, axis=0)
    assert ((right >= 0.03) & (right <= 0.07)).all()
    real = module.null_table
    monkeypatch.setattr(module, "null_table", lambda d, group, n, seed: real(d, "SO", n, seed))
    wrong = np.mean(haar_p_values(R) <= 0.05, axis=0)
    assert ((wrong < 0.03) | (wrong > 0.07)).any()


@pytest.fixture(scope="module")
def table():
    return power_table(64, generator=np.random.default_rng(3), n=60)


def test_the_procedure_keeps_its_level(table):
    assert table.interval("Haar")[0] <= 0.05


@pytest.mark.parametrize("alternative", [name for name in ALTERNATIVES if name != "Haar"])
def test_the_procedure_notices_each_alternative(table, alternative):
    # two hidden blocks are the hardest: about 0.78 over many draws
    least = 0.6 if alternative == "2 blocks, hidden" else 0.8
    assert table.power(alternative) >= least


def test_only_coordinates_give_heavy_tailed_entries_away(table):
    assert table.power("heavy-tailed entries", "sum_R4") > 0.9
    for spectral in ("T_8", "T_32", "kuiper", "trace"):
        assert table.power("heavy-tailed entries", spectral) < 0.2


def test_a_hidden_structure_shows_in_the_spectrum_only(table):
    for name in ("8 blocks, hidden", "3 pinned, hidden", "cyclic shift, hidden"):
        assert table.power(name, "sum_R4") < 0.2
        assert table.power(name, "T_8") > 0.8


def test_the_trace_alone_misses_most(table):
    for name in ("permutation", "cyclic shift", "2 blocks"):
        assert table.power(name, "trace") < 0.5


def test_a_power_comes_with_its_interval(table):
    low, high = table.interval("2 blocks, hidden")
    assert low < table.power("2 blocks, hidden") < high
    assert table.interval("8 blocks")[1] == 1


def test_correcting_for_sites_costs_power():
    arguments = {"alternatives": {"hidden": hidden(blocks(2))}, "tests": ("T_32",), "n": 60}
    one = power_table(64, **arguments, generator=np.random.default_rng(4))
    many = power_table(64, **arguments, generator=np.random.default_rng(4), sites=12)
    assert many.power("hidden") < one.power("hidden")
    assert many.power("hidden", "T_32") == one.power("hidden", "T_32")


@given(seed=seeds, d=st.integers(3, 9))
@quick
def test_spectral_statistics_do_not_see_a_common_change_of_basis(seed, d):
    R, H = haar(np.random.default_rng(seed), d, 2)
    before, after = haar_statistics(R[None]), haar_statistics((H @ R @ H.T)[None])
    for name in STATISTICS:
        if name != "sum_R4":
            np.testing.assert_allclose(before[name], after[name], atol=1e-6, err_msg=name)


@given(seed=seeds, d=st.integers(3, 9))
@quick
def test_the_fourth_powers_do_not_see_signed_permutations(seed, d):
    rng = np.random.default_rng(seed)
    R = haar(rng, d, 1)[0]
    moved = signed_permutation(rng, d) @ R @ signed_permutation(rng, d)
    one, two = (haar_statistics(M[None])["sum_R4"][0] for M in (R, moved))
    assert one == pytest.approx(two) == pytest.approx(np.sum(R**4))


def test_a_stack_taken_in_parts_has_the_statistics_of_its_matrices(monkeypatch):
    R = haar(np.random.default_rng(18), 6, 5)
    whole = haar_statistics(R)
    monkeypatch.setattr(module, "ENTRIES_AT_ONCE", 2 * 36)
    for name, values in haar_statistics(R).items():
        np.testing.assert_allclose(values, whole[name], err_msg=name)
    np.testing.assert_allclose(whole["trace"], [np.trace(one) for one in R])


def test_the_distance_from_the_identity_is_a_function_of_the_trace():
    R = haar(np.random.default_rng(5), 6, 4)
    wanted = np.linalg.norm(R - np.eye(6), axis=(1, 2))
    np.testing.assert_allclose(haar_statistics(R)["frobenius"], wanted)
    p = haar_p_values(R, ("trace", "frobenius"))
    np.testing.assert_array_equal(p[:, 0], p[:, 1])


def test_a_p_value_counts_the_draws_on_the_nearer_side():
    R = haar(np.random.default_rng(6), 5, 1, "O-")
    value = haar_statistics(R)["T_8"][0]
    null = null_table(5, "O-", 199, 7)["T_8"]
    fewer = min(np.sum(null <= value), np.sum(null >= value))
    wanted = min(1, 2 * (1 + fewer) / 200)
    assert haar_p_values(R, ("T_8",), draws=199, seed=7)[0, 0] == pytest.approx(wanted)


def rank_five(rng, generator):
    """The rotation fitted to activations that fill 5 of 64 dimensions, in Haar-random bases."""
    shared = rng.standard_normal((50, 5))
    A, B = haar(rng, 64, 2)
    return fit_rotation(shared @ A[:5], shared @ B[:5], generator=generator).R


def test_what_the_data_leave_open_does_not_look_structured_when_it_is_drawn():
    rng = np.random.default_rng(17)
    drawn = np.stack([rank_five(rng, rng) for _ in range(100)])
    assert (np.mean(haar_p_values(drawn) <= 0.05, axis=0) <= 0.13).all()
    # LAPACK's own completion leans on the coordinates
    lapack = np.stack([rank_five(rng, None) for _ in range(20)])
    assert np.mean(haar_p_values(lapack, ("sum_R4",)) <= 0.05) > 0.9


# --- reports over sites


def test_the_one_structured_site_is_found_among_haar_ones():
    rng = np.random.default_rng(8)
    sites = {f"resid_{layer}": haar(rng, 64, 1)[0] for layer in range(4)}
    sites["resid_4"] = pinned(6)(rng, 64)
    report = haar_tests(sites)
    assert report.rejected == ("resid_4",)
    assert report.p.shape == (5, len(CLAIMED)) and (report.adjusted >= report.p).all()
    assert report.values[4, CLAIMED.index("sum_R4")] > 6  # six pinned coordinates give 1 each


def test_a_report_of_haar_sites_rejects_rarely():
    rng = np.random.default_rng(9)
    reports = [haar_tests(dict(zip("abcde", haar(rng, 16, 5), strict=True))) for _ in range(100)]
    assert sum(bool(report.rejected) for report in reports) <= 12  # 5 expected; 12 is 3 σ


def test_too_few_draws_to_reject_anything_are_refused():
    sites = {"a": np.eye(4)}
    with pytest.raises(ValueError, match="give at least 119 draws"):
        haar_tests(sites, draws=118)
    assert haar_tests(sites, draws=119).rejected == ("a",)


def test_bad_requests_are_named(unchecked):
    rng = np.random.default_rng(10)
    with pytest.raises(ValueError, match="one width"):
        haar_tests({"a": np.eye(4), "b": np.eye(5)})
    with pytest.raises(ValueError, match=r"got \('T_9',\)"):
        haar_p_values(haar(rng, 4, 1), ("T_9",))
    with pytest.raises(ValueError, match="not orthogonal"):
        haar_p_values(rng.standard_normal((1, 4, 4)))
    with pytest.raises(ValueError, match=r"One matrix is R\[None\]"):
        haar_statistics(np.eye(4))
    with pytest.raises(ValueError, match="0 comparisons"):
        haar_tests({})


# --- nulls


def test_a_null_is_drawn_once_and_cannot_be_changed():
    table = null_table(5, "SO", 50, 11)
    assert null_table(5, "SO", 50, 11) is table
    assert set(table) == set(STATISTICS)
    assert all(len(values) == 50 and (np.diff(values) >= 0).all() for values in table.values())
    with pytest.raises(ValueError, match="read-only"):
        table["T_8"][0] = 0


def test_a_large_null_is_kept_on_disk():
    d = module.QUICK + 1
    first = null_table(d, "SO", 3, 12)
    assert module._kept.entry(d, "SO", 3, 12).is_dir()
    null_table.cache_clear()
    again = null_table(d, "SO", 3, 12)
    assert again is not first
    np.testing.assert_array_equal(again["sum_R4"], first["sum_R4"])


# --- Holm


def test_holms_adjustment_of_a_worked_example():
    # sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1: 0.02, 0.03, 0.06, and 0.04 raised to 0.06
    np.testing.assert_allclose(holm(np.array([0.01, 0.04, 0.03, 0.005])), [0.03, 0.06, 0.06, 0.02])


@given(p=st.lists(st.floats(0, 1), min_size=1, max_size=12), level=st.floats(0.01, 0.5))
@quick
def test_holm_rejects_what_the_step_down_procedure_rejects(p, level):
    adjusted = holm(np.array(p))
    rejected, m = set(), len(p)
    for step, index in enumerate(np.argsort(p, kind="stable")):
        if p[index] * (m - step) > level:
            break
        rejected.add(int(index))
    assert {int(i) for i in np.flatnonzero(adjusted <= level)} == rejected


def test_holm_keeps_the_shape_and_refuses_what_is_no_p_value():
    assert holm(np.full((2, 3), 0.5)).shape == (2, 3)
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        holm(np.array([0.1, np.nan]))
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        holm(np.array([]))


# --- alternatives


@pytest.mark.parametrize("draw", ALTERNATIVES.values(), ids=ALTERNATIVES)
def test_every_alternative_is_orthogonal(draw):
    R = draw(np.random.default_rng(13), 16)
    np.testing.assert_allclose(R @ R.T, np.eye(16), atol=1e-12)


def test_alternatives_are_what_their_names_say():
    rng = np.random.default_rng(14)
    one = blocks(4)(rng, 8)
    assert np.all((np.abs(one) > 0) == np.kron(np.eye(4), np.ones((2, 2))).astype(bool))
    np.testing.assert_array_equal(pinned(3)(rng, 8)[:3], np.eye(8)[:3])
    for draw in (permutation, signed_permutation, cyclic_shift):
        np.testing.assert_array_equal(np.sort(np.abs(draw(rng, 8)), axis=0)[-1], np.ones(8))
    assert not np.array_equal(permutation(rng, 8), permutation(rng, 8))
    assert np.array_equal(np.linalg.matrix_power(cyclic_shift(rng, 8), 8), np.eye(8))
    assert not np.array_equal(np.linalg.matrix_power(cyclic_shift(rng, 8), 4), np.eye(8))
    angles = eigenangles(near_identity(0.2)(rng, 30))
    assert np.sqrt(np.mean(angles**2)) == pytest.approx(0.2)
    assert np.abs(eigenangles(part_way(0.5)(rng, 30))).max() <= np.pi / 2 + 1e-9
    assert np.sum(heavy_tailed(3.0)(rng, 64) ** 4) > np.sum(haar_draw(rng, 64) ** 4)


def test_a_hidden_alternative_keeps_its_spectrum():
    R = hidden(pinned(3))(np.random.default_rng(15), 9)
    assert np.sum(np.abs(np.linalg.eigvals(R) - 1) < 1e-8) >= 3
    assert np.abs(R).max() < 0.999


def test_impossible_alternatives_and_tables_are_refused(table):
    rng = np.random.default_rng(16)
    with pytest.raises(ValueError, match="do not make 3 equal blocks"):
        blocks(3)(rng, 64)
    with pytest.raises(ValueError, match="d = 0"):
        pinned(8)(rng, 8)
    with pytest.raises(ValueError, match="no entry"):
        table.power("9 blocks")
    with pytest.raises(ValueError, match="no entry"):
        table.interval("Haar", "T_9")
    with pytest.raises(ValueError, match="need an alternative"):
        power_table(8, {}, generator=rng)
