"""Balanced sets of prompts: the head's number is in the head noun, and nowhere else.

Prompts come in pairs that differ in the head's number alone. So neither words, template, length in
words nor attractors tell it, and a pair is what an interchange needs. Sentences are independent,
the two prompts of a pair are not: resample ``item``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Shaped

from helpers.tasks.agreement.lexicon import PLURAL, SINGULAR, split_index
from helpers.tasks.agreement.templates import TEMPLATES, Item, every_item, write_item

NONE = -1


@dataclass(frozen=True)
class Prompts:
    """N prompts, each up to the space before its verb; row i of every field is about prompt i.

    Numbers are 0 for singular, 1 for plural, −1 for a noun that the template has not; nouns are
    named by their singular, "" for none.

    Args:
        texts: the words.
        template: names from ``TEMPLATES``.
        item: which sentence; two prompts of one item differ in the head's number alone.
        head, attractor, other, fronted: the nouns. The attractor is the noun right before the verb
            or its relative clause's verb; ``other`` stands between it and the head; ``fronted``
            stands before the head and counts as no attractor.
        head_number, attractor_number, other_number, fronted_number: their numbers.
        n_attractors: nouns between head and verb, 0 to 2.
        head_span: first character of the head noun, and the character after it.
    """

    texts: tuple[str, ...]
    template: Shaped[np.ndarray, " N"]
    item: Int[np.ndarray, " N"]
    head: Shaped[np.ndarray, " N"]
    attractor: Shaped[np.ndarray, " N"]
    other: Shaped[np.ndarray, " N"]
    fronted: Shaped[np.ndarray, " N"]
    head_number: Int[np.ndarray, " N"]
    attractor_number: Int[np.ndarray, " N"]
    other_number: Int[np.ndarray, " N"]
    fronted_number: Int[np.ndarray, " N"]
    n_attractors: Int[np.ndarray, " N"]
    head_span: Int[np.ndarray, "N 2"]

    def __len__(self) -> int:
        return len(self.texts)

    def select(self, rows: Bool[np.ndarray, " N"] | Int[np.ndarray, " n"]) -> Prompts:
        """The prompts of a mask, or of row numbers in their order.

        Raises ValueError for a mask of another length.
        """
        if rows.dtype == bool and rows.shape != (len(self),):
            raise ValueError(f"the mask of {len(self)} prompts has shape {rows.shape}.")
        chosen = np.arange(len(self))[rows]
        values = {field.name: getattr(self, field.name)[chosen] for field in fields(self)[1:]}
        return Prompts(texts=tuple(self.texts[row] for row in chosen), **values)

    def partner(self) -> Int[np.ndarray, " N"]:
        """For each prompt, the row of the one that differs in the head's number alone.

        Raises ValueError where it is not among these prompts.
        """
        rows = {key: row for row, key in enumerate(zip(self.item, self.head_number, strict=True))}
        keys = [(item, 1 - number) for item, number in rows]
        lost = next((i for i, key in enumerate(keys) if key not in rows), None)
        if lost is not None:
            raise ValueError(
                f"{self.texts[lost]!r} has lost its partner. Select by item, so that pairs stay."
            )
        return np.array([rows[key] for key in keys], dtype=int)


def generate(n: int, split: str, seed: int, templates: Sequence[str] = tuple(TEMPLATES)) -> Prompts:
    """``n`` prompts of one split, all different, in random order, about equally many a template.

    Within a template all combinations of the nouns' numbers are equally frequent, so a template
    with m nouns beside the head comes in blocks of 2ᵐ⁺¹ prompts. Each sentence has one
    combination of the other nouns' numbers, and both numbers of the head.

    Raises ValueError for an ``n`` that gives no such balance, for more prompts than there are, and
    for an unknown split or template.
    """
    rng = np.random.default_rng([seed, split_index(split)])
    rows: list[dict] = []
    for template, count in _counts(n, templates).items():
        roles = TEMPLATES[template][1]
        cells = list(product((SINGULAR, PLURAL), repeat=len(roles)))
        items = _draw(template, split, count // 2, rng)
        first = rows[-1]["item"] + 1 if rows else 0
        for place, item in enumerate(items):
            numbers = dict(zip(roles, cells[place % len(cells)], strict=True))
            rows += [
                {"template": template, "item": first + place} | _row(item, {"head": head} | numbers)
                for head in (SINGULAR, PLURAL)
            ]
    order = rng.permutation(len(rows))
    columns = {name: [rows[row][name] for row in order] for name in rows[0]}
    texts = tuple(columns.pop("texts"))
    return Prompts(texts=texts, **{name: np.array(column) for name, column in columns.items()})


def capacity(template: str, split: str) -> int:
    """How many prompts one template can give in one call: each sentence in both numbers."""
    return 2 * sum(1 for _ in every_item(template, split))


def _row(item: Item, numbers: dict[str, int]) -> dict:
    """One prompt's fields."""
    names = {role: noun.singular for role, noun in item.nouns}
    row = {"texts": item.text(**numbers), "head_span": item.head_span(**numbers)}
    for role in ("head", "attractor", "other", "fronted"):
        row |= {role: names.get(role, ""), f"{role}_number": numbers.get(role, NONE)}
    return row | {"n_attractors": ("attractor" in names) + ("other" in names)}


def _counts(n: int, templates: Sequence[str]) -> dict[str, int]:
    """Prompts of each template, in whole blocks: the next block goes to the one with fewest."""
    unknown = [name for name in templates if name not in TEMPLATES]
    if unknown or not templates:
        raise ValueError(f"the templates are {', '.join(TEMPLATES)}; got {list(templates)}.")
    block = {name: 2 ** (1 + len(TEMPLATES[name][1])) for name in templates}
    counts, left = dict(block), n - sum(block.values())
    while left > 0 and (fits := [name for name in counts if block[name] <= left]):
        least = min(fits, key=lambda name: counts[name])
        counts[least] += block[least]
        left -= block[least]
    if left:
        raise ValueError(
            f"{n} prompts cannot be balanced: {', '.join(block)} come in blocks of "
            f"{', '.join(map(str, block.values()))} and need one block each. Ask for a multiple of "
            f"{min(block.values())}, at least {sum(block.values())}."
        )
    return counts


def _draw(template: str, split: str, count: int, rng: np.random.Generator) -> list[Item]:
    """``count`` different sentences."""
    found: dict[Item, None] = {}
    repeats = 0

    def pick(options: Sequence[Any]) -> Any:
        return options[rng.integers(len(options))]

    while len(found) < count and repeats < 100:
        item = write_item(template, split, pick)
        repeats = repeats + 1 if item in found else 0
        found[item] = None
    if len(found) < count:  # few are left: go through them all
        rest = [item for item in every_item(template, split) if item not in found]
        if len(found) + len(rest) < count:
            raise ValueError(
                f"the template {template!r} has {2 * (len(found) + len(rest))} prompts in the "
                f"split {split!r}; {2 * count} are its share. Ask for fewer, or more templates."
            )
        found |= dict.fromkeys(rest[i] for i in rng.permutation(len(rest))[: count - len(found)])
    return list(found)
