"""A bracket model and its exact rotation: one function, two bases of the residual stream."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from scipy.stats import ortho_group

from helpers.dyck import SMALL, DyckTransformer, fold_norms, rotate, to_hooked
from helpers.sae import ReluSAE, random_dictionary
from helpers.tasks import dyck


@dataclass(frozen=True)
class Pair:
    """``B``'s stream is ``A``'s times ``R``; ``other`` is a model of other weights."""

    A: object
    B: object
    other: object
    R: np.ndarray
    tokens: np.ndarray
    labels: dyck.Labels


def shaken(seed):
    """Weights in double, with every parameter away from its start, so that no gain can hide."""
    model = DyckTransformer(SMALL, seed)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=draw)
    return {name: value.double() for name, value in model.state_dict().items()}


@lru_cache
def rotated_pair():
    R = ortho_group.rvs(64, random_state=100)
    state = fold_norms(shaken(100))
    tokens = dyck.train_rows(np.random.default_rng(100), 80)
    return Pair(
        to_hooked(state),
        to_hooked(rotate(state, torch.from_numpy(R))),
        to_hooked(fold_norms(shaken(101))),
        R,
        tokens,
        dyck.label(tokens),
    )


def random_sae(seed, d=64, d_sae=128, dtype=torch.float64):
    """Untrained, with codes that are neither silent nor always on."""
    W = torch.from_numpy(random_dictionary(np.random.default_rng(seed), d_sae, d)).to(dtype)
    return ReluSAE(W.T.contiguous() * 0.5, torch.full((d_sae,), -0.3).to(dtype), W, W[0] * 0)


def turned_sae(sae, R):
    """The same SAE for activations times R."""
    R = torch.from_numpy(R).to(sae.W_dec.dtype)
    return ReluSAE(R.T @ sae.W_enc, sae.b_enc, sae.W_dec @ R, sae.b_dec @ R)
