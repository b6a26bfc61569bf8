"""Other ways to look at one model, each with what it would show by itself.

- ``weights``: norms, singular values and effective rank of each head's circuits; idle heads.
- ``polyhedral``: how many linear pieces of the MLPs the data visit.
- ``transcoder``: a sparse stand-in for an MLP.
"""

from helpers.lenses.polyhedral import (
    Growth,
    gaussian_like,
    growth,
    pattern_hashes,
    prefix_hashes,
)
from helpers.lenses.transcoder import (
    Transcoder,
    TranscoderScores,
    score_transcoder,
    train_transcoder,
)
from helpers.lenses.weights import (
    Circuit,
    Vestigial,
    circuit,
    effective_rank,
    head_circuits,
    vestigial_heads,
)

__all__ = [
    "Circuit",
    "Growth",
    "Transcoder",
    "TranscoderScores",
    "Vestigial",
    "circuit",
    "effective_rank",
    "gaussian_like",
    "growth",
    "head_circuits",
    "pattern_hashes",
    "prefix_hashes",
    "score_transcoder",
    "train_transcoder",
    "vestigial_heads",
]
