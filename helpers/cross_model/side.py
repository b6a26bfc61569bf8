"""One model at one site, with its SAE: what all of its pairs have in common, computed once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from helpers.alignment.cka import unbiased_hsic
from helpers.alignment.principal import principal_axes
from helpers.cores import check_activations
from helpers.sae.model import SAE

AT_ONCE = 1024
"""Rows that an SAE takes at a time: their code stays in the processor's cache."""
FIRING_ROWS = 2**14
"""Rows that firing patterns are compared on, at most: codes of all rows would fill the memory."""


@dataclass(eq=False)
class Columns:
    """Mean, Σ(f − f̄)², least and largest value of a code's features, a few rows at a time.

    ``products`` are Σ z f with the rows of another code's ``pattern``, where one is given.
    """

    pattern: Tensor | None = None
    n: int = 0
    mean: Tensor | None = None

    def add(self, code: Float[Tensor, "rows d_sae"]) -> None:
        """Take more rows, by the update of Chan, Golub & LeVeque 1983: no large numbers cancel."""
        n, mean = len(code), code.mean(dim=0)
        off = code - mean
        spread, low, high = (off * off).sum(dim=0).double(), code.amin(dim=0), code.amax(dim=0)
        mean = mean.double()
        products = None
        if self.pattern is not None:
            products = (code * self.pattern[self.n : self.n + n]).sum(dim=0).double()
        if self.mean is None:
            self.mean, self.spread, self.low, self.high = mean, spread, low, high
            self.n, self.products = n, products
            return
        total, step = self.n + n, mean - self.mean
        self.spread += spread + step * step * (self.n * n / total)
        self.mean += step * (n / total)
        self.low, self.high = torch.minimum(self.low, low), torch.maximum(self.high, high)
        self.n = total
        if products is not None:
            self.products += products

    @property
    def constant(self) -> Bool[Tensor, " d_sae"]:
        """Features with one value on all rows."""
        return self.low == self.high

    @property
    def silent(self) -> Bool[Tensor, " d_sae"]:
        """Features that never fire; codes are not negative."""
        return self.high <= 0


@dataclass(frozen=True, eq=False)
class Side:
    """A model at a site, from :func:`prepare`.

    ``fit`` (n, d) and ``score`` (m, d) are its activations on two batches, in float64; maps are
    fitted on the first and scored on the second.  ``x`` is ``score`` in the SAE's precision,
    ``output`` its reconstruction, ``energy`` Σ‖x − x̄‖².  ``columns`` say how the SAE's features
    behave on the first ``FIRING_ROWS`` rows, ``pattern`` is their code there, with columns centred
    and of length 1.  ``axes`` are the principal axes of ``fit``, ``hsic`` is ``score``'s own.
    ``ev_self`` is the SAE's EV on ``score``; ``ev_gaussian`` that on as many Gaussian rows of
    the mean and covariance of ``score``.
    """

    fit: np.ndarray
    score: np.ndarray
    sae: SAE
    x: Tensor
    output: Tensor
    energy: float
    columns: Columns
    pattern: Tensor
    axes: np.ndarray
    hsic: float
    ev_self: float
    ev_gaussian: float

    @property
    def live(self) -> Bool[np.ndarray, " d_sae"]:
        """Which features fire on the model's own rows."""
        return (~self.columns.silent).cpu().numpy()


def prepare(
    fit: Float[np.ndarray, "n d"],
    score: Float[np.ndarray, "m d"],
    sae: SAE,
    generator: np.random.Generator,
) -> Side:
    """A model's side of its pairs at one site; ``generator`` draws the Gaussian rows.

    Raises:
        ValueError: bad activations, or ones that the SAE does not take.
    """
    fit, score = check_activations(fit), check_activations(score)
    if {fit.shape[1], score.shape[1]} != {sae.d_in}:
        raise ValueError(
            f"the SAE takes {sae.d_in} dimensions; got {fit.shape} to fit and {score.shape} to "
            "score. Give the activations of the SAE's own site."
        )
    x = as_tensor(score, sae)
    columns = Columns()
    output = run(sae, x, columns)
    axes, spread = principal_axes(score)
    draws = generator.standard_normal(score.shape) * np.sqrt(spread)
    gaussian = as_tensor(draws @ axes.T + score.mean(axis=0), sae)
    energy = energy_of(x)
    return Side(
        fit=fit,
        score=score,
        sae=sae,
        x=x,
        output=output,
        energy=energy,
        columns=columns,
        pattern=pattern_of(sae, x, columns),
        axes=principal_axes(fit)[0],
        hsic=unbiased_hsic(score, score),
        ev_self=1 - missed(x, output) / energy,
        ev_gaussian=1 - missed(gaussian, run(sae, gaussian)) / energy_of(gaussian),
    )


def as_tensor(X: Float[np.ndarray, "*shape"], sae: SAE) -> Float[Tensor, "*shape"]:
    """An array in the precision and on the device of an SAE."""
    return torch.as_tensor(X).to(sae.W_dec.device, sae.W_dec.dtype)


@torch.no_grad()
def run(sae: SAE, x: Float[Tensor, "m d"], columns: Columns | None = None) -> Float[Tensor, "m d"]:
    """Reconstructions; ``columns`` take the code of the first ``FIRING_ROWS`` rows."""
    outputs = []
    for start in range(0, len(x), AT_ONCE):
        code = sae.encode(x[start : start + AT_ONCE])
        outputs.append(sae.decode(code))
        if columns is not None and start < FIRING_ROWS:
            columns.add(code)
    return torch.cat(outputs)


@torch.no_grad()
def pattern_of(sae: SAE, x: Float[Tensor, "m d"], columns: Columns) -> Float[Tensor, "some d_sae"]:
    """The code with columns centred and of length 1; zeros for constant ones."""
    parts, mean = x[:FIRING_ROWS].split(AT_ONCE), columns.mean.to(x.dtype)
    scale = torch.where(columns.constant, 0, columns.spread.rsqrt()).to(x.dtype)
    return torch.cat([(sae.encode(rows) - mean) * scale for rows in parts])


def energy_of(x: Float[Tensor, "m d"]) -> float:
    """Σ‖x − x̄‖²."""
    return missed(x, x.mean(dim=0))


def missed(x: Float[Tensor, "m d"], prediction: Float[Tensor, "*rows d"]) -> float:
    """Σ‖x − x̂‖², for one prediction a row or one for all."""
    error = (x - prediction).flatten()
    return float(error @ error)
