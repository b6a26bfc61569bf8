r"""Bar B: how far a model's answers are from the specification's.

.. math:: B = \frac{1}{K N} \sum_{k=1}^{K} \sum_{n=1}^{N}
          \mathrm{KL}\bigl(p_k(\cdot \mid n) \,\|\, q_k(\cdot \mid n)\bigr),

in nats, over K outputs and N positions; p is the specification, q the model.  Where the
specification is an algorithm with one right answer, p is one-hot and B the model's cross-entropy.
Rows come in blocks and only sums are kept, so that the number of positions is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from helpers import stats

Answers = Mapping[str, Tensor | np.ndarray] | Tensor
ONE = {"next token": slice(None)}
AT_ONCE = 256
"""Sequences in one forward pass."""


@dataclass(frozen=True, eq=False)
class Behaviour:
    """KL by distribution of rows, block and output; blocks are the independent units.

    ``sums`` (blocks, K): Σ KL over a block's positions, by distribution.  ``counts`` (blocks,): how
    many positions.  ``worst``: the largest KL at one position, by distribution.
    """

    outputs: tuple[str, ...]
    sums: Mapping[str, Float[np.ndarray, "blocks k"]]
    counts: Mapping[str, Int[np.ndarray, " blocks"]]
    worst: Mapping[str, float]

    @property
    def positions(self) -> int:
        """How many there were."""
        return int(sum(counts.sum() for counts in self.counts.values()))

    @property
    def value(self) -> float:
        """B over all positions of all distributions."""
        return float(sum(s.sum() for s in self.sums.values()) / self.positions / len(self.outputs))

    @property
    def table(self) -> dict[str, dict[str, float]]:
        """Mean KL by distribution and output; ``mean`` is over the outputs."""
        found = {}
        for name, sums in self.sums.items():
            means = sums.sum(axis=0) / self.counts[name].sum()
            found[name] = {**dict(zip(self.outputs, means.tolist(), strict=True))}
            found[name]["mean"] = float(means.mean())
        return found

    def interval(
        self, generator: np.random.Generator, distribution: str | None = None
    ) -> tuple[float, float]:
        """The 95 % interval of one distribution's mean, resampling blocks.

        Raises:
            ValueError: no such distribution, several and none named, or fewer than two blocks.
        """
        if distribution is None and len(self.sums) == 1:
            distribution = next(iter(self.sums))
        if distribution not in self.sums:
            raise ValueError(
                f"name one of the distributions {', '.join(self.sums)}; got {distribution!r}."
            )
        sums, counts = self.sums[distribution].mean(axis=1), self.counts[distribution]

        def of(blocks: np.ndarray) -> float:
            chosen = blocks.astype(np.int64)
            return float(sums[chosen].sum() / counts[chosen].sum())

        return stats.interval(np.arange(len(sums)), of, generator=generator, resamples=1999)


@torch.no_grad()
def behavioural(
    spec: Callable[..., Answers],
    model: Callable[[Tensor], Tensor],
    distributions: Mapping[str, Iterable[Int[np.ndarray, "_ _"]]],
    *,
    outputs: Mapping[str, slice] = ONE,
    asked: Callable[[np.ndarray], Bool[np.ndarray, "_ _"]] | None = None,
) -> Behaviour:
    """Bar B over blocks of rows.

    Args:
        spec: from rows (n, pos), an array, to the answers of every output: whole numbers (n, pos),
            one right answer each, or logits (n, pos, classes).  Or a model, as below.
        model: from tokens (n, pos) to logits (n, pos, v); any bridge or module.
        distributions: blocks of rows by name; a generator that draws them keeps memory small.
        outputs: each output's part of the logits.
        asked: which positions count; all if None.

    Raises:
        ValueError: answers that do not fit the model's logits, NaN or infinity in these, or no
            position at all.
    """
    sums: dict[str, list[np.ndarray]] = {name: [] for name in distributions}
    counts: dict[str, list[int]] = {name: [] for name in distributions}
    worst = dict.fromkeys(distributions, 0.0)

    def answer(rows: np.ndarray) -> Answers:
        return spec(torch.from_numpy(rows) if isinstance(spec, torch.nn.Module) else rows)

    for name, blocks in distributions.items():
        for rows in blocks:
            mask = np.ones(rows.shape, dtype=bool) if asked is None else asked(rows)
            total, n = np.zeros(len(outputs)), int(mask.sum())
            for start in range(0, len(rows), AT_ONCE):
                part = slice(start, start + AT_ONCE)
                kl = _kl(
                    answer(rows[part]), model(torch.from_numpy(rows[part])), outputs, mask[part]
                )
                total += kl.sum(axis=0)
                worst[name] = max(worst[name], float(kl.max(initial=0.0)))
            if n:
                sums[name].append(total)
                counts[name].append(n)
    empty = [name for name, found in counts.items() if not found]
    if empty or not counts:
        raise ValueError(f"no position is asked in {empty or 'any distribution'}: give other rows.")
    return Behaviour(
        tuple(outputs),
        {name: np.stack(found) for name, found in sums.items()},
        {name: np.array(found) for name, found in counts.items()},
        worst,
    )


def _kl(
    answers: Answers, logits: Tensor, outputs: Mapping[str, slice], mask: np.ndarray
) -> Float[np.ndarray, "positions k"]:
    """KL(spec ‖ model) at the positions of the mask, by output."""
    chosen = torch.from_numpy(mask).to(logits.device)
    q = logits[chosen].double()
    if not torch.isfinite(q).all():
        raise ValueError("the model's logits hold NaN or infinity; did training diverge?")
    found = []
    for name, part in outputs.items():
        log_q = q[:, part].log_softmax(dim=1)
        p = answers[..., part] if isinstance(answers, Tensor) else torch.as_tensor(answers[name])
        if p.shape[:2] != chosen.shape or (p.ndim == 3 and p.shape[2] != log_q.shape[1]):
            raise ValueError(
                f"the specification's {name!r} is {tuple(p.shape)} and does not fit logits "
                f"{(*chosen.shape, log_q.shape[1])}: give answers (n, pos), or logits of that "
                "shape."
            )
        p = p.to(logits.device)[chosen]
        if p.ndim == 1:
            found.append(-log_q.gather(1, p.long()[:, None])[:, 0])
            continue
        log_p = p.double().log_softmax(dim=1)
        terms = log_p.exp() * (log_p - log_q)
        found.append(torch.where(log_p.exp() > 0, terms, 0.0).sum(dim=1))
    return torch.stack(found, dim=1).cpu().numpy()
