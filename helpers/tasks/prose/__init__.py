"""English technical prose that the book's own packages carry: docstrings, read and never run.

- ``extract``: the prose paragraphs of source files.
- ``sources``: which files, and where they lie.
- ``corpus``: documents, a split by document, hashes, and what is said when they differ.
- ``bpe``: a byte-level BPE tokenizer trained on the training part.
"""

from helpers.tasks.prose.bpe import END, encode, tokenizer_sha256, train_tokenizer
from helpers.tasks.prose.corpus import (
    Corpus,
    CorpusError,
    Document,
    Part,
    assemble,
    check_pinned,
    pinned,
)
from helpers.tasks.prose.extract import docstring_prose, topic_prose
from helpers.tasks.prose.sources import PARTS, Source, find_source, read_part

__all__ = [
    "END",
    "PARTS",
    "Corpus",
    "CorpusError",
    "Document",
    "Part",
    "Source",
    "assemble",
    "check_pinned",
    "docstring_prose",
    "encode",
    "find_source",
    "pinned",
    "read_part",
    "tokenizer_sha256",
    "topic_prose",
    "train_tokenizer",
]
