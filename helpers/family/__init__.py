"""A family of language models: seeds of one recipe, each at several revisions, and their streams.

- ``family``: where the models live, ours, others' folders or the hub, by one pattern.
- ``ours``: the small family that is trained here, as ordinary folders.
- ``rows``: tokens of documents that it was not trained on, split by document.
- ``residual``: residual streams of every site on disk, in half precision.
"""

from helpers.family.family import Family
from helpers.family.ours import CONFIG, MODEL, NARROW, family_runs, open_family, save_family
from helpers.family.residual import Residual, residual_sites, residual_streams
from helpers.family.rows import Rows, split_documents, token_rows

__all__ = [
    "CONFIG",
    "MODEL",
    "NARROW",
    "Family",
    "Residual",
    "Rows",
    "family_runs",
    "open_family",
    "residual_sites",
    "residual_streams",
    "save_family",
    "split_documents",
    "token_rows",
]
