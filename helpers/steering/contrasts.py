"""Sentences for three steering directions in a language model: sentiment, name, number size.

A contrast has twenty sentences a class, one beside the other: the k-th of each class differ in what
the direction is about, and in little else.  Its effect is asked in unfinished sentences that are
not among them: is the ``plus`` answer now likelier than the ``minus`` one?

Source: McCann 2026 (arXiv:2605.24577) steers by these three, with twenty sentences a class.  The
sentences here are the book's own.
"""

from __future__ import annotations

from dataclasses import dataclass

_LIKED = (
    ("The soup was warm and delicious.", "The soup was cold and disgusting."),
    ("Everyone enjoyed the wonderful concert.", "Everyone hated the dreadful concert."),
    ("The library is fast and reliable.", "The library is slow and broken."),
    ("Her new house is bright and lovely.", "Her new house is dark and ugly."),
    ("The holiday made us very happy.", "The holiday made us very sad."),
    ("This is the best book I have read.", "This is the worst book I have read."),
    ("The teacher was kind and patient.", "The teacher was cruel and rude."),
    ("I love how simple the program is.", "I hate how confusing the program is."),
    ("The method works well and is useful.", "The method fails often and is useless."),
    ("They were delighted with the result.", "They were disappointed with the result."),
    ("The food here is fresh and excellent.", "The food here is stale and terrible."),
    ("It was a pleasant walk in the sun.", "It was a miserable walk in the rain."),
    ("The answer is clear and correct.", "The answer is unclear and wrong."),
    ("The film was funny and clever.", "The film was boring and stupid."),
    ("He is a good friend to all of us.", "He is a bad friend to all of us."),
    ("The garden looks beautiful this year.", "The garden looks awful this year."),
    ("We had a perfect day at the sea.", "We had a horrible day at the sea."),
    ("The service was friendly and quick.", "The service was unfriendly and slow."),
    ("The update is a great improvement.", "The update is a serious mistake."),
    ("The machine is safe and easy to use.", "The machine is unsafe and hard to use."),
)
_NAMED = (
    ("Mary opened the door for her mother.", "John opened the door for his mother."),
    ("Anna finished her work before noon.", "Peter finished his work before noon."),
    ("Sarah said that she was tired.", "Thomas said that he was tired."),
    ("Emma gave her brother a book.", "James gave his brother a book."),
    ("Julia knows what she wants.", "Robert knows what he wants."),
    ("Laura sold her car last week.", "Michael sold his car last week."),
    ("Alice told me that she agreed.", "David told me that he agreed."),
    ("Helen wrote her name on the list.", "George wrote his name on the list."),
    ("Susan asked if she could help.", "Richard asked if he could help."),
    ("Lisa left her keys at home.", "Daniel left his keys at home."),
    ("Jane thinks that she is right.", "Paul thinks that he is right."),
    ("Clara showed her letter to us.", "Henry showed his letter to us."),
    ("Rose lost her way in the wood.", "Frank lost his way in the wood."),
    ("Nina hopes that she will win.", "Simon hopes that he will win."),
    ("Kate called her sister at night.", "Mark called his sister at night."),
    ("Eva forgot where she had been.", "Karl forgot where he had been."),
    ("Martha fed her horse first.", "Albert fed his horse first."),
    ("Diana wished that she were older.", "Victor wished that he were older."),
    ("Ruth painted her room in white.", "Oscar painted his room in white."),
    ("Olivia told us what she saw.", "William told us what he saw."),
)
_COUNTED = (
    ("The town has 950000 inhabitants.", "The town has 9 inhabitants."),
    ("The array holds 800000 values.", "The array holds 2 values."),
    ("It took 700 hours to finish.", "It took 1 hour to finish."),
    ("The price was 5000000 in all.", "The price was 5 in all."),
    ("The loop runs 100000 times.", "The loop runs 3 times."),
    ("There were thousands of birds.", "There were three birds."),
    ("The file is 900000 bytes long.", "The file is 4 bytes long."),
    ("He owns 4000 sheep and 900 cows.", "He owns 4 sheep and 2 cows."),
    ("The list has 250000 elements.", "The list has 2 elements."),
    ("Millions of people saw it.", "Two people saw it."),
    ("The tower is 900 metres high.", "The tower is 1 metre high."),
    ("The table has 60000 rows.", "The table has 6 rows."),
    ("She waited for 800 days.", "She waited for 2 days."),
    ("The limit is set to 1000000.", "The limit is set to 1."),
    ("We counted 75000 errors.", "We counted 0 errors."),
    ("The book has 9000 pages.", "The book has 7 pages."),
    ("They sent 300000 letters.", "They sent 3 letters."),
    ("The network has 70000 nodes.", "The network has 5 nodes."),
    ("Hundreds of thousands came.", "One or two came."),
    ("The buffer keeps 500000 items.", "The buffer keeps 1 item."),
)


@dataclass(frozen=True)
class Contrast:
    """``pairs`` of (plus, minus) sentences make the direction; the rest asks what it does.

    ``prompts`` are unfinished sentences, each asked with every (plus, minus) pair of ``answers``,
    which begin with the space that comes between.
    """

    name: str
    pairs: tuple[tuple[str, str], ...]
    prompts: tuple[str, ...]
    answers: tuple[tuple[str, str], ...]

    @property
    def plus(self) -> tuple[str, ...]:
        """The sentences of the first class."""
        return tuple(pair[0] for pair in self.pairs)

    @property
    def minus(self) -> tuple[str, ...]:
        """The sentences of the second class."""
        return tuple(pair[1] for pair in self.pairs)


CONTRASTS = (
    Contrast(
        "sentiment",
        _LIKED,
        (
            "The new version of the tool is",
            "I think that this idea is",
            "In the end the journey was",
            "Most users found the function",
            "The weather in spring is",
            "What they did for us was",
            "The quality of the picture is",
            "My opinion of the plan is that it is",
            "The second example looks",
            "Compared with the old one it is",
            "The food at the station was",
            "Working with this class is",
        ),
        ((" nice", " nasty"), (" better", " worse"), (" helpful", " harmful"), (" fine", " poor")),
    ),
    Contrast(
        "name",
        _NAMED,
        (
            "The doctor came in, and then",
            "When the writer was young,",
            "The visitor sat down because",
            "After the game the player said that",
            "The artist was pleased when",
            "The neighbour was late, so",
            "The child laughed because",
            "The user must wait until",
            "The owner of the shop said",
            "The author explains why",
            "Nobody knew what the guest wanted until",
            "The singer stopped, and",
        ),
        ((" she", " he"), (" her", " his"), (" herself", " himself"), (" the woman", " the man")),
    ),
    Contrast(
        "number size",
        _COUNTED,
        (
            "The number of words in it is",
            "In this village the number of houses is",
            "The size of the set is",
            "The total length is",
            "The counter now stands at",
            "The number of steps is set to",
            "The width of the river is",
            "The sum of all entries is",
            "The age of the tree in years is",
            "The value of the parameter is",
            "The maximum is",
            "We need a number of samples equal to",
        ),
        ((" 6000", " 6"), (" 20000", " 2"), (" large", " small"), (" huge", " tiny")),
    ),
)
