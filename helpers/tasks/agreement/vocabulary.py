"""All words of the prompts and outputs: the vocabulary of a toy model that reads whole words."""

from __future__ import annotations

from helpers.tasks.agreement import frames
from helpers.tasks.agreement.controls import WORDS
from helpers.tasks.agreement.lexicon import SPLITS, nouns
from helpers.tasks.agreement.verbs import CANDIDATES

# what the templates write themselves
_FRAME_WORDS = ("the", "both", "and", "who", "that", "near", "behind", "opposite")


def vocabulary() -> tuple[str, ...]:
    """Every word once, in lower case but for names: nouns in both numbers, frames, verbs, controls.

    A test holds it against prompts of every template and split.
    """
    words = [word.lower() for word in _FRAME_WORDS]
    words += [form for s in SPLITS for noun in nouns(s) for form in (noun.singular, noun.plural)]
    words += [adjective for options in frames.ADJECTIVES.values() for adjective in options]
    for table in frames.TABLES.values():
        words += [word.lower() for _, link, _ in table for word in link.split()]
    words += [form for pair in CANDIDATES for form in pair]
    return tuple(dict.fromkeys([*words, *WORDS]))
