"""A bar: what is measured, and the threshold it must clear.

Source: McCann 2026, "Polymorphism Is Rotation" (arXiv:2605.24577), the four bars.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

DIRECTIONS = ("<", ">")


@dataclass(frozen=True)
class Bar:
    """One bar.

    Args:
        name: short, such as ``"B"``.
        what: the quantity, in words.
        threshold: what its value is compared with.
        direction: ``"<"`` or ``">"``: how the value must lie to it.
        substantive: whether the bar can fail at all.  One that follows from how the specification
            was made is a theorem, and passing it is no evidence.
        null: in words, what would make a pass trivial and is measured beside it.

    Raises:
        ValueError: another direction, a threshold that is not finite, or an empty text.
    """

    name: str
    what: str
    threshold: float | int
    direction: str
    substantive: bool = True
    null: str = ""

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise ValueError(f"bar {self.name}: direction is '<' or '>', not {self.direction!r}.")
        if isinstance(self.threshold, bool) or not math.isfinite(self.threshold):
            raise ValueError(f"bar {self.name}: a threshold is a finite number: {self.threshold}.")
        if not (self.name.strip() and self.what.strip()):
            raise ValueError("a bar needs a name and words for what it measures.")
        object.__setattr__(self, "threshold", float(self.threshold))

    @property
    def condition(self) -> str:
        """The condition to read: ``< 0.0001``."""
        return f"{self.direction} {self.threshold:g}"

    def clears(self, value: float) -> bool:
        """Whether a value meets the condition; equality does not."""
        return value < self.threshold if self.direction == "<" else value > self.threshold


ACROSS = (
    Bar("B", "mean KL(spec ‖ model)", 1e-4, "<", null="decoy"),
    Bar("P", "largest MSE of a tensor, aligned", 1e-3, "<", null="zero; entries shuffled"),
    Bar("C", "r of single-component effects", 0.99, ">", null="components matched at random"),
    Bar("Pr", "r of cumulative ablation losses", 0.99, ">", null="components matched at random"),
)
"""The paper's four bars, of one model against a specification that was made from another one."""

WITHIN = tuple(bar if bar.name == "B" else replace(bar, substantive=False) for bar in ACROSS)
"""The same where the specification was made from the very model: only B can fail."""
