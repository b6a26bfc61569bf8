"""Brackets: labels are a plain stack's, distributions are what they are said to be."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.tasks import dyck
from helpers.tasks.dyck import BOS, EOS, MAX_DEPTH, PAD, label, nested, text

PARTNER = dict(zip(")]}", "([{", strict=True))
DRAWS = (dyck.train_rows, dyck.long_rows, dyck.compositional_rows)


def rng(seed=100):
    return np.random.default_rng(seed)


def row(brackets: str) -> np.ndarray:
    body = [dyck.SYMBOLS.index(b) for b in brackets]
    return np.array([[BOS, *body, EOS, *[PAD] * (62 - len(body))]])


def stack_answers(tokens) -> tuple[list[int], list[int]]:
    """Depth and sticky flag, by a stack and its rules, one token after another."""
    stack, invalid, depths, flags = [], 0, [], []
    for symbol in (dyck.SYMBOLS[token] for token in tokens):
        if symbol and symbol in "([{" and not invalid:
            if len(stack) == 8:
                invalid = 1
            else:
                stack.append(symbol)
        elif symbol in PARTNER and not invalid:
            if stack and stack[-1] == PARTNER[symbol]:
                stack.pop()
            else:
                invalid = 1
        depths.append(len(stack))
        flags.append(invalid)
    return depths, flags


@settings(max_examples=200, deadline=None)
@example([[3] * 9 + [4] * 10])  # one opener too many
@example([[3, 6, 4], [4, 3, 4]])  # a wrong family; a closer at depth 0
@example([[1, 3, 2, 4], [0, 0, 0, 0]])
@given(
    st.integers(1, 40).flatmap(
        lambda n: st.lists(
            st.lists(st.sampled_from([3, 3, 5, 7, 3, 4, 6, 8, 0, 1, 2]), min_size=n, max_size=n),
            min_size=1,
            max_size=4,
        )
    )
)
def test_labels_are_a_plain_stack_s(tokens):
    tokens = np.array(tokens)
    found = label(tokens)
    for i, line in enumerate(tokens):
        depths, flags = stack_answers(line)
        assert found.depth[i].tolist() == depths
        assert found.sticky[i].tolist() == flags
    assert np.array_equal(found.copy, tokens)
    assert np.array_equal(found.mask, tokens != 0)


@pytest.mark.parametrize("draw", DRAWS)
def test_labels_of_every_distribution_are_a_plain_stack_s(draw):
    rows = draw(rng(), 300)
    found = label(rows)
    for i, line in enumerate(rows):
        depths, flags = stack_answers(line)
        assert found.depth[i].tolist() == depths
        assert found.sticky[i].tolist() == flags


def test_depth_freezes_at_the_first_error_and_the_flag_stays():
    found = label(row("([)]()"))
    assert found.depth[0, :8].tolist() == [0, 1, 2, 2, 2, 2, 2, 2]
    assert found.sticky[0, :8].tolist() == [0, 0, 0, 1, 1, 1, 1, 1]


def test_the_end_is_no_error_where_brackets_are_open():
    found = label(row("((["))
    assert not found.sticky.any()
    assert found.depth[0, 4] == 3  # at EOS


def test_a_token_that_is_never_used_is_refused():
    with pytest.raises(ValueError, match=r"tokens lie in 0…8; got 1…9"):
        label(np.array([[1, 9]]))


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("n", [0, 1, 2, 33])
def test_rows_are_framed(draw, n):
    rows = draw(rng(), n)
    assert rows.shape == (n, 64)
    for line in rows:
        end = int(np.flatnonzero(line == EOS)[0])
        assert line[0] == BOS
        assert np.all((line[1:end] >= 3) & (line[1:end] <= 8))
        assert not line[end + 1 :].any()


def test_half_of_the_training_rows_are_words_of_every_even_length():
    rows = dyck.train_rows(rng(), 6000)
    found = label(rows)
    lengths = found.mask.sum(axis=1) - 2
    words = (found.sticky[:, -1] == 0) & (found.depth[:, -1] == 0)
    # a random row is a word with probability 1/12 at length 2, and hardly ever beyond
    assert 3000 <= words.sum() <= 3060
    assert set(lengths[words]) == set(range(2, 63, 2))
    assert set(lengths[~words]) == set(range(2, 63))
    assert lengths.mean() == pytest.approx(32, abs=1)  # ± 3 standard errors


def test_a_word_opens_with_probability_0_55_where_it_is_free():
    found = label(dyck._valid(rng(), 4000, 62, 62))
    depth = found.depth[:, 1:31]  # far from the end nothing is forced but at depths 0 and 8
    before, up = depth[:, :-1], np.diff(depth) == 1
    free = (before > 0) & (before < MAX_DEPTH)
    assert up[before == 0].all()
    assert not up[before == MAX_DEPTH].any()
    assert up[free].mean() == pytest.approx(0.55, abs=4 * 0.5 / np.sqrt(free.sum()))


def test_random_rows_use_all_six_brackets_alike():
    rows = dyck._random(rng(), 2000, 2, 62)
    counts = np.bincount(rows.ravel(), minlength=9)[3:9]
    assert counts / counts.sum() == pytest.approx([1 / 6] * 6, abs=0.006)


def test_thinned_rows_are_words_and_random_rows_most_of_which_end_behind_their_error():
    rows = dyck.thinned_rows(rng(), 9000)
    found = label(rows)
    lengths, whole = found.mask.sum(axis=1), (rows == EOS).any(axis=1)
    wrong = found.sticky.any(axis=1)
    assert np.all(whole | wrong)
    assert 1500 <= (~wrong).sum() <= 2000  # a sixth are words, and some random rows have no error
    behind = (lengths - 1 - found.sticky.argmax(axis=1))[wrong]
    for low, high in ((1, 1), (2, 3), (4, 7), (8, 15)):  # log-uniform: a sixth in every octave
        share = ((behind >= low) & (behind <= high)).mean()
        assert share == pytest.approx(1 / 6, abs=0.04)  # some rows end before
    for line, length in zip(rows[~whole], lengths[~whole], strict=True):
        assert line[0] == BOS
        assert np.all((line[1:length] >= 3) & (line[1:length] <= 8))
        assert not line[length:].any()
    # a random row fails at its first bracket with probability 1/2, both of two with 1/4
    at_once = found.sticky[:, 1].sum() / 7500
    assert at_once == pytest.approx(0.25, abs=0.02)
    assert not nested(rows).any()


def test_thinned_rows_hold_three_times_as_many_errors_a_place():
    thin, full = dyck.thinned_rows(rng(), 8000), dyck.train_rows(rng(), 8000)
    errors = [label(rows).sticky.any(axis=1).sum() / (rows != PAD).sum() for rows in (thin, full)]
    assert errors[0] / errors[1] == pytest.approx(3.1, abs=0.2)


def test_long_rows_are_long_and_half_are_words():
    found = label(dyck.long_rows(rng(), 400))
    lengths = found.mask.sum(axis=1) - 2
    assert (lengths.min(), lengths.max()) == (50, 60)
    assert (found.sticky[:, -1] == 0).sum() == 200


def items(brackets: str) -> list[str]:
    """The pieces of a row that return to depth 0, families aside."""
    pieces, start, depth = [], 0, 0
    for i, b in enumerate(brackets):
        depth += 1 if b in "([{" else -1
        if depth == 0:
            pieces.append(brackets[start : i + 1])
            start = i + 1
    assert start == len(brackets)
    return pieces


def test_compositional_rows_are_deep_nests_of_one_family_in_shallow_pairs():
    rows = dyck.compositional_rows(rng(), 600)
    whole = label(rows).sticky[:, -1] == 0
    seen = set()
    for line in rows[whole]:
        pieces = items(text(line)[1:-1])
        assert 1 <= len(pieces) <= 3
        for piece in pieces:
            opened = piece[: len(piece) // 2]
            core = opened.lstrip(opened[0]) if opened[0] == opened[1] else opened[1:]
            assert opened[0] != opened[1]  # an outer pair of another family
            if core[0] != core[1]:
                core = core[1:]
            assert len(set(core)) == 1 and len(core) >= 4
            assert len(opened) <= MAX_DEPTH
            seen.add((len(opened) - len(core), len(core)))
    assert seen == {(1, 4), (1, 5), (1, 6), (1, 7), (2, 4), (2, 5), (2, 6)}


def test_half_of_the_compositional_rows_have_one_wrong_closer():
    rows = dyck.compositional_rows(rng(), 2000)
    wrong = label(rows).sticky[:, -1] == 1
    assert wrong.mean() == pytest.approx(0.5, abs=0.05)
    for line in rows[wrong][:100]:
        stack, errors = [], 0
        for b in text(line)[1:-1]:
            if b in "([{":
                stack.append(b)
            else:
                errors += stack.pop() != PARTNER[b]
        assert errors == 1
        assert not stack


def test_no_training_row_has_a_held_out_shape():
    assert not nested(dyck.train_rows(rng(), 20_000)).any()
    assert nested(dyck.compositional_rows(rng(), 2000)).all()


def test_without_the_rejection_some_training_rows_would_have_it():
    share = nested(dyck._valid(rng(), 20_000, 2, 62)).mean()
    # straight nests of 5, 6, 7 and 8 levels alone: 0.55⁴ and so on, at one length of 31 each
    assert share == pytest.approx(sum(0.55**k for k in (4, 5, 6, 7)) / 31, rel=0.3)


@pytest.mark.parametrize(
    ("brackets", "is_nested"),
    [
        ("((((()))))", True),
        ("(((())))", False),  # four levels
        ("((((())))){[[[[]]]]}", True),
        ("((((()))))()", False),
        ("((((()()))))", False),
        ("((((())))){", False),
        ("){((((()))))", False),
        ("(((((}))))", True),  # families aside
    ],
)
def test_the_shape_of_held_out_rows(brackets, is_nested):
    assert bool(nested(row(brackets))[0]) is is_nested


@pytest.mark.parametrize("draw", DRAWS)
def test_a_generator_decides_the_rows(draw):
    assert np.array_equal(draw(rng(1), 50), draw(rng(1), 50))
    assert not np.array_equal(draw(rng(1), 50), draw(rng(2), 50))
