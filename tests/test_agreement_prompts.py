"""Agreement prompts: balance, splits that share no noun, and number in the head noun alone."""

import re
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.tasks.agreement.frames import ADJECTIVES, TABLES, said_of
from helpers.tasks.agreement.generate import NONE, Prompts, capacity, generate
from helpers.tasks.agreement.lexicon import (
    IRREGULAR,
    SPLITS,
    WORDS,
    check_disjoint,
    nouns,
    plural_of,
)
from helpers.tasks.agreement.templates import TEMPLATES, every_item, write_item
from helpers.tasks.agreement.vocabulary import vocabulary

quick = settings(max_examples=8, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)
splits = st.sampled_from(SPLITS)
sizes = st.integers(23, 150).map(lambda half: 2 * half)
LEMMA = {form: noun for s in SPLITS for noun in nouns(s) for form in (noun.singular, noun.plural)}
ROLES = ("fronted", "head", "other", "attractor")


def words(text):
    return re.findall(r"[a-z]+", text.lower())


def nouns_in(text):
    """The forms of the lexicon's nouns in a text, in order."""
    return [word for word in words(text) if word in LEMMA]


def number_of(form):
    return int(LEMMA[form].plural == form)


def best_guess(keys, numbers):
    """Accuracy of the best rule that sees ``keys`` alone: each key's majority."""
    counts = defaultdict(Counter)
    for key, number in zip(keys, numbers, strict=True):
        counts[key][int(number)] += 1
    return sum(max(count.values()) for count in counts.values()) / len(numbers)


@given(sizes, splits, seeds)
@quick
def test_all_combinations_of_numbers_are_equally_frequent_in_each_template(n, split, seed):
    prompts = generate(n, split, seed)
    assert len(prompts) == n
    numbers = [getattr(prompts, f"{role}_number").tolist() for role in ROLES]
    cells = Counter(zip(prompts.template.tolist(), *numbers, strict=True))
    for name, (_, roles) in TEMPLATES.items():
        counts = [count for cell, count in cells.items() if cell[0] == name]
        assert len(counts) == 2 ** (1 + len(roles))
        assert len(set(counts)) == 1


def test_templates_are_about_equally_frequent():
    counts = Counter(generate(1200, "test", 0).template.tolist())
    assert max(counts.values()) - min(counts.values()) <= 8


@given(sizes, splits, seeds)
@quick
def test_no_two_prompts_are_alike(n, split, seed):
    assert len(set(generate(n, split, seed).texts)) == n


@given(sizes, splits, seeds)
@quick
def test_fields_say_what_stands_in_the_text_in_order(n, split, seed):
    prompts = generate(n, split, seed)
    for row, text in enumerate(prompts.texts):
        named = [getattr(prompts, role)[row] for role in ROLES]
        numbers = [getattr(prompts, f"{role}_number")[row] for role in ROLES]
        found = nouns_in(text)
        assert [LEMMA[form].singular for form in found] == [name for name in named if name]
        assert [number_of(form) for form in found] == [k for k in numbers if k != NONE]
        assert [k == NONE for k in numbers] == [not name for name in named]
        assert prompts.n_attractors[row] == sum(bool(name) for name in named[2:])
        start, end = prompts.head_span[row]
        assert LEMMA[text[start:end]].singular == prompts.head[row]
        assert number_of(text[start:end]) == prompts.head_number[row]
        assert nouns_in(text[end:]) == found[len(found) - prompts.n_attractors[row] :]


@given(sizes, splits, seeds)
@quick
def test_prompts_are_well_formed(n, split, seed):
    for text in generate(n, split, seed).texts:
        assert text[0].isupper() and text[1:] == text[1:].lower()
        assert re.fullmatch(r"[A-Za-z,]+( [A-Za-z,]+)*", text)
        assert text.count(",") == text.startswith(("According", "Near", "Behind"))
        lemmas = [LEMMA[form].singular for form in nouns_in(text)]
        assert len(set(lemmas)) == len(lemmas)
        before = [
            first
            for first, second in zip(words(text), words(text)[1:], strict=False)
            if second in LEMMA
        ]
        adjectives = {word for row in ADJECTIVES.values() for word in row}
        assert set(before) <= {"the"} | adjectives
        assert not {"a", "an", "these", "those", "this", "each", "is", "are"} & set(words(text))


