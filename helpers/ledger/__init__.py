"""The ledger: what each paper claims, fixed beforehand; what we measured; the verdict.

ledger = Ledger(chapter="01_markov_cores", profile=profile)
ledger.record("markov.keep", measured={...}, interval={...}, n=8, nulls={...})
"""

from helpers.ledger.card import Card
from helpers.ledger.checks import LedgerError
from helpers.ledger.claims import Claim, Claims, ClaimsError, Part
from helpers.ledger.reading import load_claims, parse_claims
from helpers.ledger.record import Ledger
from helpers.ledger.report import RecordError, Review, compare, read_records, review, rows, table

__all__ = [
    "Card",
    "Claim",
    "Claims",
    "ClaimsError",
    "Ledger",
    "LedgerError",
    "Part",
    "RecordError",
    "Review",
    "compare",
    "load_claims",
    "parse_claims",
    "read_records",
    "review",
    "rows",
    "table",
]
