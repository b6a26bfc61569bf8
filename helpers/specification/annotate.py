r"""What a residual stream knows: features regressed on it, its principal directions on features.

Two questions at every site, each with a held-out R² (explained variance on sequences that no fit
has seen; a feature of several columns is pooled over them):

- *decoded*: least squares from the stream to a feature.  Can it be read off linearly?
- *directions*: least squares from a feature to the stream's coordinate along each principal
  direction.  What is this direction about?  R² of several features do not add up, since features
  are correlated; ``all`` takes them together.

The null is the same with the features' rows in random order.  A stronger one is an untrained model:
the token is decoded from any embedding, and position is written into it.

Source: McCann 2026 (small scale, the residual basis annotated by regression on task features).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from helpers.alignment.principal import principal_axes
from helpers.alignment.variance import explained_variance
from helpers.cross_model.activations import Hooked, collect, split_sequences
from helpers.specification.features import FEATURES, feature_columns
from helpers.tasks.dyck import label


@dataclass(frozen=True, eq=False)
class Annotation:
    """One site.  ``decoded`` and ``shuffled``: held-out R² by feature.

    ``directions`` (r, features + 1): held-out R² of each principal direction, largest variance
    first, on each feature and on all; ``share`` (r,): its part of the variance.
    """

    decoded: Mapping[str, float]
    shuffled: Mapping[str, float]
    directions: np.ndarray
    share: np.ndarray

    columns = (*FEATURES, "all")


def held_out(
    X: Float[np.ndarray, "n p"],
    Y: Float[np.ndarray, "n q"],
    X_new: Float[np.ndarray, "m p"],
) -> Float[np.ndarray, "m q"]:
    """Predictions for new rows of least squares with an intercept; of least norm if not unique."""
    mean_x, mean_y = X.mean(axis=0), Y.mean(axis=0)
    A = np.linalg.lstsq(X - mean_x, Y - mean_y, rcond=1e-6)[0]
    return (X_new - mean_x) @ A + mean_y


def annotate(
    hooked: Hooked,
    rows: Int[np.ndarray, "n pos"],
    sites: Sequence[str],
    generator: np.random.Generator,
    *,
    n_directions: int = 10,
) -> dict[str, Annotation]:
    """Both questions at every site, over the rows' real positions.

    Args:
        hooked: the model; folded gains and rotations change nothing at residual sites.
        rows: of the task; a feature must vary among them.
        sites: residual stream hook points.
        generator: splits the sequences and orders the null.
        n_directions: principal directions, at most.

    Raises:
        ValueError: a feature that is constant on one side of the split, and as
            :func:`helpers.cross_model.activations.collect`.
    """
    plan = split_sequences(generator, rows)
    parts = [rows[plan.fit], rows[plan.score]]
    F, F_new = (feature_columns(part) for part in parts)
    order, order_new = (generator.permutation(len(f["depth"])) for f in (F, F_new))
    names = [name for name in FEATURES if np.ptp(F_new[name], axis=0).max() == 0]
    if names:
        raise ValueError(f"{names[0]} is constant on these rows; take more, or other ones.")
    streams = [collect(hooked, part, sites, mask=label(part).mask) for part in parts]
    found = {}
    for site in sites:
        X, X_new = (stream[site].astype(np.float64) for stream in streams)
        axes, spread = principal_axes(X)
        axes = axes[:, spread > 1e-9 * spread[0]][:, :n_directions]
        P, P_new = ((x - X.mean(axis=0)) @ axes for x in (X, X_new))
        regressors = {**F, "all": np.concatenate(list(F.values()), axis=1)}
        fresh = {**F_new, "all": np.concatenate(list(F_new.values()), axis=1)}
        directions = np.stack(
            [_r2(P_new, held_out(f, P, fresh[name])) for name, f in regressors.items()], axis=1
        )
        found[site] = Annotation(
            decoded=_decode(X, F, X_new, F_new),
            shuffled=_decode(X, _ordered(F, order), X_new, _ordered(F_new, order_new)),
            directions=directions,
            share=spread[: axes.shape[1]] / spread.sum(),
        )
    return found


def _ordered(features: dict[str, np.ndarray], order: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[order] for name, values in features.items()}


def _decode(X: np.ndarray, F: dict, X_new: np.ndarray, F_new: dict) -> dict[str, float]:
    """R² of every feature, by one fit for all."""
    guess = held_out(X, np.concatenate(list(F.values()), axis=1), X_new)
    ends = np.cumsum([values.shape[1] for values in F.values()])[:-1]
    guesses = np.split(guess, ends, axis=1)
    return {n: explained_variance(F_new[n], g) for n, g in zip(F, guesses, strict=True)}


def _r2(Y: np.ndarray, guess: np.ndarray) -> np.ndarray:
    """By column."""
    return 1 - ((Y - guess) ** 2).sum(axis=0) / ((Y - Y.mean(axis=0)) ** 2).sum(axis=0)
