"""DAS and the check for illusions on planted layers whose true direction is known."""

import numpy as np
import pytest
import torch

from helpers.axes import mean_difference, unit
from helpers.das import Layer, interchange, interchange_effect, swap_pairs, train_das
from helpers.illusion import active_span, check_illusion, seen_span, split

D = 12
FRAME = np.linalg.qr(np.random.default_rng(99).standard_normal((D, D)))[0]
TRUE, DISCONNECTED, DORMANT = FRAME[:, 0], FRAME[:, 1], FRAME[:, 2]


def upper_layers(*, obeys_dormant: bool):
    """A two-layer network on top: margin = tanh of the true coordinate, plus what is dormant."""

    def forward(H, rows):
        true, dormant = (torch.as_tensor(v).to(H) for v in (TRUE, DORMANT))
        hidden = torch.stack([H @ true, H @ dormant], dim=1)
        margin = 3 * torch.tanh(hidden[:, 0] / 2)
        if obeys_dormant:
            margin = 3 * torch.tanh((hidden[:, 0] + 2 * hidden[:, 1]) / 2)
        return torch.stack([margin, 2 * margin], dim=1)

    return forward


def planted(seed, n=120, *, obeys_dormant=False, bits=torch.float64):
    """Number is in TRUE and as much in DISCONNECTED; DORMANT never moves; the rest is noise."""
    rng = np.random.default_rng(seed)
    number = np.tile([0, 1], n // 2)
    side = 2.0 * number - 1
    z = rng.standard_normal((n, D))
    z[:, 0] = 1.3 * side + 0.7 * z[:, 0]
    z[:, 1] = 1.3 * side + 0.7 * z[:, 1]
    z[:, 2] = 0
    return Layer(z @ FRAME.T, number, upper_layers(obeys_dormant=obeys_dormant), dtype=bits)


def effect_of(layer, seed=0):
    pairs = swap_pairs(layer.number, np.random.default_rng(seed))
    return lambda read, write: interchange_effect(layer, read, pairs, write)


def test_every_row_is_a_base_and_its_source_has_the_other_number():
    number = np.array([0, 1, 1, 0, 1])
    pairs = swap_pairs(number, np.random.default_rng(0))
    np.testing.assert_array_equal(pairs[:, 0], np.arange(5))
    assert (number[pairs[:, 0]] != number[pairs[:, 1]]).all()


def test_an_interchange_swaps_one_coordinate_and_no_other():
    rng = np.random.default_rng(0)
    base, source = (torch.as_tensor(rng.standard_normal((4, D))) for _ in range(2))
    v = torch.as_tensor(TRUE)
    edited = interchange(base, source, v, v)
    torch.testing.assert_close(edited @ v, source @ v)
    others = torch.as_tensor(FRAME[:, 1:])
    torch.testing.assert_close(edited @ others, base @ others)


def test_the_effect_is_one_for_the_true_direction_and_none_for_what_nothing_reads():
    effect = effect_of(planted(0))
    assert effect(TRUE, TRUE) == pytest.approx(1, abs=1e-9)
    assert effect(DISCONNECTED, DISCONNECTED) == pytest.approx(0, abs=1e-9)


def test_das_finds_the_true_direction_where_the_mean_difference_does_not():
    train, validation, test = planted(0), planted(1), planted(2)
    found = train_das(train, validation, seed=0, restarts=2)
    assert found.direction @ TRUE > 0.98
    assert mean_difference(train.H, train.number) @ TRUE < 0.8
    effect = effect_of(test)
    assert effect(found.direction, found.direction) > 0.95


def test_das_works_in_float32_and_with_weights():
    layer = Layer(planted(0).H, planted(0).number, upper_layers(obeys_dormant=False),
                  weights=np.array([1.0, 0.0]))  # fmt: skip
    assert layer.margin(layer.activations, np.arange(120)).abs().max() <= 3
    assert train_das(layer, layer, seed=1, restarts=1).direction @ TRUE > 0.95


def test_das_is_the_same_for_one_seed_and_keeps_the_best_of_its_starts():
    layer, held_out = planted(0), planted(1)
    one, two = (train_das(layer, held_out, seed=3, restarts=3, steps=60) for _ in range(2))
    np.testing.assert_array_equal(one.direction, two.direction)
    assert len(one.losses) == len(one.steps) == 3
    assert one.loss == min(one.losses)
    other = train_das(layer, held_out, seed=4, restarts=3, steps=60)
    assert np.abs(one.direction - other.direction).max() > 0


def test_a_start_at_the_answer_ends_early():
    found = train_das(planted(0), planted(1), seed=0, restarts=0, starts=TRUE[None], patience=2)
    assert found.steps[0] < 300
    assert found.direction @ TRUE > 0.98


def test_das_without_a_start_is_refused():
    with pytest.raises(ValueError, match="no start"):
        train_das(planted(0), planted(1), seed=0, restarts=0)


def test_a_model_that_does_not_tell_number_is_refused():
    layer = planted(0)
    with pytest.raises(ValueError, match="nothing to swap"):
        train_das(Layer(layer.H, 1 - layer.number, layer.forward), layer, seed=0)


def test_the_gradient_reaches_the_direction_through_the_upper_layers():
    layer = planted(0)
    mute = Layer(layer.H, layer.number, lambda H, rows: layer.forward(H, rows).detach())
    with pytest.raises(RuntimeError, match="does not require grad"):
        train_das(mute, layer, seed=0, restarts=1)


def test_forward_is_told_whose_prompt_each_row_continues():
    layer, seen = planted(0), []

    def forward(H, rows):
        seen.append(np.asarray(rows))
        return layer.forward(H, rows)

    pairs = swap_pairs(layer.number, np.random.default_rng(0))[::7]
    interchange_effect(Layer(layer.H, layer.number, forward), TRUE, pairs)
    np.testing.assert_array_equal(seen[-1], pairs[:, 0])


ILLUSION = unit(DISCONNECTED + DORMANT)


def test_the_planted_illusion_swaps_number_as_well_as_the_true_direction():
    effect = effect_of(planted(0, obeys_dormant=True))
    assert effect(ILLUSION, ILLUSION) > 0.9
    assert effect(TRUE, TRUE) == pytest.approx(1, abs=1e-9)


def test_the_illusion_is_caught_and_its_dormant_part_does_the_writing():
    layer = planted(0, obeys_dormant=True)
    found = check_illusion(ILLUSION, active_span(layer.H, 1.0), effect_of(layer))
    assert found.illusory
    assert found.share_inside == pytest.approx(0.5)
    assert abs(found.inside) < 1e-6 and abs(found.rest) < 1e-6
    assert found.written_rest == pytest.approx(found.whole)
    assert abs(found.written_inside) < 1e-6


def test_the_illusion_is_caught_by_what_the_outputs_see():
    layer = planted(0, obeys_dormant=True)
    seen = FRAME[:, [0, 2]]
    found = check_illusion(ILLUSION, seen, effect_of(layer))
    assert found.illusory
    assert found.written_inside == pytest.approx(found.whole)  # now the dormant part is inside


@pytest.mark.parametrize("obeys_dormant", [False, True])
def test_a_true_direction_is_not_called_illusory(obeys_dormant):
    layer = planted(0, obeys_dormant=obeys_dormant)
    for span in (active_span(layer.H, 1.0), FRAME[:, [0, 2]]):
        found = check_illusion(TRUE, span, effect_of(layer))
        assert not found.illusory
        assert found.inside == pytest.approx(1, abs=1e-6) and found.rest == 0
        assert found.written_inside == pytest.approx(1, abs=1e-6)


def test_what_does_not_work_is_not_called_illusory():
    layer = planted(0)
    found = check_illusion(FRAME[:, 5], active_span(layer.H, 1.0), effect_of(layer))
    assert found.whole == pytest.approx(0, abs=1e-6) and not found.illusory


def test_das_from_an_illusion_can_stay_one_and_the_check_says_so():
    layer, held_out = planted(0, obeys_dormant=True), planted(1, obeys_dormant=True)
    found = train_das(layer, held_out, seed=0, restarts=0, starts=ILLUSION[None], steps=20)
    checked = check_illusion(found.direction, active_span(layer.H, 1.0), effect_of(held_out))
    assert checked.whole > 0.9
    assert checked.written_rest > 0.3 * checked.whole


def test_the_active_span_leaves_out_what_never_moves():
    span = active_span(planted(0).H, 1.0)
    assert span.shape == (D, D - 1)
    np.testing.assert_allclose(DORMANT @ span, 0, atol=1e-8)


def test_the_seen_span_holds_what_the_outputs_read():
    rng = np.random.default_rng(0)
    J = rng.standard_normal((50, 2, 2)) @ FRAME[:, [0, 2]].T
    span = seen_span(J)
    assert span.shape == (D, 2)
    np.testing.assert_allclose(span @ span.T @ TRUE, TRUE, atol=1e-9)
    with pytest.raises(ValueError, match="see nothing"):
        seen_span(np.zeros((3, 1, D)))


def test_the_two_parts_add_up_at_right_angles():
    v = unit(np.random.default_rng(0).standard_normal(D))
    inside, rest = split(v, FRAME[:, :4])
    np.testing.assert_allclose(inside + rest, v, atol=1e-12)
    assert abs(inside @ rest) < 1e-12


@pytest.mark.parametrize("columns", [1, D])
def test_a_span_that_says_nothing_is_refused(columns):
    with pytest.raises(ValueError, match="Choose a rank in between"):
        split(TRUE, FRAME[:, :columns])


def test_a_span_that_is_not_orthonormal_is_refused():
    with pytest.raises(ValueError, match="orthonormal"):
        split(TRUE, 2 * FRAME[:, :3])
