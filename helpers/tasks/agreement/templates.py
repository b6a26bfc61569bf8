"""The eight templates: each writes one sentence up to its verb, from choices that are left open.

A template asks ``pick`` for each choice, so that the same lines draw a sentence at random and
enumerate them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from helpers.tasks.agreement import frames
from helpers.tasks.agreement.lexicon import Noun, nouns, split_index

Pick = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True)
class Item:
    """A sentence up to its verb, with its numbers left open.

    ``pattern`` names the roles of its nouns, as in "The {head} near the {attractor}". The
    attractor is the noun right before the verb, ``other`` one between it and the head, ``fronted``
    one before the head.
    """

    pattern: str
    nouns: tuple[tuple[str, Noun], ...]

    def text(self, **numbers: int) -> str:
        """The words, given the number of each role."""
        return self.pattern.format(**{role: noun.form(numbers[role]) for role, noun in self.nouns})

    def head_span(self, **numbers: int) -> tuple[int, int]:
        """Where the head noun stands in the text: its first character, and the one after it."""
        before = Item(self.pattern[: self.pattern.index("{head}")], self.nouns)
        start = len(before.text(**numbers))
        return start, start + len(dict(self.nouns)["head"].form(numbers["head"]))


class Writer:
    """The choices of one sentence; no noun and no preposition comes twice."""

    def __init__(self, pick: Pick, split: str) -> None:
        self.pick, self.split = pick, split
        self.used: set[str] = set()
        self.roles: list[tuple[str, Noun]] = []

    def noun(self, role: str, options: Sequence[Noun]) -> Noun:
        """One of the nouns that are not there yet."""
        noun = self.pick([noun for noun in options if noun.singular not in self.used])
        self.used.add(noun.singular)
        self.roles.append((role, noun))
        return noun

    def head(self, *tables: str) -> Noun:
        """A noun of which each table says something."""
        return self.noun("head", _heads(self.split, tables))

    def phrase(self, role: str, noun: Noun, table: str) -> tuple[str, Noun]:
        """(preposition or verb, noun) said of a noun; its kind comes first, so none is rare."""
        free = [pair for pair in frames.said_of(noun, table) if pair[0].lower() not in self.used]
        chosen = self.pick(list(dict.fromkeys(kind for _, kind in free)))
        link = self.pick([link for link, kind in free if kind == chosen])
        self.used.add(link.lower())
        return link, self.noun(role, nouns(self.split, chosen))


@cache
def _heads(split: str, tables: tuple[str, ...]) -> list[Noun]:
    return [n for n in nouns(split) if all(frames.said_of(n, table) for table in tables)]


def plain(write: Writer) -> str:
    """The key. The old key."""
    head = write.head()
    adjective = write.pick(("", *frames.ADJECTIVES[head.kind]))
    return f"The {adjective} {{head}}" if adjective else "The {head}"


def preposition(write: Writer) -> str:
    """The key to the cabinets."""
    link, _ = write.phrase("attractor", write.head("preposition"), "preposition")
    return f"The {{head}} {link} the {{attractor}}"


def two_prepositions(write: Writer) -> str:
    """The key to the cabinets belonging to the guard."""
    first, other = write.phrase("other", write.head("first of two"), "first of two")
    second, _ = write.phrase("attractor", other, "second of two")
    return f"The {{head}} {first} the {{other}} {second} the {{attractor}}"


def subject_relative(write: Writer) -> str:
    """The author who admired the critics."""
    head = write.head("subject relative")
    verb, _ = write.phrase("attractor", head, "subject relative")
    pronoun = "who" if head.kind == "person" else "that"
    return f"The {{head}} {pronoun} {verb} the {{attractor}}"


def object_relative(write: Writer) -> str:
    """The key that the guests found."""
    head = write.head("object relative")
    verb, _ = write.phrase("attractor", head, "object relative")
    return f"The {{head}} that the {{attractor}} {verb}"


def coordinated(write: Writer) -> str:
    """The key to both the cabinets and the locker.

    Without "both", "the key to the cabinet and the locker" may be one thing or two, and its verb
    singular or plural.
    """
    link, other = write.phrase("other", write.head("preposition"), "preposition")
    write.noun("attractor", nouns(write.split, other.kind))
    return f"The {{head}} {link} both the {{other}} and the {{attractor}}"


def fronted(write: Writer) -> str:
    """Near the gardens, the key to the cabinet."""
    head = write.head("fronted", "preposition")
    front, _ = write.phrase("fronted", head, "fronted")
    link, _ = write.phrase("attractor", head, "preposition")
    return f"{front} the {{fronted}}, the {{head}} {link} the {{attractor}}"


def trailing(write: Writer) -> str:
    """The key to the cabinets near the garden."""
    link, other = write.phrase("other", write.head("before a place"), "before a place")
    free = ("near", "behind", "opposite" if other.kind == "place" else "outside")
    place = write.pick([where for where in free if where != link])
    write.noun("attractor", nouns(write.split, "place"))
    return f"The {{head}} {link} the {{other}} {place} the {{attractor}}"


# name: (writer, the roles beside the head whose numbers vary)
TEMPLATES: dict[str, tuple[Callable[[Writer], str], tuple[str, ...]]] = {
    "plain": (plain, ()),
    "preposition": (preposition, ("attractor",)),
    "two_prepositions": (two_prepositions, ("attractor", "other")),
    "subject_relative": (subject_relative, ("attractor",)),
    "object_relative": (object_relative, ("attractor",)),
    "coordinated": (coordinated, ("attractor", "other")),
    "fronted": (fronted, ("attractor", "fronted")),
    "trailing": (trailing, ("attractor", "other")),
}


def write_item(template: str, split: str, pick: Pick) -> Item:
    """One sentence of a template, with the choices that ``pick`` makes from each list of options.

    Raises ValueError for an unknown split or template.
    """
    split_index(split)
    if template not in TEMPLATES:
        raise ValueError(f"the templates are {', '.join(TEMPLATES)}; got {template!r}.")
    write = Writer(pick, split)
    pattern = TEMPLATES[template][0](write)
    return Item(pattern, tuple(write.roles))


def every_item(template: str, split: str) -> Iterator[Item]:
    """All sentences of a template, each once: an odometer over the choices."""
    path: list[int] = []  # which option each choice takes
    sizes: list[int] = []  # how many options it had

    def pick(options: Sequence[Any]) -> Any:
        if len(sizes) == len(path):
            path.append(0)
        sizes.append(len(options))
        return options[path[len(sizes) - 1]]

    while True:
        sizes.clear()
        yield write_item(template, split, pick)
        while path and path[-1] + 1 == sizes[len(path) - 1]:
            path.pop()
        if not path:
            return
        path[-1] += 1
