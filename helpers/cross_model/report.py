"""One report for one site and an ordered pair of models: A's SAE, B's activations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from helpers.alignment.baselines import identity_map
from helpers.alignment.cka import unbiased_hsic
from helpers.alignment.haar_tests import CLAIMED, haar_p_values
from helpers.alignment.maps import Alignment
from helpers.alignment.split_half import SplitHalf, split_half
from helpers.cross_model.maps import pair_maps
from helpers.cross_model.scores import (
    Carried,
    Cosines,
    decoder_cosines,
    firing,
    naive,
    one_sae_on_another,
)
from helpers.cross_model.side import Columns, Side
from helpers.sae.dictionaries import like_dictionary
from helpers.sae.firing import Firing
from helpers.stitching import Outputs

FIRING = ("raw", "rotation", "haar")
"""Under which maps firing is compared."""
EVERY = {"principal_axes": 4, "shuffled": 4}
"""These nulls are far off, and scored on every fourth row: an SAE's pass is most of the time."""


@dataclass(frozen=True, eq=False)
class CrossModel:
    """What :func:`cross_model_report` finds; the maps' names are those of ``maps``.

    Args:
        to_A: the fitted rotation from B's activations to A's.
        ev_self: A's SAE on A.
        ev_naive: A's SAE on B's raw activations.
        ev_gaussian: A's SAE on Gaussian rows of A's mean and covariance.
        ev: the other scores of :mod:`helpers.sae.transfer`, by map.
        decoder: both decoders ``raw`` and after the ``rotation``; and the nulls: a random rotation
            (``haar``), and random rows with the mean and covariance of B's decoder in its place,
            ``random`` as they are and ``random_rotated`` after the rotation.
        firing: of A's SAE on A and on B: ``raw``, after the ``rotation``, and after ``haar``.
        frobenius: ‖R − I‖_F.
        trace: Tr R.
        split: do two halves of the rows to fit on give one R?
        p: two-sided Haar p-values by statistic, uncorrected; for a correction over sites give the
            R's to :func:`helpers.alignment.haar_tests.haar_tests`.
        cka: debiased linear CKA of the rows to score on.
        stitching: losses of A's first layers and B's last, by map: ``identity`` and the names of
            ``maps``; empty where no ``stitch`` was given.
    """

    to_A: Alignment
    ev_self: float
    ev_naive: float
    ev_gaussian: float
    ev: Mapping[str, Carried]
    decoder: Mapping[str, Cosines]
    firing: Mapping[str, Firing]
    frobenius: float
    trace: float
    split: SplitHalf
    p: Mapping[str, float]
    cka: float
    stitching: Mapping[str, Outputs]

    def row(self) -> dict[str, float]:
        """Every number by a flat name, such as ``ev.rotation.true``: one row of a table."""
        row = {name: getattr(self, name) for name in ("frobenius", "trace", "cka")}
        row |= {"ev.self": self.ev_self, "ev.naive": self.ev_naive, "ev.gaussian": self.ev_gaussian}
        row |= {"split.active": self.split.active, "split.everywhere": self.split.everywhere}
        row |= {"split.rank": float(self.split.rank)}
        for head, table in (("ev", self.ev), ("decoder", self.decoder)):
            row |= {f"{head}.{n}.{f}": v for n, x in table.items() for f, v in x._asdict().items()}
        for name, found in self.firing.items():
            row[f"firing.{name}.mean"] = found.mean
            row[f"firing.{name}.silent_zero"] = found.mean_silent_zero
        row |= {f"p.{name}": value for name, value in self.p.items()}
        for name, outputs in self.stitching.items():
            for measure in ("loss", "accuracy"):
                values = getattr(outputs, measure).items()
                row |= {f"stitching.{name}.{measure}.{out}": value for out, value in values}
        return row


def cross_model_report(
    A: Side,
    B: Side,
    generator: np.random.Generator,
    *,
    groups: Int[np.ndarray, " n"] | None = None,
    nulls: bool = True,
    draws: int = 1999,
    stitch: Callable[[Alignment], Outputs] | None = None,
) -> CrossModel:
    """Compare two models at one site.

    Fitted on the sides' ``fit`` rows: all maps, the split halves.  Scored on their ``score`` rows:
    EV, firing, CKA.  Decoder rows count if they fire on their own model's ``score`` rows.  For
    (B, A) call it again: the SAE is A's.

    Args:
        A: the model whose SAE it is, see :func:`helpers.cross_model.side.prepare`.
        B: the model whose activations are fed into it, on the same tokens.
        generator: draws the nulls, and what the data leave open of R.
        groups: the sequence of each ``fit`` row, so that no sequence lies in both halves.
        nulls: False leaves out everything but the rotation, and half of the time.
        draws: Haar draws behind the p-values, made once a process and width.
        stitch: loss of a map from A's activations to B's, see :class:`helpers.stitching.Stitch`.

    Raises:
        ValueError: sides that do not fit each other, or an SAE without a live feature.
    """
    maps = pair_maps(A, B, generator, nulls=nulls)
    to_A = maps["rotation"].to_A
    codes = {name: Columns(A.pattern) for name in ("raw", *maps) if name in FIRING}
    ev_naive = naive(A, B, codes["raw"])
    ev = {
        name: one_sae_on_another(A, B, to, codes.get(name), every=EVERY.get(name, 1))
        for name, to in maps.items()
    }
    decoder = {"raw": decoder_cosines(A, B), "rotation": decoder_cosines(A, B, turn=to_A)}
    if nulls:
        random = like_dictionary(generator, B.sae.decoder)
        decoder["haar"] = decoder_cosines(A, B, turn=maps["haar"].to_A)
        decoder["random"] = decoder_cosines(A, B, random)
        decoder["random_rotated"] = decoder_cosines(A, B, random, to_A)
    stitching = {}
    if stitch is not None:
        stitching["identity"] = stitch(identity_map(A.fit, B.fit))
        stitching |= {name: stitch(there.to_B) for name, there in maps.items()}
    p = haar_p_values(to_A.R[None], CLAIMED, draws=draws)[0]
    return CrossModel(
        to_A=to_A,
        ev_self=A.ev_self,
        ev_naive=ev_naive,
        ev_gaussian=A.ev_gaussian,
        ev=ev,
        decoder=decoder,
        firing={name: firing(A, columns) for name, columns in codes.items()},
        frobenius=float(np.linalg.norm(to_A.R - np.eye(len(to_A.R)))),
        trace=float(np.trace(to_A.R)),
        split=split_half(B.fit, A.fit, generator, groups=groups),
        p={name: float(value) for name, value in zip(CLAIMED, p, strict=True)},
        cka=unbiased_hsic(A.score, B.score) / float(np.sqrt(A.hsic * B.hsic)),
        stitching=stitching,
    )
