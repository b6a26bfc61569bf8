"""What a trained model reaches on the Markov chain: the numbers that chapter 1 asks for."""

from dataclasses import dataclass

import numpy as np
import torch

from helpers.cores import ace
from helpers.dynamics import fit_operator, match_eigenvalues, transitions
from helpers.interventions import project
from helpers.tasks.markov import Chain


@dataclass(frozen=True)
class Outcome:
    """Accuracies (0…1) on their own, with the core kept and removed; eigenvalues over the chain's.

    ``pair_re`` and ``pair_im`` belong to the complex pair, ``real`` to the third eigenvalue.
    """

    base: float
    keep: float
    remove: float
    pair_re: float
    pair_im: float
    real: float


def measure(hidden: torch.Tensor, head: torch.Tensor, tokens: np.ndarray, chain: Chain) -> Outcome:
    """Core at the head's input: fitted on the first half of the sequences, scored on the second.

    ``hidden`` (n, length, D) is what the head (K, D) reads for ``tokens`` (n, length).
    """
    H = hidden.detach().double().numpy()
    J = head.detach().double().numpy()
    J = J - J.mean(axis=0)  # centred logits
    half = len(H) // 2
    core = ace(H[:half].reshape(-1, H.shape[-1]), J, chain.d_vocab - 1)

    def accuracy(h: np.ndarray) -> float:
        return float(np.mean((h[:, :-1] @ J.T).argmax(-1) == tokens[half:, 1:]))

    def after(mode: str) -> float:
        return accuracy(project(H[half:], core.basis, core.mean, mode))

    operator = fit_operator(*transitions(core.coordinates(H[:half])))
    wanted = chain.eigenvalues[1:]
    pair, _, real = match_eigenvalues(operator.eigenvalues, wanted)
    return Outcome(
        base=accuracy(H[half:]),
        keep=after("keep"),
        remove=after("remove"),
        pair_re=float(pair.real / wanted[0].real),
        pair_im=float(pair.imag / wanted[0].imag),
        real=float(real.real / wanted[2].real),
    )


def reached(outcomes: list[Outcome]) -> dict[str, bool]:
    """Which of the chapter's conditions hold, as means over models."""

    def mean(values) -> float:
        return float(np.mean(list(values)))

    return {
        "|keep − base| ≤ 0.002": abs(mean(o.keep - o.base for o in outcomes)) <= 0.002,
        "remove ≤ 0.27": mean(o.remove for o in outcomes) <= 0.27,
        "pair within 2 %": all(
            abs(mean(getattr(o, part) for o in outcomes) - 1) <= 0.02
            for part in ("pair_re", "pair_im")
        ),
        "real within 10 %": abs(mean(o.real for o in outcomes) - 1) <= 0.10,
    }
