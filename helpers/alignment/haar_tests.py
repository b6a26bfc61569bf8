r"""Is a fitted rotation a Haar draw? Tests of known size, by Monte Carlo.

========== =============================================== =====================================
statistic  formula                                         it looks for
========== =============================================== =====================================
T_8, T_32  Σ_{k≤K} (Tr Rᵏ − [k even])² / k                 pinned directions, hidden blocks
sum_R4     Σ_ij R_ij⁴, 3d/(d + 2) for Haar                 favoured coordinates
kuiper     V of the eigenangles                            uneven eigenangles
trace      Tr R, of mean 0 and variance 1                  closeness to the identity
frobenius  ‖R − I‖_F = √(2d − 2 Tr R)                      the same: it is a function of Tr R
========== =============================================== =====================================

Each is compared with Haar draws of the same d and the same determinant (``helpers.alignment.haar``
says why).  All but sum_R4 see only eigenvalues, and none of them changes when one change of basis
acts on both models; sum_R4 depends on the coordinates.

None of them can tell that R is *shared structure*: the rotation between unrelated models passes as
well.  That is what ``helpers.alignment.split_half`` is for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from helpers.alignment.haar import check_orthogonal, haar
from helpers.alignment.holm import holm
from helpers.alignment.spectrum import cosines, kuiper, power_traces, trace_statistic
from helpers.cache import cached

CLAIMED = ("T_8", "T_32", "sum_R4")
# Two-sided: a value may be too small as well. Eigenangles more even than Haar's (a cyclic shift)
# make T_K and V small; entries of one size (a Hadamard matrix) make Σ R⁴ small.
STATISTICS = (*CLAIMED, "kuiper", "trace", "frobenius")
ENTRIES_AT_ONCE = 2**22  # 32 MB of matrices
QUICK = 128  # up to this d a table takes seconds, and is not kept on disk


def haar_statistics(R: Float[np.ndarray, "n d d"]) -> dict[str, Float[np.ndarray, " n"]]:
    """All statistics of n orthogonal matrices, by name, each (n,).

    Raises:
        ValueError: a matrix that is not orthogonal, or a single one.
    """
    if np.ndim(R) != 3 or not len(R):
        raise ValueError(f"need a stack (n, d, d); got shape {np.shape(R)}. One matrix is R[None].")
    # a part at a time: hundreds of wide matrices and their squares would fill the memory
    step = max(1, ENTRIES_AT_ONCE // R.shape[-1] ** 2)
    parts = [_statistics(check_orthogonal(R[i : i + step])) for i in range(0, len(R), step)]
    return {name: np.concatenate([part[name] for part in parts]) for name in STATISTICS}


def _statistics(R: np.ndarray) -> dict[str, np.ndarray]:
    d = R.shape[-1]
    cos = cosines(R)
    traces = power_traces(cos, 32)
    squares = R * R
    trace = np.trace(R, axis1=-2, axis2=-1)
    return {
        "T_8": trace_statistic(traces[..., :8]),
        "T_32": trace_statistic(traces),
        "sum_R4": np.einsum("nij,nij->n", squares, squares),
        "kuiper": kuiper(cos),
        "trace": trace,
        "frobenius": np.sqrt(np.clip(2 * d - 2 * trace, 0, None)),
    }


def _draw(d: int, group: str, n: int, seed: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    step = max(1, ENTRIES_AT_ONCE // d**2)
    parts = [
        _statistics(haar(generator, d, min(step, n - start), group)) for start in range(0, n, step)
    ]
    return {name: np.sort(np.concatenate([part[name] for part in parts])) for name in STATISTICS}


@cached(uses=("helpers.alignment.haar", "helpers.alignment.spectrum"), packages=("numpy", "scipy"))
def _kept(d: int, group: str, n: int, seed: int) -> dict:
    return _draw(d, group, n, seed)


@lru_cache(maxsize=32)
def null_table(d: int, group: str, n: int = 1999, seed: int = 0) -> dict[str, np.ndarray]:
    """Every statistic of ``n`` Haar draws, sorted, by name; drawn once a process.

    ``group`` is ``"SO"``, ``"O-"`` or ``"O"``.  For d above 128 the table is kept on disk too.

    Raises:
        ValueError: as :func:`helpers.alignment.haar.haar`.
    """
    table = _draw(d, group, n, seed) if d <= QUICK else _kept(d, group, n, seed)
    for values in table.values():
        values.setflags(write=False)  # every caller gets the same arrays
    return table


def haar_p_values(
    R: Float[np.ndarray, "n d d"],
    tests: Sequence[str] = STATISTICS,
    *,
    draws: int = 1999,
    seed: int = 0,
) -> Float[np.ndarray, "n tests"]:
    """Two-sided p-values of n matrices, against Haar draws of each one's own determinant.

    p = 2 min(1 + #{draws ≥ value}, 1 + #{draws ≤ value}) / (1 + draws), at most 1: under Haar a
    p below α comes in a share α of cases, whatever the statistic's distribution.

    Args:
        R: n orthogonal matrices.
        tests: names out of ``STATISTICS``.
        draws: Haar draws of each null.
        seed: of the nulls.

    Raises:
        ValueError: a matrix that is not orthogonal, or an unknown test.
    """
    unknown = [name for name in tests if name not in STATISTICS]
    if unknown or not len(tests):
        raise ValueError(f"tests must be some of {STATISTICS}; got {tuple(tests)}.")
    values = haar_statistics(R)
    halves = np.where(np.linalg.slogdet(R)[0] > 0, "SO", "O-")
    p = np.empty((len(R), len(tests)))
    for half in np.unique(halves):
        rows = halves == half
        table = null_table(R.shape[-1], str(half), draws, seed)
        for column, name in enumerate(tests):
            at_most = np.searchsorted(table[name], values[name][rows], side="right")
            at_least = draws - np.searchsorted(table[name], values[name][rows], side="left")
            p[rows, column] = 2 * (1 + np.minimum(at_most, at_least)) / (1 + draws)
    return np.minimum(p, 1)


@dataclass(frozen=True)
class HaarReport:
    """Tests of a pair of models: ``values``, ``p``, Holm's ``adjusted`` p, each (sites, tests)."""

    sites: tuple[str, ...]
    tests: tuple[str, ...]
    values: np.ndarray
    p: np.ndarray
    adjusted: np.ndarray
    level: float

    @property
    def rejected(self) -> tuple[str, ...]:
        """The sites at which at least one test rejects after the correction."""
        return tuple(
            site
            for site, row in zip(self.sites, self.adjusted, strict=True)
            if (row <= self.level).any()
        )


def haar_tests(
    rotations: Mapping[str, Float[np.ndarray, "d d"]],
    tests: Sequence[str] = CLAIMED,
    *,
    level: float = 0.05,
    draws: int = 1999,
    seed: int = 0,
) -> HaarReport:
    """Test the rotations of all sites of a pair of models, with Holm's correction over everything.

    Args:
        rotations: an orthogonal matrix a site, all of one width.
        tests: as for :func:`haar_p_values`.
        level: chance of any rejection where all are Haar.
        draws: Haar draws of the nulls.
        seed: of the nulls.

    Raises:
        ValueError: no site, widths that differ, a matrix that is not orthogonal, an unknown test,
            or so few draws that no p could be small enough to reject.
    """
    need_draws(len(rotations) * len(tests), level, draws)
    widths = {site: np.shape(R) for site, R in rotations.items()}
    if len(set(widths.values())) != 1:
        raise ValueError(f"the sites of one report must have one width; got {widths}.")
    stack = np.stack(list(rotations.values()))
    p = haar_p_values(stack, tests, draws=draws, seed=seed)
    values = haar_statistics(stack)
    return HaarReport(
        tuple(rotations),
        tuple(tests),
        np.column_stack([values[name] for name in tests]),
        p,
        holm(p),
        level,
    )


def need_draws(comparisons: int, level: float, draws: int) -> None:
    """Refuse a correction under which the smallest p-value there can be would not reject.

    Raises:
        ValueError: no comparison, a level outside (0, 1), or too few draws.
    """
    if comparisons < 1 or not 0 < level < 1:
        raise ValueError(
            f"need a test, a site and a level in (0, 1); got {comparisons} comparisons, {level}."
        )
    needed = int(np.ceil(2 * comparisons / level)) - 1
    if draws < needed:
        raise ValueError(
            f"with {comparisons} comparisons and {draws} draws nothing can be rejected at {level}: "
            f"give at least {needed} draws."
        )
