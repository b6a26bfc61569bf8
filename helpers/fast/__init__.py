"""A fast training step for tasks on two tokens; see :mod:`helpers.fast.last_position`."""

from helpers.fast.last_position import LastPosition
from helpers.fast.learner import PairLearner

__all__ = ["LastPosition", "PairLearner"]
