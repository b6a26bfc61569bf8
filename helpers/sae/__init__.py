"""Sparse autoencoders: trained many at once, compared between models, written for SAELens.

Source: McCann 2026, "Polymorphism Is Rotation" (arXiv:2605.24577), and the doubts about it that the
nulls here are for.
"""

from helpers.sae.activity import Activity, activity
from helpers.sae.dictionaries import (
    expected_max_cosine,
    like_dictionary,
    random_dictionary,
    shuffled_coordinates,
)
from helpers.sae.firing import Firing, firing_correlation
from helpers.sae.matching import Match, cosines, match_one_to_one, match_rows
from helpers.sae.model import SAE, ReluSAE, TopKSAE, encoded, reconstructed
from helpers.sae.planted import Planted, planted_activations
from helpers.sae.saelens import from_saelens, load_saelens, save_saelens, to_saelens
from helpers.sae.training import SAEConfig, TrainedSAE, train_saes
from helpers.sae.transfer import Scored, Transfer, transfer

__all__ = [
    "SAE",
    "Activity",
    "Firing",
    "Match",
    "Planted",
    "ReluSAE",
    "SAEConfig",
    "Scored",
    "TopKSAE",
    "TrainedSAE",
    "Transfer",
    "activity",
    "cosines",
    "encoded",
    "expected_max_cosine",
    "firing_correlation",
    "from_saelens",
    "like_dictionary",
    "load_saelens",
    "match_one_to_one",
    "match_rows",
    "planted_activations",
    "random_dictionary",
    "reconstructed",
    "save_saelens",
    "shuffled_coordinates",
    "to_saelens",
    "train_saes",
    "transfer",
]
