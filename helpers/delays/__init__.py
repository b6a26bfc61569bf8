"""The delay τ between memorising and grokking: how it scales, and which law it follows.

All fits are to log τ, by maximum likelihood for log-normal delays. Runs that ended before they
grokked count as "longer than this". One seed appears at every setting, so its runs are not
independent of each other: intervals resample whole seeds.

Source: Schiffman 2026 (the inverse scaling law): τ ∝ 1/ω and τ(p) = −Ω log(1 − p_crit/p).
"""

from helpers.delays.censored import CensoredFit, fit_censored
from helpers.delays.exponents import Exponent, Fall, exponent, paired_fall
from helpers.delays.law import Law, compare_laws

__all__ = [
    "CensoredFit",
    "Exponent",
    "Fall",
    "Law",
    "compare_laws",
    "exponent",
    "fit_censored",
    "paired_fall",
]
