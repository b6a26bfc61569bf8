"""A small model of every kind that can be attributed, with its objective."""

import torch

from helpers import post_norm
from helpers.attribution import brackets, last_position, next_token
from helpers.models import ModelConfig, SmallTransformer, to_bridge
from tests.rotated_pair import rotated_pair

SIZES = {"n_layers": 2, "d_model": 16, "n_heads": 4, "d_mlp": 32}


def bracket_model():
    return rotated_pair().A, brackets(rotated_pair().tokens[:7])


def bridge():
    config = ModelConfig(6, 8, **SIZES)
    tokens = torch.randint(0, 6, (7, 8), generator=torch.Generator().manual_seed(100))
    state = SmallTransformer(config, 100).state_dict()
    return to_bridge(config, state).double(), next_token(tokens)


def hooked_post_norm():
    config = ModelConfig(6, 4, norm="post", **SIZES)
    g = torch.Generator().manual_seed(100)
    tokens, answers = (
        torch.randint(0, 6, (7, 4), generator=g),
        torch.randint(0, 6, (7,), generator=g),
    )
    state = SmallTransformer(config, 100).state_dict()
    return post_norm.to_hooked(config, state).double(), last_position(tokens, answers)


MODELS = {"site": bracket_model, "layer": bridge, "tokens": hooked_post_norm}
"""By where their runs can start; see helpers.attribution.replay."""
