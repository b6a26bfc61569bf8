r"""All rotations and scales of a symmetry at once, by gradient on the orthogonal group.

Permutations stay.  Rotations are orthogonal by PyTorch's Cayley parametrisation around where they
begin, :math:`X = X_0 (I - S/2)^{-1}(I + S/2)` with S skew, so determinants stay too; scales are
exponentials.  L-BFGS then minimises without constraints.

Source: McCann 2026, "Polymorphism Is Rotation" (arXiv:2605.24577): a Cayley refinement, by Adam.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.nn.utils.parametrizations import orthogonal

from helpers.alignment.haar import check_orthogonal
from helpers.dyck.model import OUTPUTS
from helpers.symmetry.closed_forms import Costs
from helpers.symmetry.group import Symmetry, apply
from helpers.symmetry.pull import NO_PULL, Pull
from helpers.symmetry.weights import FIELDS, Weights


class _Turn(nn.Module):
    """The moving part of a symmetry, beginning at g's."""

    def __init__(self, g: Symmetry) -> None:
        super().__init__()
        for name in ("R", "QK", "VO"):
            begin = torch.tensor(getattr(g, name))
            setattr(self, name, nn.Parameter(begin.clone()))
            orthogonal(self, name, orthogonal_map="cayley")
            setattr(self, name, begin)
        self.log_scales = nn.Parameter(torch.tensor(g.scales).log())

    def forward(self, W: dict[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        """Weights after it, and R; W has its heads and neurons in place.

        Each rotation is read, and so computed, once.  PyTorch's ``cached`` would do that too, but
        its cache is one for all threads, and alignments run side by side.
        """
        R, QK, VO, s = self.R, self.QK, self.VO, self.log_scales.exp()
        Rt = R.T
        moved = {
            "W_E": W["W_E"] @ R,
            "W_pos": W["W_pos"] @ R,
            "W_Q": Rt @ W["W_Q"] @ QK,
            "W_K": Rt @ W["W_K"] @ QK,
            "W_V": Rt @ W["W_V"] @ VO,
            "W_O": VO.mT @ W["W_O"] @ R,
            "W_in": Rt @ W["W_in"] * s[:, None, :],
            "W_out": W["W_out"] @ R / s[:, :, None],
            "W_U": Rt @ W["W_U"],
        }
        return moved, R


def refine(
    source: Weights,
    target: Weights,
    g: Symmetry,
    c: Costs,
    *,
    power: float = 1.0,
    steps: int = 100,
    pull: Pull = NO_PULL,
) -> Symmetry:
    r"""g with its rotations and scales moved to a minimum nearby; g itself if nothing is better.

    What is minimised is :math:`(\sum_t (c_t \|W^g_t - W'_t\|^2)^p)^{1/p}` plus the pull, with
    p = ``power``: 1 for the loss of the other steps, large (say 16) for the largest MSE alone.

    Args:
        steps: of L-BFGS, at most.

    Raises:
        ValueError: a power below 1, or A and B that are not orthogonal.
    """
    if not power >= 1 or steps < 1:
        raise ValueError(f"need power ≥ 1 and steps ≥ 1; got {power} and {steps}.")
    check_orthogonal(
        np.concatenate([inner.reshape(-1, *inner.shape[2:]) for inner in (g.QK, g.VO)])
    )
    begun = replace(Symmetry.identity(source), heads=g.heads, neurons=g.neurons)
    placed, wanted = (_tensors(weights) for weights in (apply(source, begun), target))
    cross, turn = torch.as_tensor(pull.cross), _Turn(g)
    first = parameters_to_vector(turn.parameters()).detach().numpy().copy()

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        """The value and its gradient."""
        vector_to_parameters(torch.tensor(flat), turn.parameters())
        moved, R = turn(placed)
        parts = _squares(moved, wanted, c)
        total = parts.sum() if power == 1 else torch.linalg.vector_norm(parts, power)
        total = total + pull.constant - 2 * (R * cross).sum()
        gradients = torch.autograd.grad(total, list(turn.parameters()))
        return total.item(), parameters_to_vector(gradients).numpy()

    options = {"maxiter": steps, "maxfun": 2 * steps, "ftol": 1e-10, "gtol": 1e-12, "maxcor": 20}
    found = minimize(objective, first, jac=True, method="L-BFGS-B", options=options)
    if not found.fun < objective(first)[0]:
        return g
    with torch.no_grad():
        vector_to_parameters(torch.tensor(found.x), turn.parameters())
        moved = {name: getattr(turn, name).numpy().copy() for name in ("R", "QK", "VO")}
        return replace(g, **moved, scales=turn.log_scales.exp().numpy())


def _tensors(weights: Weights) -> dict[str, Tensor]:
    return {name: torch.tensor(getattr(weights, name)) for name in FIELDS}


def _squares(moved: dict[str, Tensor], wanted: dict[str, Tensor], c: Costs) -> Tensor:
    """c_t ‖W_t − W′_t‖² of every tensor, (tensors,)."""
    parts = []
    for name in FIELDS:
        gap = (moved[name] - wanted[name]).square()
        if name == "W_U":
            parts += [c[f"W_U.{key}"] * gap[:, part].sum() for key, part in OUTPUTS.items()]
        elif name in ("W_E", "W_pos"):
            parts.append(c[name] * gap.sum())
        else:
            parts += [c[f"blocks.{i}.{name}"] * layer.sum() for i, layer in enumerate(gap)]
    return torch.stack(parts)
