"""Two trained models, brought to one basis and merged: what the line between them costs.

- ``forms``: norms folded, so that the residual stream has no preferred basis; ``passes``: their
  forward pass.
- ``elements``, ``matching``: the symmetry group with biases, and its parts in closed form.
- ``alignments``: by weights, by activations, by cores alone, and at random.
- ``exams``, ``lines``: scores on held-out rows, along the line between two models; barriers.
- ``pairs``: all lines of a pair in one call.
- ``others``: stitched models and ensembles, to compare with.
"""

from helpers.merging.alignments import (
    alignments,
    by_activations,
    by_core,
    core_rotation,
    permutation,
    readout_core,
)
from helpers.merging.elements import transform
from helpers.merging.exams import (
    Exam,
    addition_exam,
    dyck_exam,
    next_token_exam,
    read_by_unembedding,
    score,
    streams,
)
from helpers.merging.forms import Form, fold
from helpers.merging.lines import ALPHAS, Line, barrier, blend, line, raw_blend, raw_line
from helpers.merging.matching import Matched, match
from helpers.merging.others import ensemble, stitched
from helpers.merging.pairs import pair_lines

__all__ = [
    "ALPHAS",
    "Exam",
    "Form",
    "Line",
    "Matched",
    "addition_exam",
    "alignments",
    "barrier",
    "blend",
    "by_activations",
    "by_core",
    "core_rotation",
    "dyck_exam",
    "ensemble",
    "fold",
    "line",
    "match",
    "next_token_exam",
    "pair_lines",
    "permutation",
    "raw_blend",
    "raw_line",
    "read_by_unembedding",
    "readout_core",
    "score",
    "stitched",
    "streams",
    "transform",
]
