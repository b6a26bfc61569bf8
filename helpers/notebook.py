"""What a chapter's cells use to speak: prose with numbers of the run, and checked exercises."""

import re
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

_tries: dict[str, int] = {}


def say(text: str) -> None:
    """Display Markdown whose numbers come from the run: `say(f"The rank is **{rank}**.")`.

    Outside a notebook the text is printed as it is.

    Raises:
        ValueError: the text is empty, or a number in it came out as `nan`.
    """
    if not text.strip():
        raise ValueError("say() got no text. Pass the Markdown that the page should show.")
    if re.search(r"\bnan\b", text):
        raise ValueError(f"say() got a number that is nan: {text.strip()!r}. Find out why first.")
    if _in_notebook():
        from IPython.display import Markdown, display

        display(Markdown(text))
    else:
        print(text)


def glue(key: str, value: object, display: bool = False) -> None:
    """Keep a value for prose elsewhere in the book: `` {glue:text}`key:.3f` `` shows it.

    Does nothing where the book builder is not installed (Colab), since only the site needs it.

    Raises:
        ValueError: the key is not a Python name, or the value is not finite.
    """
    if not key.isidentifier():
        raise ValueError(f"glue: the key {key!r} must be a plain name such as 'markov_keep'.")
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()  # numpy 2 writes `np.float64(0.75)`, which no page can format
    if isinstance(value, float | complex) and not np.isfinite(value):
        raise ValueError(f"glue: {key!r} is {value}. Find out why before the book prints it.")
    if find_spec("myst_nb") is None or not _in_notebook():
        return
    from myst_nb import glue as keep

    keep(key, value, display=display)


class Message:
    """What `check` found. Displays in a notebook; `right` is True, False, or None (no answer)."""

    def __init__(self, exercise_id: str, right: bool | None, text: str):
        self.exercise_id, self.right, self.text = exercise_id, right, text

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        mark = {True: "✓", False: "✗", None: "…"}[self.right]
        return f"**{mark} {self.exercise_id}.** {self.text}"


def check(
    exercise_id: str,
    answer: Any,
    expected: Any,
    *,
    rtol: float | int = 1e-3,
    atol: float | int = 0.0,
    hints: Sequence[str] = (),
) -> Message:
    """Say whether an answer is right; after each wrong try give the next hint, never the answer.

    Args:
        exercise_id: name of the exercise; wrong tries are counted for each name.
        answer: the reader's answer; None means not answered yet, and counts as no try.
        expected: the right number, array, string, set or truth value; or a function that takes
            the answer and returns whether it is right, for questions with many right answers.
        rtol: relative tolerance of numbers: |answer − expected| ≤ atol + rtol · |expected|.
        atol: absolute tolerance; needed where the right number may be zero.
        hints: from a nudge to nearly the solution; the last one is repeated.

    Raises:
        ValueError: a tolerance is negative.
    """
    if rtol < 0 or atol < 0:
        raise ValueError(f"check: tolerances must not be negative (rtol={rtol}, atol={atol}).")
    if answer is None:
        return Message(exercise_id, None, "Not answered yet. Put your answer in and run the cell.")
    right, why = _compare(answer, expected, rtol, atol)
    if right:
        tries = _tries.pop(exercise_id, 0)
        return Message(exercise_id, True, "Right." if not tries else f"Right, at try {tries + 1}.")
    _tries[exercise_id] = _tries.get(exercise_id, 0) + 1
    parts = ["Not yet.", why]
    if hints:
        number = min(_tries[exercise_id], len(hints))
        parts.append(f"Hint {number} of {len(hints)}: {hints[number - 1]}")
    return Message(exercise_id, False, " ".join(part for part in parts if part))


def _compare(answer: Any, expected: Any, rtol: float, atol: float) -> tuple[bool, str]:
    """Whether they agree, and what is wrong with the form of the answer, if it is the form."""
    if isinstance(expected, Callable):  # type: ignore[arg-type]
        return bool(expected(answer)), ""
    if isinstance(expected, str):
        if not isinstance(answer, str):
            return False, "The answer should be a text."
        return answer.strip().casefold() == expected.strip().casefold(), ""
    if isinstance(expected, bool | np.bool_):
        if not isinstance(answer, bool | np.bool_):
            return False, "The answer should be True or False."
        return bool(answer) == bool(expected), ""
    if isinstance(expected, set | frozenset):
        if not isinstance(answer, set | frozenset | list | tuple):
            return False, "The answer should be a set."
        return set(answer) == set(expected), ""
    try:
        mine, theirs = np.asarray(answer), np.asarray(expected)
    except ValueError:  # rows of different lengths
        return False, "The answer should be a number or an array of numbers."
    if mine.dtype.kind not in "biufc":
        return False, "The answer should be a number or an array of numbers."
    if mine.shape != theirs.shape:
        return (
            False,
            f"The answer has the shape {mine.shape}; the question asks for {theirs.shape}.",
        )
    if not np.isfinite(mine).all():
        return False, "The answer holds a value that is not finite."
    return bool(np.all(np.abs(mine - 1.0 * theirs) <= atol + rtol * np.abs(theirs))), ""


def _in_notebook() -> bool:
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    shell = get_ipython()
    return shell is not None and shell.__class__.__name__ != "TerminalInteractiveShell"
