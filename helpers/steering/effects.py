"""What a dose of a vector does to the three outputs, where it is added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from helpers.cross_model.activations import streams
from helpers.dyck.model import OUTPUTS
from helpers.steering.directions import SITE, check_push
from helpers.tasks.dyck import CLOSERS, MAX_DEPTH, label

if TYPE_CHECKING:
    from helpers.dyck.hooked import HookedDyck

MEASURES = (
    "p_deeper",
    "expected_depth",
    "p_invalid",
    "p_closer",
    "logit_deeper",
    "logit_invalid",
    "logit_closer",
)
AT_ONCE = 256
"""Sequences in one forward pass."""


@dataclass(frozen=True, eq=False)
class Steered:
    """Effects by dose; ``doses`` (m,), dose 1 being the vector itself.

    ``shift``: steered minus clean mean (m,) of each of ``MEASURES``: P(true depth + 1), where it is
    at most 8 (NaN if that is nowhere); the mean of the depth output; P(invalid); P(the copy output
    is a closing bracket); and the mean log-odds, in nats, of these three events.  A probability
    that starts near 0 cannot fall, its log-odds can.  ``kl``: mean KL(clean ‖ steered) in nats
    (m,), and ``accuracy`` (m,), by output.
    """

    doses: np.ndarray
    shift: Mapping[str, np.ndarray]
    kl: Mapping[str, np.ndarray]
    accuracy: Mapping[str, np.ndarray]


def log_odds(
    log_p: Float[Tensor, "n answers"], event: Bool[Tensor, "n answers"]
) -> Float[Tensor, " n"]:
    r"""log P(event) − log(1 − P(event)) of each row, from sums over both sides.

    1 − P would be 0 in floating point where the event is all but certain.
    """
    inside, outside = (log_p.masked_fill(~side, -torch.inf) for side in (event, ~event))
    return inside.logsumexp(dim=1) - outside.logsumexp(dim=1)


class Steerer:
    """A model that is steered at ``site`` at chosen positions; the part before it runs once.

    Effects are read at those positions.  Behind the last attention no position sees another one,
    and these positions alone are computed.

    Args:
        hooked: the bracket model.
        tokens: rows of :mod:`helpers.tasks.dyck`.
        positions: where the vector is added, real positions only.
        site: a residual stream site, one of ``hooked.sites``.

    Raises:
        ValueError: positions of another shape, none, padding among them, or an unknown site.
    """

    def __init__(
        self,
        hooked: HookedDyck,
        tokens: Int[np.ndarray, "n pos"],
        positions: Bool[np.ndarray, "n pos"],
        *,
        site: str = SITE,
    ) -> None:
        labels = label(tokens)
        if positions.shape != tokens.shape or not positions.any():
            raise ValueError(
                f"positions must have the tokens' shape {tokens.shape} and at least one true; got "
                f"{positions.shape} with {int(positions.sum())} true."
            )
        if (positions & ~labels.mask).any():
            raise ValueError("padding has no right answer: leave it out of positions.")
        if site not in hooked.sites:
            raise ValueError(f"no site {site!r}; there are {', '.join(hooked.sites)}.")
        self.hooked, self.site = hooked, site
        self.chosen = torch.from_numpy(positions)
        self.stream = streams(hooked, tokens, [site])[site]
        last = f"blocks.{hooked.config.n_layers - 1}."
        if site.startswith("ln_final") or (site.startswith(last) and "resid_pre" not in site):
            # a sequence of one token for each position
            self.stream = self.stream[self.chosen][:, None]
            self.chosen = torch.ones(len(self.stream), 1, dtype=torch.bool)
        self.answers = {
            name: torch.from_numpy(getattr(labels, name)[positions]).long() for name in OUTPUTS
        }
        self.clean = self._log_probabilities(None)
        self.start = self._measures(self.clean)

    def __call__(self, direction: Float[np.ndarray, " d_model"], doses: Sequence[float]) -> Steered:
        """Add dose × direction, for each dose.

        Raises:
            ValueError: a direction of another width, NaN or infinity, or no dose.
        """
        check_push(direction, doses, self.stream.shape[-1])
        vector = torch.as_tensor(direction).to(self.stream)
        rows = [self._compare(self._log_probabilities(vector * float(dose))) for dose in doses]
        shift, kl, accuracy = (
            {name: np.array([row[i][name] for row in rows]) for name in rows[0][i]}
            for i in range(3)
        )
        return Steered(np.asarray(doses, dtype=np.float64), shift, kl, accuracy)

    @torch.no_grad()
    def _log_probabilities(self, added: Tensor | None) -> dict[str, Tensor]:
        """Of each output at the chosen positions, (positions, answers) in float64."""
        logits = []
        for x, here in zip(self.stream.split(AT_ONCE), self.chosen.split(AT_ONCE), strict=True):
            x = x if added is None else x + here[:, :, None] * added
            logits.append(self.hooked(start_at=self.site, resid=x)[here])
        found = torch.cat(logits).double()
        return {name: found[:, part].log_softmax(dim=1) for name, part in OUTPUTS.items()}

    def _measures(self, log_p: dict[str, Tensor]) -> dict[str, float]:
        depth = self.answers["depth"]
        can_rise = depth < MAX_DEPTH
        p_depth = log_p["depth"].exp()
        deeper = p_depth[can_rise].gather(1, depth[can_rise, None] + 1)
        is_deeper = torch.zeros_like(log_p["depth"][can_rise], dtype=torch.bool)
        is_deeper.scatter_(1, depth[can_rise, None] + 1, True)
        is_closer = torch.zeros_like(log_p["copy"], dtype=torch.bool)
        is_closer[:, torch.from_numpy(CLOSERS)] = True
        values = (
            deeper,
            p_depth @ torch.arange(MAX_DEPTH + 1, dtype=p_depth.dtype),
            log_p["sticky"][:, 1].exp(),
            log_p["copy"][:, torch.from_numpy(CLOSERS)].exp().sum(dim=1),
            log_odds(log_p["depth"][can_rise], is_deeper),
            log_p["sticky"][:, 1] - log_p["sticky"][:, 0],
            log_odds(log_p["copy"], is_closer),
        )
        return {name: float(v.mean()) for name, v in zip(MEASURES, values, strict=True)}

    def _compare(self, log_p: dict[str, Tensor]) -> tuple[dict[str, float], ...]:
        """Shift, KL and accuracy."""
        now = self._measures(log_p)
        kl, accuracy = {}, {}
        for name, clean in self.clean.items():
            kl[name] = float((clean.exp() * (clean - log_p[name])).sum(dim=1).mean())
            right = log_p[name].argmax(dim=1) == self.answers[name]
            accuracy[name] = float(right.double().mean())
        return {name: now[name] - self.start[name] for name in MEASURES}, kl, accuracy
