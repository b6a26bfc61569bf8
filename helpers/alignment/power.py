"""Size and power of the Haar tests: how often each rejects what is Haar, and what is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

from helpers.alignment.alternatives import ALTERNATIVES, Alternative
from helpers.alignment.haar_tests import CLAIMED, STATISTICS, haar_p_values, need_draws

HOLM = "Holm"


@dataclass(frozen=True)
class PowerTable:
    """``rejected`` (alternatives, tests + 1): how many of ``n`` draws a test rejects at ``level``.

    The last column, "Holm", is the procedure of ``combined`` tests over ``sites`` sites.
    """

    alternatives: tuple[str, ...]
    tests: tuple[str, ...]
    rejected: np.ndarray
    n: int
    level: float
    combined: tuple[str, ...]
    sites: int

    def power(self, alternative: str, test: str = HOLM) -> float:
        """Share of the draws of ``alternative`` that ``test`` rejects.

        Raises:
            ValueError: an alternative or a test that is not in the table.
        """
        return self._count(alternative, test) / self.n

    def interval(
        self, alternative: str, test: str = HOLM, level: float = 0.95
    ) -> tuple[float, float]:
        """Clopper–Pearson interval of that share, over independent draws.

        Raises:
            ValueError: as :meth:`power`.
        """
        found = binomtest(self._count(alternative, test), self.n).proportion_ci(level)
        return float(found.low), float(found.high)

    def _count(self, alternative: str, test: str) -> int:
        if alternative not in self.alternatives or test not in self.tests:
            raise ValueError(
                f"no entry ({alternative!r}, {test!r}): the alternatives are {self.alternatives}, "
                f"the tests {self.tests}."
            )
        row, column = self.alternatives.index(alternative), self.tests.index(test)
        return int(self.rejected[row, column])


def power_table(
    d: int,
    alternatives: Mapping[str, Alternative] = ALTERNATIVES,
    *,
    generator: np.random.Generator,
    n: int = 200,
    tests: Sequence[str] = STATISTICS,
    combined: Sequence[str] = CLAIMED,
    sites: int = 1,
    level: float = 0.05,
    draws: int = 1999,
    seed: int = 0,
) -> PowerTable:
    """How often each test rejects ``n`` draws of each alternative, and Holm's procedure with them.

    Args:
        d: width.
        alternatives: functions (generator, d) → R, by name.
        generator: draws the alternatives.
        n: draws of each.
        tests: single tests to list, each at ``level`` on its own.
        combined: the tests of the procedure.
        sites: sites it is corrected for. A site counts as rejected when its smallest p is at most
            level / (sites · tests), Holm's first step: the case in which all other sites are Haar.
        level: of each test, and of the procedure.
        draws: Haar draws of each null.
        seed: of the nulls, which should not be the generator's.

    Raises:
        ValueError: no alternative, n below 1, unknown tests, or too few draws for the correction.
    """
    if not alternatives or n < 1 or sites < 1:
        raise ValueError(
            f"need an alternative, n ≥ 1 and sites ≥ 1; got {len(alternatives)}, {n}, {sites}."
        )
    need_draws(sites * len(combined), level, draws)
    threshold = level / (sites * len(combined))
    rejected = np.empty((len(alternatives), len(tests) + 1), dtype=int)
    for row, draw in zip(rejected, alternatives.values(), strict=True):
        stack = np.stack([draw(generator, d) for _ in range(n)])
        p = haar_p_values(stack, (*tests, *combined), draws=draws, seed=seed)
        row[:-1] = np.sum(p[:, : len(tests)] <= level, axis=0)
        row[-1] = np.sum(p[:, len(tests) :].min(axis=1) <= threshold)
    return PowerTable(
        tuple(alternatives), (*tests, HOLM), rejected, n, level, tuple(combined), sites
    )
