r"""One model's steering vector in another model, and how far it gets there.

With v the source's vector, R a map from the source's residual stream to the target's, and u the
target's own vector: *native* adds u, *raw* adds v as it is, *rotated* adds v R, *random* adds v H
with H a Haar draw.  v H is a uniform direction of v's length, so "a random direction of equal norm"
and "a random rotation" are one null.

Under a Haar R the overlap v R vᵀ / ‖v‖² is 0 ± 1/√d: a raw vector then has nothing to do with the
right one, which would make it do nothing, and not the opposite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from helpers.alignment.haar import haar
from helpers.alignment.maps import Alignment
from helpers.steering.directions import NAMES
from helpers.steering.effects import MEASURES, Steered, Steerer

TARGETS = {"depth": "p_deeper", "sticky": "p_invalid", "closer": "p_closer"}
"""What each direction is meant to raise."""
LOG_ODDS = {"depth": "logit_deeper", "sticky": "logit_invalid", "closer": "logit_closer"}
"""The same in log-odds, which can fall where a probability is near 0."""
FLOOR = 0.01
"""A native effect below this is too small to divide by."""


@dataclass(frozen=True)
class HalfDose:
    """The ``dose`` of half the native maximum, NaN with a ``reason`` where there is none."""

    dose: float
    reason: str = ""


@dataclass(frozen=True, eq=False)
class TransferCurves:
    """Effects in the target of several vectors, by dose.

    ``curves`` hold ``native``, ``raw`` and one for each map; ``random`` one for each draw.
    ``vectors`` are those of ``curves``.  ``overlap`` is v R vᵀ / ‖v‖² by map, ``cosine`` that of
    each vector with the native one.  ``measure`` is the effect that is compared.
    """

    curves: Mapping[str, Steered]
    random: tuple[Steered, ...]
    vectors: Mapping[str, np.ndarray]
    overlap: Mapping[str, float]
    cosine: Mapping[str, float]
    measure: str

    @property
    def doses(self) -> np.ndarray:
        """The doses of all curves."""
        return self.curves["native"].doses

    def effect(self, name: str) -> np.ndarray:
        """The shift of ``measure`` by dose (m,); for ``"random"`` one row a draw (draws, m)."""
        if name == "random":
            return np.stack([drawn.shift[self.measure] for drawn in self.random])
        return self.curves[name].shift[self.measure]

    def difference(self, name: str) -> np.ndarray:
        """Effect minus the native one."""
        return self.effect(name) - self.effect("native")

    def ratio(self, name: str, *, floor: float = FLOOR) -> np.ndarray:
        """Effect over the native one, NaN where that is below ``floor`` in size."""
        native = self.effect("native")
        small = np.abs(native) < floor
        return np.where(small, np.nan, self.effect(name) / np.where(small, 1, native))

    def half_dose(self, name: str, *, floor: float = FLOOR) -> HalfDose:
        """Smallest dose ≥ 0 at which a curve reaches half of the native maximum.

        Between doses the effect is taken as linear, and at dose 0 it is 0.

        Raises:
            ValueError: ``"random"``, which is several curves.
        """
        if name == "random":
            raise ValueError("random is several curves, whose effects are in effect('random').")
        order = np.argsort(self.doses)
        order = order[self.doses[order] > 0]
        doses = np.concatenate([[0.0], self.doses[order]])
        native, curve = (
            np.concatenate([[0.0], self.effect(which)[order]]) for which in ("native", name)
        )
        half = native.max() / 2
        if not native.max() >= floor:
            return HalfDose(np.nan, f"the native effect is at most {native.max():.3g}")
        if curve.max() < half:
            return HalfDose(np.nan, f"the effect is at most {curve.max():.3g}, half is {half:.3g}")
        i = int(np.argmax(curve >= half))  # not 0: there the curve is 0 and half is above
        share = (half - curve[i - 1]) / (curve[i] - curve[i - 1])
        return HalfDose(float(doses[i - 1] + share * (doses[i] - doses[i - 1])))


def overlap(v: Float[np.ndarray, " d"], R: Float[np.ndarray, "d d"]) -> float:
    """v R vᵀ / ‖v‖²: the part of v that R leaves in place; 0 ± 1/√d for Haar R."""
    return float(v @ R @ v / (v @ v))


def transfer_curves(
    target: Steerer,
    name: str,
    *,
    source: Float[np.ndarray, " d"],
    native: Float[np.ndarray, " d"],
    maps: Mapping[str, Alignment],
    doses: Sequence[float],
    generator: np.random.Generator,
    draws: int = 4,
    measure: str | None = None,
) -> TransferCurves:
    """Steer the target with its own vector, with the source's raw and mapped, and at random.

    Take the vectors from one batch of rows, the target's from another.

    Args:
        target: the model that is steered, at the ``places`` of this direction.
        name: ``depth``, ``sticky`` or ``closer``.
        source: the source model's vector.
        native: the target's own.
        maps: from source to target, by name: the rotation, and nulls such as
            :func:`helpers.alignment.baselines.principal_axes_map`.
        doses: multiples of a vector; 1 is the difference of means.
        generator: draws the random directions.
        draws: how many.
        measure: one of ``MEASURES``; by default what the direction is meant to raise.

    Raises:
        ValueError: unknown names, a map named as another curve, no draw, or a vector of zeros.
    """
    if name not in NAMES or (measure or TARGETS[name]) not in MEASURES:
        raise ValueError(f"directions are {NAMES}, measures {MEASURES}; got {name!r}, {measure!r}.")
    taken = {"native", "raw", "random"} & set(maps)
    if taken or draws < 1:
        raise ValueError(
            f"a map cannot be called {taken.pop()!r}." if taken else f"draws ≥ 1; got {draws}."
        )
    if not (source.any() and native.any()):
        raise ValueError("a vector of zeros steers nothing. Look at the rows it came from.")
    source, native = source.astype(np.float64), native.astype(np.float64)
    vectors = {"native": native, "raw": source}
    vectors |= {key: to_target.direction(source) for key, to_target in maps.items()}
    turned = source @ haar(generator, len(source), draws)
    unit = native / np.linalg.norm(native)
    return TransferCurves(
        curves={key: target(v, doses) for key, v in vectors.items()},
        random=tuple(target(v, doses) for v in turned),
        vectors=vectors,
        overlap={key: overlap(source, to_target.R) for key, to_target in maps.items()},
        cosine={key: float(v @ unit / np.linalg.norm(v)) for key, v in vectors.items()},
        measure=measure or TARGETS[name],
    )
