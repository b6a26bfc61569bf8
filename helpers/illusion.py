r"""Does a direction work only through a dormant pathway?  The check for illusory subspaces.

An interchange along v reads vᵀ(h_s − h_b) and writes along v.  Makelov, Lange & Nanda show how it
can succeed where v is no variable of the model.  Their v is (v_disconnected + v_dormant)/√2:

- the *disconnected* part follows number, and nothing above looks at it;
- the *dormant* part never moves on real inputs, and what is above would obey it.

The one reads the number, the other writes it.  Alone, the first moves nothing that matters and the
second has nothing to read.  A true direction does both itself.

Definition used here.  Split v by an orthonormal ``span`` (D, r) into the part inside and the rest.
v is **illusory** (with respect to that span) when its interchange works (effect ≥ ``works``), and
neither part alone, scaled to length 1, has ``alone`` of that effect.

For a layer inside a component they split by the row space of the matrix that writes out of it.  A
residual stream has no such matrix.  Use what varies there (:func:`active_span`): the disconnected
part lies inside and the dormant part in the rest.  Or what the outputs can see
(:func:`seen_span`): then it is the other way round.  Both have a soft edge in a real model, so give
both, for more than one share.  The inside part of a one-dimensional span is the span itself and
says nothing about v: it is refused.

Source: Makelov, Lange & Nanda 2023, "Is this the subspace you are looking for? An interpretability
illusion for subspace activation patching" (arXiv:2311.17030), sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from helpers.axes import principal_axes, unit
from helpers.cores import rank_of

Effect = Callable[[np.ndarray, np.ndarray], float]
"""(read, write) to the effect of h_b + write · readᵀ(h_s − h_b): 0 none, 1 a whole swap."""


@dataclass(frozen=True)
class IllusionCheck:
    """Effects of the interchange along v, along its two parts alone, and by each part's writing.

    ``share_inside`` is ‖inside part‖²; ``written_inside`` and ``written_rest`` the effects where
    the whole v reads and one part (not rescaled) writes.  They add up to about ``whole``, and
    ``written_rest`` is what a dormant pathway does.  A part shorter than 1e-6 has effect 0.
    """

    whole: float
    inside: float
    rest: float
    share_inside: float
    written_inside: float
    written_rest: float
    works: float
    alone: float

    @property
    def illusory(self) -> bool:
        """The whole works, and neither part alone has ``alone`` of its effect."""
        limit = self.alone * self.whole
        return self.whole >= self.works and max(self.inside, self.rest) < limit


def active_span(H: Float[np.ndarray, "N D"], share: float = 0.99) -> Float[np.ndarray, "D r"]:
    """Leading principal directions that hold at least ``share`` of the variance: what is active."""
    variances, directions = principal_axes(H)
    return directions[:, : rank_of(variances, share)]


def seen_span(J: Float[np.ndarray, "N K D"], share: float = 0.99) -> Float[np.ndarray, "D r"]:
    """Leading eigenvectors of mean JᵀJ that hold ``share`` of its trace: what the outputs see."""
    rows = np.asarray(J, dtype=np.float64).reshape(-1, J.shape[-1])
    if not np.isfinite(rows).all() or not np.abs(rows).max() > 0:
        raise ValueError("the Jacobian is zero or not finite: these outputs see nothing here.")
    _, sigma, Vt = np.linalg.svd(rows, full_matrices=False)
    return Vt[: rank_of(sigma**2, share)].T


def split(
    v: Float[np.ndarray, " D"], span: Float[np.ndarray, "D r"]
) -> tuple[Float[np.ndarray, " D"], Float[np.ndarray, " D"]]:
    """The unit vector v as (part inside the span, rest); the two add up to v, at right angles.

    Raises:
        ValueError: a span that is not orthonormal, has one column, or is the whole space.
    """
    D, r = span.shape
    if not np.allclose(span.T @ span, np.eye(r), atol=1e-8):
        raise ValueError("the span's columns must be orthonormal: use np.linalg.qr(span)[0].")
    if not 2 <= r < D:
        raise ValueError(
            f"the span has {r} of {D} dimensions; with one, its part of v is the span itself, and "
            "with all there is no rest. Choose a rank in between."
        )
    v = unit(v)
    inside = span @ (span.T @ v)
    return inside, v - inside


def check_illusion(
    v: Float[np.ndarray, " D"],
    span: Float[np.ndarray, "D r"],
    effect: Effect,
    *,
    works: float = 0.5,
    alone: float = 0.5,
) -> IllusionCheck:
    """Measure v, its part inside ``span`` and the rest; see the module's text for the definition.

    Raises:
        ValueError: as :func:`split`.
    """
    inside, rest = split(v, span)
    v = unit(v)

    def by_itself(part: np.ndarray) -> float:
        if np.linalg.norm(part) < 1e-6:
            return 0.0
        return float(effect(unit(part), unit(part)))

    return IllusionCheck(
        whole=float(effect(v, v)),
        inside=by_itself(inside),
        rest=by_itself(rest),
        share_inside=float(inside @ inside),
        written_inside=float(effect(v, inside)),
        written_rest=float(effect(v, rest)),
        works=works,
        alone=alone,
    )
