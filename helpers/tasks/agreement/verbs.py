"""Verb pairs of a tokenizer: forms of one token each, so that one logit is one form.

The margin of a pair is logit(plural) − logit(singular), and the headline margin is
(are + were) − (is + was).  Source: Schiffman 2026 (subject–verb agreement).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

# (singular, plural), the four auxiliaries first; each can follow people, things and ideas
_LIST = """
is/are was/were has/have does/do seems/seem looks/look makes/make comes/come goes/go needs/need
gets/get takes/take gives/give shows/show appears/appear remains/remain becomes/become stays/stay
helps/help keeps/keep brings/bring leads/lead belongs/belong deserves/deserve changes/change
causes/cause stands/stand means/mean
"""
CANDIDATES = tuple((pair.split("/")[0], pair.split("/")[1]) for pair in _LIST.split())
HEADLINE = ("is/are", "was/were")
CONTEXT = "The key"

Encode = Callable[[str], Sequence[int]]


@dataclass(frozen=True)
class VerbPairs:
    """K verb pairs: their names ("is/are"), the token ids of both forms, and what was left out.

    ``left_out`` holds (pair, reason).
    """

    names: tuple[str, ...]
    singular_ids: Int[np.ndarray, " K"]
    plural_ids: Int[np.ndarray, " K"]
    left_out: tuple[tuple[str, str], ...]

    def __len__(self) -> int:
        return len(self.names)

    def headline(self) -> Float[np.ndarray, " K"]:
        """Weights w of the pairs in the headline margin: margins (N, K) @ w is (N,).

        1 for is/are and for was/were, 0 for the others. Raises ValueError if one is missing.
        """
        missing = [name for name in HEADLINE if name not in self.names]
        if missing:
            why = "; ".join(reason for name, reason in self.left_out if name in missing)
            raise ValueError(
                f"the headline margin needs {' and '.join(HEADLINE)}, but {' and '.join(missing)} "
                f"is missing ({why or 'it was no candidate'}). Take another tokenizer, or define "
                "the margin on the pairs that are there."
            )
        return np.array([float(name in HEADLINE) for name in self.names])


def verb_pairs(
    tokenizer: Encode | Any, candidates: Sequence[tuple[str, str]] = CANDIDATES
) -> VerbPairs:
    """The candidates of which each form is one token of its own right after a prompt.

    A form is encoded as the continuation of a prompt, with its space, since tokenizers differ in
    what they do at the start of a text.

    Args:
        tokenizer: a Hugging Face tokenizer, or a function from text to ids that adds no BOS or EOS.
        candidates: (singular, plural) forms.

    Raises:
        ValueError: no pair is left, or is/are is a candidate and is left out.
    """
    encode, unknown = as_encode(tokenizer), getattr(tokenizer, "unk_token_id", None)
    kept: dict[str, tuple[int, int]] = {}
    left_out: list[tuple[str, str]] = []
    taken: dict[int, str] = {}
    for pair in candidates:
        name, ids, reason = "/".join(pair), [], ""
        for form in pair:
            tokens = continuation(encode, " " + form)
            others = {**taken, **dict(zip(ids, pair, strict=False))}
            if len(tokens) != 1:
                reason = f"' {form}' is {len(tokens)} tokens: {tokens}"
            elif tokens[0] == unknown:
                reason = f"' {form}' is unknown to the tokenizer"
            elif tokens[0] in others:
                reason = f"' {form}' and ' {others[tokens[0]]}' are the same token {tokens[0]}"
            if reason:
                break
            ids.append(tokens[0])
        if reason:
            left_out.append((name, reason))
        else:
            kept[name] = (ids[0], ids[1])
            taken |= dict(zip(ids, pair, strict=True))
    lost = dict(left_out)
    if not kept or "is/are" in lost:
        first = lost.get("is/are") or next(iter(lost.values()), "there was no candidate")
        raise ValueError(
            f"{'is/are has' if kept else 'no verb pair has'} forms of one token each: {first}. "
            "Logits compare single tokens: take a tokenizer with whole English words, and one that "
            "is given text without BOS or EOS."
        )
    singular, plural = np.array(list(kept.values()), dtype=np.int64).T
    return VerbPairs(tuple(kept), singular.copy(), plural.copy(), tuple(left_out))


def as_encode(tokenizer: Encode | Any) -> Encode:
    """Text to ids, without BOS or EOS, from a Hugging Face tokenizer or such a function.

    Raises TypeError for anything else.
    """
    if hasattr(tokenizer, "encode"):
        return lambda text: tokenizer.encode(text, add_special_tokens=False)
    if callable(tokenizer):
        return tokenizer
    raise TypeError(
        "the tokenizer is a Hugging Face tokenizer or a function from text to token ids; got "
        f"{type(tokenizer).__name__}."
    )


def continuation(encode: Encode, text: str) -> list[int]:
    """The ids that ``text`` adds to a prompt.

    Raises ValueError if the prompt's own ids change with what follows: its last position would not
    be where ``text`` is predicted.
    """
    before, whole = list(encode(CONTEXT)), list(encode(CONTEXT + text))
    if whole[: len(before)] != before:
        raise ValueError(
            f"{CONTEXT!r} is {before}, but begins {whole} with {text!r} after it. Encode without "
            "EOS; if the tokenizer still merges over a space, its verbs are no single tokens."
        )
    return [int(token) for token in whole[len(before) :]]
