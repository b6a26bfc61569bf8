"""The book's one trainer: what to learn and how, one loop, and how a run is left and taken up.

A seed fixes everything that is random in a run: the initial weights, the data and their order,
dropout.  :mod:`helpers.runs` trains many, side by side, and keeps the results.
"""

from helpers.training.autograd import AutogradLearner
from helpers.training.config import TrainConfig
from helpers.training.loop import Trained, train
from helpers.training.next_token import NextToken, Sequences, next_token_loss
from helpers.training.protocols import Learner, Position, Stream, Task

__all__ = [
    "AutogradLearner",
    "Learner",
    "NextToken",
    "Position",
    "Sequences",
    "Stream",
    "Task",
    "TrainConfig",
    "Trained",
    "next_token_loss",
    "train",
]
