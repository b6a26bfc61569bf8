"""What cells say: prose with the run's numbers, values for the book, and checked exercises."""

import sys

import numpy as np
import pytest

from helpers import notebook
from helpers.notebook import check, glue, say


@pytest.fixture(autouse=True)
def no_tries():
    notebook._tries.clear()


@pytest.fixture
def shell(monkeypatch):
    """A notebook-like shell, and what it was asked to display."""
    shown = []
    monkeypatch.setattr("IPython.get_ipython", lambda: object())
    monkeypatch.setattr("IPython.display.display", lambda *objects, **_: shown.extend(objects))
    return shown


def test_say_displays_markdown_in_a_notebook(shell):
    say("The rank is **3**.")
    assert [item.data for item in shell] == ["The rank is **3**."]


def test_say_prints_outside_a_notebook(capsys):
    say("The rank is **3**.")
    assert capsys.readouterr().out == "The rank is **3**.\n"


@pytest.mark.parametrize("text", ["", "  \n", f"The rank is **{float('nan')}**."])
def test_say_refuses_to_say_nothing_or_nan(text):
    with pytest.raises(ValueError, match="say"):
        say(text)


def test_say_keeps_words_that_only_contain_nan(capsys):
    say("A finance dance.")
    assert "finance" in capsys.readouterr().out


def test_glue_turns_numpy_numbers_into_plain_ones(shell, monkeypatch):
    kept = {}
    monkeypatch.setattr("myst_nb.glue", lambda key, value, display: kept.update({key: value}))
    glue("keep", np.float64(0.75))
    glue("rank", np.int64(3))
    glue("base", np.array(0.5))
    assert kept == {"keep": 0.75, "rank": 3, "base": 0.5}
    assert {type(value) for value in kept.values()} == {float, int}


def test_glue_is_silent_without_the_book_builder(shell, monkeypatch):
    monkeypatch.setattr(notebook, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "myst_nb", None)  # importing it would now fail
    glue("keep", 0.75)
    assert shell == []


@pytest.mark.parametrize(("key", "value"), [("two words", 1), ("", 1), ("keep", float("nan"))])
def test_glue_refuses_bad_keys_and_values(key, value):
    with pytest.raises(ValueError, match="glue"):
        glue(key, value)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (3, 3),
        (0.5001, 0.5),
        (0.75 - 0.25j, 0.75 - 0.25j),
        ([1, 2], np.array([1.0, 2.0])),
        (" Rank ", "rank"),
        (True, np.bool_(True)),
        ([2, 1, 1], {1, 2}),
        (7, lambda x: x % 2 == 1),
    ],
)
def test_right_answers_are_accepted(answer, expected):
    assert check("ex", answer, expected).right is True


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (4, 3),
        (0.502, 0.5),
        (0.75 + 0.25j, 0.75 - 0.25j),
        ([1, 2, 3], np.array([1.0, 2.0])),
        ([1.0, np.nan], np.array([1.0, 2.0])),
        ("three", 3),
        ([[1], [2, 3]], np.array([1.0, 2.0])),
        (3, "three"),
        (1, True),
        ({1}, {1, 2}),
        (3, {3}),
        (8, lambda x: x % 2 == 1),
    ],
)
def test_wrong_answers_are_not(answer, expected):
    assert check("ex", answer, expected).right is False


def test_hints_come_one_by_one_and_the_last_is_repeated():
    hints = ["look at the rows", "each row sums to 1"]
    texts = [repr(check("ex", n, 99, hints=hints)) for n in (1, 2, 3)]
    assert ["Hint 1 of 2: look at the rows" in texts[0], "Hint 2 of 2" in texts[1]] == [True, True]
    assert "Hint 2 of 2: each row sums to 1" in texts[2]


def test_each_exercise_counts_its_own_tries():
    check("a", 1, 2, hints=["first", "second"])
    assert "first" in repr(check("b", 1, 2, hints=["first", "second"]))


def test_no_answer_costs_no_try():
    message = check("ex", None, 2, hints=["first", "second"])
    assert message.right is None and "Not answered yet" in repr(message)
    assert "first" in repr(check("ex", 1, 2, hints=["first", "second"]))


def test_the_answer_is_never_shown():
    for answer in (1, "x", [1, 2], None, float("nan")):
        message = check("ex", answer, 31337, hints=["think"])
        assert "31337" not in repr(message) + message._repr_markdown_()


def test_the_wrong_form_of_an_answer_is_said():
    assert "(2,)" in repr(check("ex", [1, 2], [1.0, 2.0, 3.0]))
    assert "True or False" in repr(check("ex", 1, True))


def test_the_right_answer_says_how_many_tries_it_took():
    check("ex", 1, 2)
    assert "try 2" in repr(check("ex", 2, 2))


def test_negative_tolerance_is_an_error():
    with pytest.raises(ValueError, match="rtol=-1"):
        check("ex", 1, 1, rtol=-1)
