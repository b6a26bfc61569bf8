"""Fast training steps: for tasks on two tokens, and for whole sequences without padding.

See :mod:`helpers.fast.last_position` and :mod:`helpers.fast.ragged`.
"""

from helpers.fast.last_position import LastPosition
from helpers.fast.learner import PairLearner

__all__ = ["LastPosition", "PairLearner"]
