"""Extraction and sweeps at the last position of a prompt, quick on any decoder.

Everything before the last token is run once and its keys and values kept; what is changed or
differentiated is the last token's residual stream, and only the wanted logits are made.
"""

from helpers.last_token.everywhere import full_extract, full_sweep
from helpers.last_token.extraction import Extraction, extract
from helpers.last_token.outputs import Outputs
from helpers.last_token.prefixes import Prefixes, prepare
from helpers.last_token.sweeps import Intervention, continue_from, edited, every_mode, sweep

__all__ = [
    "Extraction",
    "Intervention",
    "Outputs",
    "Prefixes",
    "continue_from",
    "edited",
    "every_mode",
    "extract",
    "full_extract",
    "full_sweep",
    "prepare",
    "sweep",
]
