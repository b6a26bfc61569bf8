r"""A transcoder: a sparse code of an MLP's input from which its output is written.

.. math:: f = \mathrm{topk}\bigl((x - b_{in})\, W_{enc} + b_{enc}\bigr), \qquad
          \hat y = f\, W_{dec} + b_{dec}

Only the target differs from a sparse autoencoder's: y is what the MLP writes for x.  Scored against
y on rows that it was not trained on, beside the best linear map from x to y.  An MLP that is nearly
linear on the data needs no features, and a transcoder that explains it has found none.

Source: Dunefsky, Chlenski & Nanda 2024 (arXiv:2406.11944); Gao et al. 2024 (top-k).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from helpers.alignment.variance import explained_variance
from helpers.cores import check_activations
from helpers.sae.model import check_k
from helpers.sae.training import SAEConfig, minibatches


@dataclass(frozen=True, eq=False)
class Transcoder:
    """W_enc (d_in, d_code), b_enc (d_code,), W_dec (d_code, d_out), b_dec (d_out,), b_in (d_in,).

    At most ``k`` features are active, those with the largest positive pre-activation.
    """

    W_enc: Tensor
    b_enc: Tensor
    W_dec: Tensor
    b_dec: Tensor
    b_in: Tensor
    k: int
    losses: np.ndarray

    def encode(self, x: Float[Tensor, "n d_in"]) -> Float[Tensor, "n d_code"]:
        """The code f."""
        pre = (x - self.b_in) @ self.W_enc + self.b_enc
        values, places = pre.topk(self.k, dim=-1, sorted=False)
        return torch.zeros_like(pre).scatter(-1, places, values.relu())

    @torch.no_grad()
    def predict(self, X: Float[np.ndarray, "n d_in"]) -> Float[np.ndarray, "n d_out"]:
        """What it holds for the MLP's output."""
        parts = torch.as_tensor(X, dtype=torch.float32).split(4096)
        return torch.cat([self.encode(x) @ self.W_dec + self.b_dec for x in parts]).numpy()


def train_transcoder(
    X: Float[np.ndarray, "n d_in"],
    Y: Float[np.ndarray, "n d_out"],
    config: SAEConfig,
    *,
    init_seed: int,
    data_seed: int,
) -> Transcoder:
    """Least squares by Adam on minibatches; rate and order of the rows as for an SAE.

    Both sides are scaled to mean length √d about their means while it trains.  The encoder starts
    with random unit columns; the decoder with zeros, which is the mean of Y.

    Args:
        X: the MLP's inputs.
        Y: what it writes for them, row for row.
        config: ``k`` must be set, ``d_code`` is ``expansion`` · d_in, and it runs on the CPU.
        init_seed: of the encoder.
        data_seed: of the rows' order.

    Raises:
        ValueError: bad activations, rows that do not match, no k or one above d_code.
        FloatingPointError: the loss is not finite.
    """
    if config.k is None or config.device != "cpu":
        raise ValueError("a transcoder has a top-k code, on the CPU: set k in the SAEConfig.")
    if len(X) != len(Y):
        raise ValueError(f"X and Y must be row for row; got {len(X)} and {len(Y)} rows.")
    d_code = config.expansion * X.shape[1]
    check_k(config.k, d_code)
    (x, b_in, scale_x), (y, b_out, scale_y) = _scaled(X), _scaled(Y)
    draw = torch.Generator().manual_seed(init_seed)
    W_enc = torch.randn(x.shape[1], d_code, generator=draw)
    W_enc /= W_enc.norm(dim=0)
    sizes = ((d_code,), (d_code, y.shape[1]), (y.shape[1],))
    weights = [W_enc, *(torch.zeros(size) for size in sizes)]
    for weight in weights:
        weight.requires_grad_(True)
    losses = _descend(weights, x, y, config, data_seed)
    W_enc, b_enc, W_dec, b_dec = (weight.detach() for weight in weights)
    return Transcoder(
        W_enc=W_enc * scale_x,
        b_enc=b_enc,
        W_dec=W_dec / scale_y,
        b_dec=b_dec / scale_y + b_out,
        b_in=b_in,
        k=config.k,
        losses=losses,
    )


def _scaled(X: np.ndarray) -> tuple[Tensor, Tensor, float]:
    """Centred rows of mean length √d, the mean, and the scale."""
    X = check_activations(X)
    mean = X.mean(axis=0)
    scale = math.sqrt(X.shape[1]) / np.linalg.norm(X - mean, axis=1).mean()
    return (
        torch.from_numpy((X - mean) * scale).float(),
        torch.from_numpy(mean).float(),
        float(scale),
    )


def _descend(
    weights: list[Tensor], x: Tensor, y: Tensor, config: SAEConfig, data_seed: int
) -> np.ndarray:
    """Squared error of a row, by step."""
    optimizer = torch.optim.Adam(weights, lr=config.lr, betas=config.betas, fused=True)
    W_enc, b_enc, W_dec, b_dec = weights
    rows, losses = minibatches(len(x), config.batch, data_seed), np.empty(config.steps)
    for step in range(config.steps):
        optimizer.param_groups[0]["lr"] = config.lr * min(
            1.0, (config.steps - step) / (config.decay * config.steps or 1)
        )
        some = next(rows)
        values, places = (x[some] @ W_enc + b_enc).topk(config.k, dim=1, sorted=False)
        code = torch.zeros(len(some), W_enc.shape[1]).scatter(1, places, values.relu())
        loss = (torch.addmm(b_dec, code, W_dec) - y[some]).square().sum(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses[step] = loss.item()
        if not np.isfinite(losses[step]):
            raise FloatingPointError(
                f"the loss is not finite at step {step} with lr = {config.lr}. Use a lower lr."
            )
    return losses


@dataclass(frozen=True)
class TranscoderScores:
    """Explained variance of the MLP's output: by the transcoder, by the best linear map.

    ``alive`` is the share of features that fire on these rows.
    """

    transcoder: float
    linear: float
    alive: float

    @property
    def beyond_linear(self) -> float:
        """Share of what the linear map misses that the transcoder finds; NaN if it misses none."""
        missed = 1 - self.linear
        return (self.transcoder - self.linear) / missed if missed > 1e-12 else float("nan")


def score_transcoder(
    transcoder: Transcoder,
    train: tuple[Float[np.ndarray, "n d_in"], Float[np.ndarray, "n d_out"]],
    test: tuple[Float[np.ndarray, "m d_in"], Float[np.ndarray, "m d_out"]],
) -> TranscoderScores:
    """Score on ``test`` (inputs, outputs); the linear map is fitted on ``train``.

    Raises:
        ValueError: bad activations.
    """
    (X, Y), (X_new, Y_new) = (
        (check_activations(a), check_activations(b)) for a, b in (train, test)
    )
    mean_x, mean_y = X.mean(axis=0), Y.mean(axis=0)
    A = np.linalg.lstsq(X - mean_x, Y - mean_y, rcond=1e-6)[0]
    with torch.no_grad():
        fires = [
            (transcoder.encode(x) > 0).any(dim=0)
            for x in torch.as_tensor(X_new, dtype=torch.float32).split(4096)
        ]
    return TranscoderScores(
        explained_variance(Y_new, transcoder.predict(X_new).astype(np.float64)),
        explained_variance(Y_new, (X_new - mean_x) @ A + mean_y),
        float(torch.stack(fires).any(dim=0).double().mean()),
    )
