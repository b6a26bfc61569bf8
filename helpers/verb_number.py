"""The number that a continuation gives its subject: that of the first agreeing verb."""

from __future__ import annotations

import re
from collections.abc import Collection


def first_number(
    text: str, singular: Collection[str], plural: Collection[str], within: int = 8
) -> int | None:
    """Number of the first agreeing verb: 0 singular, 1 plural, None if there is none.

    It looks at the first ``within`` words and no further than the end of the sentence, in any case
    of letters, and takes "isn't" for "is".

    Raises:
        ValueError: a form that stands in both lists.
    """
    one, many = ({form.strip().lower() for form in forms} for forms in (singular, plural))
    if one & many:
        raise ValueError(f"forms cannot be of both numbers: {sorted(one & many)}.")
    sentence = re.split(r"[.!?\n]", text.lower().replace("’", "'"))[0]
    for word in re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)*", sentence)[:within]:
        verb = word.removesuffix("n't")
        if verb in one or verb in many:
            return int(verb in many)
    return None
