"""Token pairs that have nothing to do with number: what any output would show.

An axis made for *some* difference of two logits removes and flips that difference too. So the axis
of number is compared with axes of such pairs, each scored on its own margin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from helpers.tasks.agreement.verbs import CANDIDATES, Encode, as_encode, continuation

# Frequent words of every kind. None is a verb of the third person, a plural noun, or a word such as
# "these" or "both" that tells number.
_LIST = """
about above across after again against ago ahead air almost alone along already also although
always American among ancient and angry animal any apart area army around art as at away baby back
bad ball bank base because before behind below beside best better between beyond big bird black
blood blue boat body book born bottom boy bread bridge bright brother brown building business but
by camera capital car care careful center central certain chance cheap child church city class
clean clear clearly close cloud coast cold color common company complete computer cool corner
country course court cross cup current daily dark data daughter day dead dear death deep deeply
different difficult direct direction doctor dog door down dry due during early earth east easily
easy edge education either electric else empty end energy engine English enough entire especially
even evening ever exactly example experience eye face fact fair family famous far farm fast father
fear field film final finally fine finger fire first fish flat floor flower food foot for foreign
forest form former forward free French fresh friend from front full fully game garden general
German girl glass god gold good government gray great green ground group growth hair half hand
happy hard hardly head health heart heavy here high highly hill home horse hospital hot hotel hour
house how however huge human idea if important in indeed information inside instead into island
job just key kind king kitchen land language large last late later law least left leg less letter
level library life light like likely line little local long longer lord low machine main major man
map mark market matter maybe meat medical memory metal middle military million mind modern moment
money month moon more morning most mother mountain mouth much music name narrow national natural
nature near nearly necessary neck never new news next nice night no normal normally north nose not
nothing now number ocean of off office often oil old on once only open opposite or order other out
outside over page pain paper park part particular party past peace people perfect perhaps person
phone picture piece place plan plant play point police poor popular position possible power
present president price private probably problem program public pure question quick quickly quiet
quietly quite rain rather ready real really reason recent recently red rich right river road rock
room round royal safe same sand school science sea season second secret serious seriously service
several shape sharp ship shop short side silver similar simple simply since sister size skin sky
slow slowly small snow so social society soft soldier some sometimes son song soon sound south
space special speed spring square star state station still stone story straight strange street
strong student sudden suddenly summer sun sure surface sweet system table tall teacher team than
that the then there thick thin thing third though through thus time tiny to today together
tomorrow tonight too top toward town trade tree true truth under until up upon usual usually
valley very village voice wall war warm water way weather week well west wet when where while
white who whole why wide wife wild wind window winter with within without woman wonderful wood
word world wrong year yellow yesterday yet young
"""
WORDS = tuple(_LIST.split())


def word_ids(tokenizer: Encode | Any, words: Sequence[str] = WORDS) -> Int[np.ndarray, " M"]:
    """The ids of the words that are one token, with a space before, after a prompt; each id once.

    They are the same words for every tokenizer that has them. What stands for many words, as the
    unknown token does, is left out, and so is every form of the verb pairs.

    Raises ValueError if none is left.
    """
    encode = as_encode(tokenizer)
    special = set(getattr(tokenizer, "all_special_ids", ()))
    verbs = {tuple(continuation(encode, " " + form)) for pair in CANDIDATES for form in pair}
    counts: dict[tuple[int, ...], int] = {}
    for word in dict.fromkeys(words):
        tokens = tuple(continuation(encode, " " + word))
        counts[tokens] = counts.get(tokens, 0) + 1
    kept = [
        tokens[0]
        for tokens, times in counts.items()
        if len(tokens) == 1 and times == 1 and tokens not in verbs and tokens[0] not in special
    ]
    if not kept:
        raise ValueError(
            f"none of {len(words)} words is a token of its own. Take a tokenizer with whole "
            "English words, or give ids to random_pairs."
        )
    return np.array(kept, dtype=np.int64)


def random_pairs(
    candidates: Int[np.ndarray, " M"],
    n: int,
    rng: np.random.Generator,
    exclude: Int[np.ndarray, " E"] | Sequence[int] = (),
) -> Int[np.ndarray, "n 2"]:
    """``n`` pairs of token ids drawn from the candidates, all 2n different, none in ``exclude``.

    Raises ValueError if the candidates are too few.
    """
    left = np.setdiff1d(candidates, np.asarray(exclude, dtype=np.int64))
    if n < 1 or 2 * n > len(left):
        raise ValueError(
            f"{n} pairs need {2 * n} different tokens, at least one pair; {len(left)} candidates "
            "are left. Ask for fewer pairs, or give more candidates."
        )
    return rng.permutation(left)[: 2 * n].reshape(n, 2)
