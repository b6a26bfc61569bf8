"""Prose paragraphs out of source text.  The text is parsed and never executed."""

from __future__ import annotations

import ast
import itertools
import re
import warnings
from collections.abc import Iterator

MIN_WORDS = 8
"""Shorter pieces are headings, signatures and lists of names."""
PLAIN_SHARE = 0.75
"""Of the words in a paragraph, at least this share are letters alone, with a sign at the end."""

_PLAIN = re.compile(r"[A-Za-z]+(?:['’-][A-Za-z]+)*[,.;:?!]?")
_BAR = re.compile(r"[-=~^*+#]{3,}")
_DEFINES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstring_prose(source: str) -> list[str]:
    """The prose paragraphs of a file's docstrings, in the order in which they stand.

    Raises:
        SyntaxError: the text is no Python that this interpreter reads.
    """
    found = []
    for node in ast.walk(_parse(source)):
        if isinstance(node, _DEFINES):
            text = ast.get_docstring(node, clean=False)
            if text:
                found.append((getattr(node, "lineno", 0), getattr(node, "col_offset", 0), text))
    return [paragraph for *_, text in sorted(found) for paragraph in paragraphs(text)]


def topic_prose(source: str) -> list[tuple[str, list[str]]]:
    """The topics of ``pydoc_data/topics.py`` by name, each with its prose paragraphs.

    Raises:
        ValueError: the file assigns no dict of texts to ``topics``.
    """
    for node in _parse(source).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if [getattr(target, "id", None) for target in targets] == ["topics"]:
            topics = ast.literal_eval(node.value)
            return [(name, list(paragraphs(topics[name]))) for name in sorted(topics)]
    raise ValueError("pydoc_data/topics.py assigns no dict to `topics`: another Python?")


def paragraphs(text: str) -> Iterator[str]:
    """Runs of lines with one indentation, white space made single, if they are prose.

    A docstring's first line has lost its indentation; it goes with the lines after it.
    Indentation separates a parameter's name from what is said of it.
    """
    lines = text.expandtabs().splitlines()
    if len(lines) > 1 and lines[1].strip():
        lines[0] = " " * _indent(lines[1]) + lines[0].strip()

    def kind(line: str) -> int:
        return -1 if not line.strip() or _BAR.fullmatch(line.strip()) else _indent(line)

    for indent, run in itertools.groupby(lines, kind):
        joined = " ".join(" ".join(run).split())
        if indent >= 0 and is_prose(joined):
            yield joined


def is_prose(paragraph: str) -> bool:
    """Whether most of it are plain words, and none of it is a console's prompt or a comment."""
    words = paragraph.split()
    if len(words) < MIN_WORDS or paragraph.startswith(("#", "...", ">>>")) or ">>>" in words:
        return False
    plain = sum(_PLAIN.fullmatch(word) is not None for word in words)
    return plain >= PLAIN_SHARE * len(words)


def _parse(source: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of escapes in others' docstrings
        return ast.parse(source)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
