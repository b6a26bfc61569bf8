"""Countable nouns with both numbers, by meaning, and the split in which no noun is shared.

A noun's split is its place in the list of its kind, modulo 3, and no seed changes it: noun 0 is for
training, noun 1 for validation, noun 2 for testing, noun 3 for training again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

SPLITS = ("train", "validation", "test")
SINGULAR, PLURAL = 0, 1

# Kinds are as fine as the prepositions and verbs of `templates` need them to be. New nouns go to
# the end of their list, so that those before keep their split.
WORDS = {
    "person": (
        "teacher doctor lawyer nurse farmer engineer author critic painter singer dancer pilot "
        "sailor soldier guard clerk judge mayor king queen prince guest visitor tourist "
        "student professor scientist journalist editor poet musician chef waiter baker butcher "
        "tailor child woman man carpenter plumber mechanic driver hunter gardener librarian "
        "secretary lady spy boy girl witness fisherman thief policeman banker dentist "
        "architect actor athlete"
    ),
    "animal": (
        "dog mouse goose cat horse fox rabbit cow goat calf donkey monkey puppy kitten pony duck "
        "parrot squirrel"
    ),
    "thing": (
        "umbrella camera lantern knife hammer basket bottle vase guitar violin flute blanket "
        "candle backpack coat scarf hat jacket rope map flag brush shovel cup plate bowl wallet "
        "telescope microphone torch coin watch necklace radio bag mirror"
    ),
    "furniture": (
        "table shelf bench sofa desk chair counter bed stool bookcase couch armchair piano "
        "dresser lamp cradle ladder clock"
    ),
    "container": (
        "cabinet locker chest trunk wardrobe drawer toolbox cupboard crate freezer suitcase "
        "briefcase"
    ),
    "place": (
        "library museum station school church hospital hotel restaurant garden castle factory "
        "bakery bank tower temple palace prison store office stadium barn warehouse house cottage "
        "cafe pharmacy gallery embassy laboratory courthouse workshop garage chapel monastery "
        "lighthouse cinema"
    ),
    "way": "key road entrance gate path door tunnel corridor trail bridge lane passage",
    "text": (
        "letter report book article story poem song essay novel speech film thesis message note "
        "diary lecture booklet documentary review brochure pamphlet chapter ballad comedy"
    ),
    "idea": (
        "plan idea proposal question theory hypothesis rule decision promise problem request "
        "suggestion complaint warning demand contract strategy discovery argument secret mistake "
        "project claim objection"
    ),
}

IRREGULAR = {
    "child": "children",
    "woman": "women",
    "man": "men",
    "fisherman": "fishermen",
    "policeman": "policemen",
    "thief": "thieves",
    "mouse": "mice",
    "goose": "geese",
    "calf": "calves",
    "knife": "knives",
    "scarf": "scarves",
    "shelf": "shelves",
    "thesis": "theses",
    "hypothesis": "hypotheses",
}


@dataclass(frozen=True)
class Noun:
    """A countable noun. ``singular`` is its name; ``kind`` says what may be said about it."""

    singular: str
    plural: str
    kind: str

    def form(self, number: int) -> str:
        """The singular for 0, the plural for 1."""
        return (self.singular, self.plural)[number]


def plural_of(singular: str) -> str:
    """The plural of a noun, by the spelling rules of English and the list of irregular ones."""
    if singular in IRREGULAR:
        return IRREGULAR[singular]
    if singular.endswith(("s", "x", "z", "ch", "sh")):
        return singular + "es"
    if singular.endswith("y") and singular[-2] not in "aeiou":
        return singular[:-1] + "ies"
    return singular + "s"


@cache
def nouns(split: str, kind: str | None = None) -> tuple[Noun, ...]:
    """The nouns of one split, of one kind or of all.

    Raises ValueError for an unknown split or kind.
    """
    place = split_index(split)
    if kind is None:
        return tuple(noun for name in WORDS for noun in nouns(split, name))
    if kind not in WORDS:
        raise ValueError(f"the kinds of nouns are {', '.join(WORDS)}; got {kind!r}.")
    words = WORDS[kind].split()[place :: len(SPLITS)]
    return tuple(Noun(word, plural_of(word), kind) for word in words)


def split_index(split: str) -> int:
    """The place of a split in ``SPLITS``. Raises ValueError for an unknown one."""
    if split not in SPLITS:
        raise ValueError(f"the splits are {', '.join(SPLITS)}; got {split!r}.")
    return SPLITS.index(split)


def check_disjoint(parts: dict[str, Sequence[Noun]]) -> None:
    """Raise ValueError if two splits share a noun, in either of its forms, and name it."""
    owner: dict[str, str] = {}
    for split, words in parts.items():
        for form in sorted({form for noun in words for form in (noun.singular, noun.plural)}):
            if owner.setdefault(form, split) != split:
                raise ValueError(
                    f"{form!r} is in the splits {owner[form]} and {split}. What a model is tested "
                    "on must be new: take it out of one of them."
                )