@given(sizes, splits, seeds)
@quick
def test_no_rule_without_the_head_noun_beats_chance(n, split, seed):
    prompts = generate(n, split, seed)
    blind = [
        text[: span[0]] + "_" + text[span[1] :]
        for text, span in zip(prompts.texts, prompts.head_span, strict=True)
    ]
    rules = {
        "words but the head": blind,
        "template": prompts.template.tolist(),
        "number of words": [len(text.split()) for text in prompts.texts],
        "attractor": list(zip(prompts.attractor_number, prompts.other_number, strict=True)),
        "head lemma": prompts.head.tolist(),
    }
    for name, keys in rules.items():
        assert best_guess(keys, prompts.head_number) == 0.5, name
    assert best_guess(prompts.texts, prompts.head_number) == 1


def test_a_rule_finds_number_where_balance_is_broken():
    prompts = generate(200, "test", 0)
    congruent = prompts.select(prompts.attractor_number == prompts.head_number)
    assert best_guess(congruent.attractor_number.tolist(), congruent.head_number) == 1


def test_splits_share_no_noun_and_each_has_enough():
    check_disjoint({split: nouns(split) for split in SPLITS})
    assert all(len(nouns(split)) == 80 for split in SPLITS)


@pytest.mark.parametrize("shared", ["key", "child"])
def test_a_noun_in_two_splits_is_named(shared):
    parts = {split: list(nouns(split)) for split in SPLITS}
    noun = LEMMA[shared]
    thief = next(split for split in SPLITS if noun not in parts[split])
    parts[thief].append(replace(noun, kind="person"))
    with pytest.raises(ValueError, match=rf"'{shared}\w*' is in the splits .*{thief}"):
        check_disjoint(parts)


@given(seeds, seeds)
@quick
def test_prompts_of_two_splits_share_no_noun_whatever_the_seeds(one, two):
    found = [
        {
            LEMMA[form].singular
            for text in generate(100, split, seed).texts
            for form in nouns_in(text)
        }
        for split, seed in (("train", one), ("validation", two), ("test", one))
    ]
    assert not found[0] & found[1] and not found[0] & found[2] and not found[1] & found[2]


def test_every_split_gives_1200_prompts_that_use_nearly_all_of_its_nouns():
    for split in SPLITS:
        prompts = generate(1200, split, 0)
        assert len(set(prompts.head.tolist())) >= 78
        assert Counter(prompts.head.tolist()).most_common(1)[0][1] < 1200 / 20


@given(splits, seeds)
@quick
def test_a_seed_fixes_the_prompts_and_another_changes_them(split, seed):
    assert generate(100, split, seed).texts == generate(100, split, seed).texts
    assert generate(100, split, seed).texts != generate(100, split, seed + 1).texts


@given(sizes, splits, seeds)
@quick
def test_partners_differ_in_the_head_noun_alone(n, split, seed):
    prompts = generate(n, split, seed)
    partner = prompts.partner()
    np.testing.assert_array_equal(partner[partner], np.arange(n))
    np.testing.assert_array_equal(prompts.head_number[partner], 1 - prompts.head_number)
    for row, other in enumerate(partner):
        mine, its = words(prompts.texts[row]), words(prompts.texts[other])
        differ = [pair for pair in zip(mine, its, strict=True) if pair[0] != pair[1]]
        assert len(differ) == 1
        assert {LEMMA[form].singular for form in differ[0]} == {prompts.head[row]}


