"""What may be said of which nouns: prepositions, verbs of relative clauses, adjectives.

Every preposition is one that a single thing may have to several others, and the other way round:
"the vase near the tables" is possible, "the vase on the tables" is not. All verbs are in the simple
past, which shows no number.
"""

from __future__ import annotations

from functools import cache

from helpers.tasks.agreement.lexicon import Noun

# (what it is said of: a kind or one noun, what is said, of which kind): "teacher near library"
Frame = tuple[str, str, str]


def _frames(*rows: Frame) -> tuple[Frame, ...]:
    """One frame for each head, link and attractor of rows that list several, split by "/"."""
    return tuple(
        (head, link, kind)
        for heads, links, kinds in rows
        for head in heads.split("/")
        for kind in kinds.split("/")
        for link in links.split("/")
    )


PREPOSITIONS = _frames(
    ("person", "near/behind/outside", "place"),
    ("person", "near/behind/beside", "person"),
    ("person", "with", "thing"),
    ("person", "near/beside", "animal"),
    ("animal", "near/behind", "place"),
    ("animal", "near/beside", "person"),
    ("thing/furniture/container", "near/behind/beside", "furniture"),
    ("thing/furniture", "near/behind", "container"),
    ("thing", "belonging to/for", "person"),
    ("furniture/container", "belonging to", "person"),
    ("place", "near/behind/beside/opposite", "place"),
    ("way", "to", "place"),
    ("key", "to", "container"),
    ("text", "about", "person/animal/place"),
    ("report/book/article/essay/speech/lecture/documentary/review/letter", "about", "idea"),
    ("text", "by", "person"),
    ("idea", "of", "person"),
    ("idea", "concerning", "place"),
)

# what is said of the first attractor of two
SECOND_PREPOSITIONS = _frames(
    ("person", "with", "thing"),
    ("person", "near/beside", "person"),
    ("animal", "near/beside", "person"),
    ("furniture/container", "belonging to", "person"),
    ("idea", "of", "person"),
)

SUBJECT_RELATIVES = _frames(
    ("person", "admired/met/helped/followed/thanked/noticed/remembered/trusted", "person"),
    ("person", "bought/found/lost/carried/borrowed/sold", "thing"),
    ("person", "fed/watched/followed/photographed", "animal"),
    ("person", "visited/painted/photographed/described", "place"),
    ("person", "praised/discussed/criticized/mentioned", "text/idea"),
    ("animal", "followed/watched/frightened/noticed/avoided", "person"),
    ("text/idea", "surprised/worried/pleased/angered/impressed/puzzled", "person"),
    ("place", "impressed/surprised/disappointed", "person"),
    ("thing/furniture/container", "belonged to", "person"),
    ("road/entrance/path/tunnel/corridor/trail/bridge/lane/passage/gate/door", "led to", "place"),
    ("key", "opened", "container"),
)

OBJECT_RELATIVES = _frames(
    ("person", "admired/met/helped/followed/thanked/noticed/remembered/trusted", "person"),
    ("animal", "fed/watched/followed/photographed/noticed", "person"),
    ("thing", "bought/found/lost/carried/borrowed/sold", "person"),
    ("furniture", "bought/moved/painted/repaired/sold", "person"),
    ("container", "bought/moved/opened/painted", "person"),
    ("place", "visited/painted/photographed/described/admired", "person"),
    ("way", "found/described/remembered/noticed", "person"),
    ("text", "praised/discussed/criticized/mentioned/enjoyed", "person"),
    ("idea", "discussed/mentioned/criticized/explained/defended", "person"),
)

FRONTED = _frames(
    ("person/animal/thing/furniture/container/place/way/text/idea", "According to", "person"),
    ("person/animal/place/way", "Near/Behind", "place"),
)

MIDDLE = {head for head, _, _ in SECOND_PREPOSITIONS}
TABLES = {
    "preposition": PREPOSITIONS,
    "first of two": tuple(frame for frame in PREPOSITIONS if frame[2] in MIDDLE),
    "second of two": SECOND_PREPOSITIONS,
    "subject relative": SUBJECT_RELATIVES,
    "object relative": OBJECT_RELATIVES,
    "before a place": tuple(frame for frame in PREPOSITIONS if frame[2] != "idea"),
    "fronted": FRONTED,
}

ADJECTIVES = {
    "person": ("young", "old", "tall", "quiet", "tired", "famous"),
    "animal": ("young", "old", "brown", "hungry", "tired", "quiet"),
    "thing": ("small", "old", "new", "dirty", "cheap", "expensive"),
    "furniture": ("small", "old", "new", "heavy", "broken", "expensive"),
    "container": ("small", "old", "new", "large", "empty", "locked"),
    "place": ("small", "old", "new", "large", "empty", "famous"),
    "way": ("small", "old", "new", "hidden", "forgotten", "unmarked"),
    "text": ("short", "long", "new", "old", "famous", "boring"),
    "idea": ("simple", "new", "strange", "unusual", "old", "recent"),
}


@cache
def said_of(noun: Noun, table: str) -> tuple[tuple[str, str], ...]:
    """(link, kind) of the frames in a table that a noun, or its kind, begins."""
    return tuple(
        (link, kind) for head, link, kind in TABLES[table] if head in (noun.kind, noun.singular)
    )
