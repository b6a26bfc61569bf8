"""The corpus: prose out of planted files, nothing executed, and errors that name what differs."""

import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.tasks import prose
from helpers.tasks.prose import Corpus, CorpusError, Document, Part, Source, extract, sources

SENTENCE = "This function gives the mean of all rows that were read so far."
OTHER = "Where a row is empty, the mean of the rows before it is given in its place."
FILE = f'''
raise SystemExit("who runs this file?")
def f(x):
    """{SENTENCE}

    Parameters
    ----------
    x : array_like of shape (n, d), float32 or float64, C or Fortran order
        {OTHER}
        And a second line that belongs to it, with more plain words.

    >>> f(this is no prose at all but a session that is shown here)
    """
    return "A string that stands anywhere else in a file is no docstring at all."
'''


def plant(root, **files):
    """A package with these files, as the walk finds it."""
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path = path.with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def found(root, part="planted"):
    files = tuple(p.relative_to(root).as_posix() for p in sources._python_files(root))
    return Source(part, "1.0", root, files, "")


def test_docstrings_give_their_prose_and_nothing_is_executed():
    kept = prose.docstring_prose(FILE)
    assert kept == [
        SENTENCE,
        f"{OTHER} And a second line that belongs to it, with more plain words.",
    ]


@given(st.integers(0, 12))
def test_indentation_and_line_ends_do_not_matter(indent):
    text = f"{SENTENCE}\n{OTHER}\n"
    moved = textwrap.indent(text, " " * indent)
    assert list(extract.paragraphs(moved.replace("\n", "\r\n"))) == list(extract.paragraphs(text))


@pytest.mark.parametrize(
    "text",
    [
        "Too short to be prose.",
        "# a comment of many words is code that was put into a docstring",
        "x_1 = f(y_2) + g[z] * 3.5 and_so on_it goes -> for_ever | and ever",
        ">>> a prompt with many plain words after it is code as well",
    ],
)
def test_what_is_no_prose_is_left_out(text):
    assert not extract.is_prose(text) and extract.is_prose(SENTENCE)


def test_topics_are_read_as_literals():
    kept = prose.topic_prose(f"topics = {{'b': '{OTHER}', 'a': '{SENTENCE}'}}\n")
    assert kept == [("a", [SENTENCE]), ("b", [OTHER])]
    with pytest.raises(ValueError, match="assigns no dict"):
        prose.topic_prose("subjects = {}\n")


def test_order_is_fixed_tests_are_skipped_and_repeats_count_once(tmp_path):
    plant(tmp_path, b=FILE, a=FILE, tests__c=f'"""{OTHER}"""', z__a=f'"""{SENTENCE} {OTHER}"""')
    source = found(tmp_path)
    assert source.files == ("a.py", "b.py", "z/a.py")
    names = [name for name, _ in prose.read_part(source)]
    assert names == [f"{tmp_path.name}/a.py", f"{tmp_path.name}/z/a.py"]  # b repeats a


def test_the_split_is_by_document_and_a_paragraph_is_on_one_side_only():
    said = [(f"file{i}.py", [f"{SENTENCE} {i // 2}"]) for i in range(400)]
    corpus = prose.assemble([(Source("planted", "1", Path(), (), ""), said)])
    train = {d.text for d in corpus.train}
    held_out = {d.text for d in corpus.held_out}
    assert len(corpus.documents) == 200 and not train & held_out
    assert 15 <= len(held_out) <= 45  # 30 are expected, with a standard deviation of 5
    assert corpus.characters == sum(map(len, train | held_out))


def test_a_corpus_of_nothing_is_refused():
    with pytest.raises(CorpusError, match="no docstrings"):
        prose.assemble([(Source("planted", "1", Path(), (), ""), [])])


def corpus(version="2.0", sha256="b" * 64):
    return Corpus((Document("a", SENTENCE),), {"numpy": Part(version, sha256, 63)})


EXPECTED = {"parts": {"numpy": {"2.0": "b" * 64}}}


def test_the_expected_text_passes():
    prose.check_pinned(corpus(), EXPECTED)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (corpus("2.1"), "numpy 2.1 is installed; we know 2.0"),
        (corpus(sha256="c" * 64), "2.0 is the version we want, but .* cccccccccccc…, not bbbb"),
    ],
)
def test_another_text_is_refused_with_the_part_both_versions_and_what_to_do(other, said):
    with pytest.raises(CorpusError, match=f"(?s){said}.*requirements.lock.*expected=None"):
        prose.check_pinned(other, EXPECTED)


def test_every_pinned_part_is_the_lock_s_version(root):
    lines = (root / "requirements.lock").read_text(encoding="utf-8").splitlines()
    for part in prose.PARTS:
        versions = list(prose.pinned()["parts"][part])
        assert [f"{part}=={version}" for version in versions if f"{part}=={version}" in lines]


def test_an_unknown_part_is_refused():
    with pytest.raises(ValueError, match=r"no part 'pandas'.*numpy, scipy"):
        prose.find_source("pandas")


TEXTS = [f"{SENTENCE} {OTHER} Tëxt with signs: {i} ≤ {i + 1}.\nA new line." for i in range(50)]


def test_the_tokenizer_is_the_same_again_and_gives_every_text_back():
    one, two = (prose.train_tokenizer(TEXTS, 300) for _ in range(2))
    assert prose.tokenizer_sha256(one) == prose.tokenizer_sha256(two)
    unseen = "Ωmega \t and\n\n bytes it never saw: 日本 \x00"
    assert one.decode(one.encode(unseen).ids) == unseen
    assert one.get_vocab_size() == 300


def test_documents_are_ended_and_found_again():
    tokenizer = prose.train_tokenizer(TEXTS, 300)
    ids, starts = prose.encode(tokenizer, TEXTS[:3])
    for k, text in enumerate(TEXTS[:3]):
        row = ids[starts[k] : starts[k + 1]]
        assert tokenizer.decode(row[:-1].tolist()) == text
        assert row[-1] == tokenizer.token_to_id(prose.END) == 0 and (row[:-1] > 0).all()


@pytest.mark.parametrize(("d_vocab", "said"), [(200, "257 at least"), (9000, "more text")])
def test_a_vocabulary_that_cannot_be_is_refused(d_vocab, said):
    with pytest.raises(ValueError, match=said):
        prose.train_tokenizer(TEXTS[:2], d_vocab)