def test_select_keeps_all_fields_in_step():
    prompts = generate(200, "train", 3)
    mask = prompts.template == "fronted"
    chosen = prompts.select(mask)
    assert isinstance(chosen, Prompts)
    assert chosen.texts == tuple(t for t, m in zip(prompts.texts, mask, strict=True) if m)
    assert set(chosen.template.tolist()) == {"fronted"}
    again = prompts.select(np.flatnonzero(mask)[::-1])
    assert again.texts == chosen.texts[::-1]
    np.testing.assert_array_equal(again.head_span, chosen.head_span[::-1])


def test_a_lost_partner_is_named():
    prompts = generate(50, "train", 0)
    with pytest.raises(ValueError, match="has lost its partner"):
        prompts.select(prompts.head_number == 1).partner()


def test_a_mask_of_another_length_is_named(unchecked):
    with pytest.raises(ValueError, match=r"mask of 50 prompts has shape \(49,\)"):
        generate(50, "train", 0).select(np.ones(49, dtype=bool))


@pytest.mark.parametrize("n", [-2, 0, 44, 47, 101])
def test_a_number_that_cannot_be_balanced_is_named(n):
    with pytest.raises(ValueError, match=rf"{n} prompts cannot be balanced.*at least 46"):
        generate(n, "train", 0)


def test_all_prompts_of_a_template_can_be_had_and_not_one_more(unchecked):
    full = capacity("plain", "test")
    assert len(set(generate(full, "test", 0, ("plain",)).texts)) == full
    with pytest.raises(ValueError, match=rf"'plain' has {full} prompts in the split 'test'"):
        generate(full + 2, "test", 0, ("plain",))


def test_enumeration_holds_each_sentence_once_and_every_draw(unchecked):
    items = list(every_item("preposition", "test"))
    assert len(set(items)) == len(items)
    rng = np.random.default_rng(0)
    drawn = [
        write_item("preposition", "test", lambda options: options[rng.integers(len(options))])
        for _ in range(200)
    ]
    assert set(drawn) <= set(items)


@pytest.mark.parametrize("split", SPLITS)
def test_no_choice_of_a_template_is_without_options(split, unchecked):
    rng = np.random.default_rng(0)

    def pick(options):
        assert options
        return options[rng.integers(len(options))]

    for name in TEMPLATES:
        for _ in range(1500):
            write_item(name, split, pick)


def test_every_noun_heads_a_sentence_of_every_main_table():
    for split in SPLITS:
        for noun in nouns(split):
            for table in ("preposition", "subject relative", "object relative", "fronted"):
                assert said_of(noun, table), (noun, table)


def test_frames_name_only_kinds_and_nouns_that_exist():
    for table in TABLES.values():
        for head, _, kind in table:
            assert kind in WORDS
            assert head in WORDS or head in LEMMA


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        ("key", "keys"), ("library", "libraries"), ("church", "churches"), ("box", "boxes"),
        ("child", "children"), ("shelf", "shelves"), ("boy", "boys"), ("brush", "brushes"),
    ],
)  # fmt: skip
def test_plurals_follow_english_spelling(singular, plural):
    assert plural_of(singular) == plural


def test_irregular_plurals_are_those_of_nouns_that_are_used():
    assert set(IRREGULAR) <= set(LEMMA)


def test_unknown_names_are_listed():
    with pytest.raises(ValueError, match="splits are train, validation, test; got 'dev'"):
        generate(100, "dev", 0)
    with pytest.raises(ValueError, match=r"templates are plain, .*'clefts'"):
        generate(100, "test", 0, ("clefts",))
    with pytest.raises(ValueError, match=r"templates are plain, .*'clefts'"):
        capacity("clefts", "test")
    with pytest.raises(ValueError, match=r"kinds of nouns are person, .*'plant'"):
        nouns("test", "plant")


@pytest.mark.parametrize("split", SPLITS)
def test_the_vocabulary_holds_every_word_of_every_prompt(split):
    known = set(vocabulary())
    for text in generate(1200, split, 7).texts:
        for word in text.replace(",", "").split():
            assert word in known or word.lower() in known, word
