"""The bracket model: lean to train, hooked to look inside, and its exact symmetries."""

from helpers.dyck.model import (
    SMALL,
    DyckTransformer,
    position_features,
    position_frame,
    to_hooked,
)
from helpers.dyck.symmetry import fold_norms, rotate

__all__ = [
    "SMALL",
    "DyckTransformer",
    "fold_norms",
    "position_features",
    "position_frame",
    "rotate",
    "to_hooked",
]
