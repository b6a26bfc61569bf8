"""The four-bar framework: thresholds that are fixed before anyone looks.

- ``bar``: one bar, and the paper's four, within one model and across two.
- ``behavioural`` (B), ``parametric`` (P), ``causal`` (C and Pr): the four measurements, of any
  bridge or hooked model.
- ``evidence``, ``registration``: what was opened when, and thresholds hashed before that.
- ``verdicts``: values under registered thresholds, and which of them could not fail.

>>> evidence = Evidence()                                                   # doctest: +SKIP
>>> registration = register(ACROSS, path, spec="seed 0", evidence=evidence) # doctest: +SKIP
>>> state = evidence.open("seed 1", state)                                  # doctest: +SKIP
>>> evaluate(ACROSS, {"B": Measured(2e-5), …}, registration, evidence)      # doctest: +SKIP

Source: McCann 2026, "Polymorphism Is Rotation" (arXiv:2605.24577), and the doubts about it.
"""

from helpers.bars.bar import ACROSS, WITHIN, Bar
from helpers.bars.behavioural import Behaviour, behavioural
from helpers.bars.causal import Causal, causal, predictive, random_match, same_function
from helpers.bars.evidence import Evidence, Opened, digest
from helpers.bars.parametric import Parametric, parametric, shuffled, zeros
from helpers.bars.registration import Registration, RegistrationError, load, register
from helpers.bars.verdicts import Measured, Verdict, Verdicts, evaluate

__all__ = [
    "ACROSS",
    "WITHIN",
    "Bar",
    "Behaviour",
    "Causal",
    "Evidence",
    "Measured",
    "Opened",
    "Parametric",
    "Registration",
    "RegistrationError",
    "Verdict",
    "Verdicts",
    "behavioural",
    "causal",
    "digest",
    "evaluate",
    "load",
    "parametric",
    "predictive",
    "random_match",
    "register",
    "same_function",
    "shuffled",
    "zeros",
]
