"""Kinds of task that joined :data:`helpers.kept_runs.KINDS` later.

The source of :mod:`helpers.kept_runs` is in every run's key, so a line there would train all of the
book's models anew.  A line here changes no key.  Worker processes find these kinds because the
function that they are given lives here.
"""

from __future__ import annotations

from helpers import fast, kept_runs
from helpers.kept_runs import KINDS, Kind
from helpers.neox import model as neox_model
from helpers.neox import text as neox_text
from helpers.neox import training as neox_training
from helpers.tasks import addition, chosen_modes, prose, signed_sum

KINDS["chosen modes"] = Kind(chosen_modes.from_spec, chosen_modes, addition, fast)
KINDS["signed sum"] = Kind(signed_sum.from_spec, signed_sum)
KINDS["prose"] = Kind(neox_training.from_spec, neox_training, neox_text, neox_model, prose)


def finish_in_worker(run: dict) -> dict:
    """:func:`helpers.kept_runs.finish_in_worker`, where the kinds of this module are known."""
    return kept_runs.finish_in_worker(run)
