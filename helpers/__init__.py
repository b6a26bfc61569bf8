"""The thin helper package behind *The Invariant Transformer*.

Import the module that holds the idea you need, for example ``from helpers import cores``. This
file imports nothing, so that ``import helpers`` is instant.
"""

__version__ = "0.1.0"
