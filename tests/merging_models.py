"""Small models of the three kinds that are merged, with norms and biases that are not trivial."""

import numpy as np
import torch

from helpers.dyck import DyckTransformer
from helpers.merging import Exam, addition_exam, dyck_exam, next_token_exam
from helpers.models import ModelConfig, SmallTransformer
from helpers.tasks import dyck, markov
from helpers.tasks.addition import ModularAddition

CONFIGS = {
    "markov": ModelConfig(4, 8, n_layers=2, d_model=16, n_heads=4, d_mlp=20),
    "addition": ModelConfig(7, 2, d_model=16, n_heads=2, d_mlp=24),
    "dyck": ModelConfig(40, 64, n_layers=2, d_model=16, n_heads=4, d_mlp=20),
    "no norms": ModelConfig(7, 2, n_layers=2, d_model=12, n_heads=3, d_mlp=10, norm="none"),
}


def module(kind: str, seed: int = 100) -> torch.nn.Module:
    """An untrained model in float64, all of whose biases and gains differ."""
    config = CONFIGS[kind]
    net = DyckTransformer(config, seed) if kind == "dyck" else SmallTransformer(config, seed)
    net = net.double().eval()
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in net.named_parameters():
            if value.ndim == 1:
                value += 0.5 * torch.rand(value.shape, generator=draw, dtype=value.dtype)
                value += 0.1 * ("bias" in name)
            else:  # sharp enough that the line between two models has a barrier
                value *= 2
    if kind == "dyck":
        net.features = net.features.double()
    return net


def exam(kind: str, seed: int = 100, n: int = 24) -> Exam:
    """Rows of the task."""
    rng = np.random.default_rng(seed)
    if kind == "markov":
        return next_token_exam(markov.cyclic().sample(rng, n, 8))
    if kind == "dyck":
        return dyck_exam(dyck.train_rows(rng, n))
    return addition_exam(ModularAddition(7), np.arange(49))
