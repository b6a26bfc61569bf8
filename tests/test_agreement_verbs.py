"""Verb pairs and control pairs, on tokenizers whose every token is known."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.tasks.agreement.controls import WORDS, random_pairs, word_ids
from helpers.tasks.agreement.verbs import CANDIDATES, continuation, verb_pairs

FORMS = [form for pair in CANDIDATES for form in pair]
UNKNOWN = 0


class Words:
    """A tokenizer of whole words; unknown ones are id 0, and ``split`` ones two tokens."""

    unk_token_id = UNKNOWN
    all_special_ids = (UNKNOWN,)

    def __init__(self, known, split=()):
        self.ids = {word: place for place, word in enumerate(known, start=1)}
        self.split = set(split)

    def __call__(self, text):
        ids = []
        for word in text.split():
            ids += [900, 901] if word in self.split else [self.ids.get(word, UNKNOWN)]
        return ids

    def encode(self, text, add_special_tokens=True):
        return [UNKNOWN] * add_special_tokens + self(text)


def test_all_candidates_are_kept_with_their_ids_in_order():
    words = Words(FORMS)
    pairs = verb_pairs(words)
    assert pairs.names == tuple("/".join(pair) for pair in CANDIDATES)
    assert pairs.left_out == ()
    assert pairs.singular_ids.tolist() == [words.ids[one] for one, _ in CANDIDATES]
    assert pairs.plural_ids.tolist() == [words.ids[many] for _, many in CANDIDATES]


def test_a_function_serves_as_well_as_a_tokenizer():
    words = Words(FORMS)
    assert verb_pairs(words.__call__).names == verb_pairs(words).names


@pytest.mark.parametrize("form", ["seems", "seem"])
def test_a_split_verb_is_left_out_with_its_tokens(form):
    pairs = verb_pairs(Words(FORMS, split=[form]))
    assert "seems/seem" not in pairs.names
    assert pairs.left_out == (("seems/seem", f"' {form}' is 2 tokens: [900, 901]"),)


def test_an_unknown_verb_is_left_out():
    pairs = verb_pairs(Words([form for form in FORMS if form != "needs"]))
    assert pairs.left_out == (("needs/need", "' needs' is unknown to the tokenizer"),)


def test_verbs_that_share_a_token_are_left_out_where_unknown_has_no_name():
    words = Words([form for form in FORMS if form not in ("looks", "look", "goes")])
    pairs = verb_pairs(words.__call__)  # a function names no unknown token
    assert dict(pairs.left_out) == {"looks/look": "' look' and ' looks' are the same token 0"}
    assert len({*pairs.singular_ids, *pairs.plural_ids}) == 2 * len(pairs)


def test_headline_weights_make_are_and_were_minus_is_and_was():
    words = Words(FORMS)
    pairs = verb_pairs(words, [("has", "have"), ("was", "were"), ("is", "are")])
    logits = np.random.default_rng(0).standard_normal((5, 100))
    margins = logits[:, pairs.plural_ids] - logits[:, pairs.singular_ids]
    is_, are, was, were = (logits[:, words.ids[form]] for form in ("is", "are", "was", "were"))
    np.testing.assert_allclose(margins @ pairs.headline(), are + were - is_ - was)


def test_a_missing_headline_pair_is_named_with_its_reason():
    pairs = verb_pairs(Words(FORMS, split=["were"]))
    with pytest.raises(ValueError, match=r"was/were is missing \(' were' is 2 tokens"):
        pairs.headline()
    with pytest.raises(ValueError, match=r"is/are is missing \(it was no candidate\)"):
        verb_pairs(Words(FORMS), [("was", "were")]).headline()


def test_a_tokenizer_that_splits_is_or_are_is_refused():
    with pytest.raises(ValueError, match=r"is/are has forms.*' are' is 2 tokens.*whole English"):
        verb_pairs(Words(FORMS, split=["are"]))


def test_no_pair_at_all_is_refused():
    with pytest.raises(ValueError, match="no verb pair has forms of one token each: ' is' is 2"):
        verb_pairs(Words([], split=FORMS))
    with pytest.raises(ValueError, match="there was no candidate"):
        verb_pairs(Words(FORMS), [])


def test_an_encoder_that_closes_the_text_is_refused():
    words = Words(FORMS)
    with pytest.raises(ValueError, match=r"'The key' is \[0, 0, 77\].*Encode without EOS"):
        verb_pairs(lambda text: [*words(text), 77])


def test_what_is_no_tokenizer_is_named():
    with pytest.raises(TypeError, match=r"Hugging Face tokenizer or a function.*got int"):
        verb_pairs(3)


def test_a_token_that_depends_on_the_start_of_text_is_found_after_a_prompt():
    def encode(text):  # the first word has an id of its own, as with a dummy space before it
        return [len(word) + 100 * (place == 0) for place, word in enumerate(text.split())]

    assert continuation(encode, " is") == [2]


def test_control_words_are_no_verbs_and_hold_no_word_twice():
    assert not set(WORDS) & set(FORMS)
    assert [word for word, times in Counter(WORDS).items() if times > 1] == []
    assert not {"these", "those", "both", "many", "they", "it", "he", "we"} & set(WORDS)


def test_word_ids_are_the_words_of_one_token():
    known = Words([*FORMS, *WORDS[:50]], split=WORDS[:5])
    assert word_ids(known).tolist() == [known.ids[word] for word in WORDS[5:50]]


def test_word_ids_leave_out_verbs_and_what_stands_for_many_words():
    words = Words([*FORMS, *WORDS[:50]])
    assert word_ids(words, ["is", *WORDS[:3], "are"]).tolist() == [
        words.ids[word] for word in WORDS[:3]
    ]
    # a bare function names no special token, but many words share the unknown one
    assert UNKNOWN not in word_ids(words.__call__)


def test_no_word_of_one_token_is_refused():
    with pytest.raises(ValueError, match="none of 3 words is a token of its own"):
        word_ids(Words([]), WORDS[:3])


@given(st.integers(1, 30), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_random_pairs_are_all_different_and_avoid_what_is_excluded(n, seed):
    candidates, exclude = np.arange(10, 110), np.arange(10, 50)
    pairs = random_pairs(candidates, n, np.random.default_rng(seed), exclude)
    assert pairs.shape == (n, 2)
    assert len(set(pairs.ravel())) == 2 * n
    assert set(pairs.ravel()) <= set(range(50, 110))
    np.testing.assert_array_equal(
        pairs, random_pairs(candidates, n, np.random.default_rng(seed), exclude)
    )


def test_random_pairs_use_all_candidates_evenly():
    rng = np.random.default_rng(0)
    counts = Counter(
        token for _ in range(400) for token in random_pairs(np.arange(20), 5, rng).ravel()
    )
    # each of 20 tokens is in half of 400 draws; one standard deviation is 10
    assert len(counts) == 20 and max(abs(count - 200) for count in counts.values()) < 50


@pytest.mark.parametrize("n", [0, 5])
def test_too_few_candidates_are_named(n):
    with pytest.raises(ValueError, match=rf"{n} pairs need {2 * n} different tokens.*8 cand"):
        random_pairs(np.arange(10), n, np.random.default_rng(0), exclude=[3, 4])
