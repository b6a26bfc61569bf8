"""What a chapter measures, judged and written down."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from helpers.ledger.card import Card
from helpers.ledger.checks import LedgerError, checked, plain, split, units
from helpers.ledger.claims import PROFILES, Claim, Claims
from helpers.ledger.provenance import commit, machine
from helpers.ledger.reading import default_root, load_claims
from helpers.ledger.verdict import judge, reference_parts

FORMAT = 1


class Ledger:
    """The record of one chapter's run.

    Where the environment variable `BOOK_RECORDS` names a folder, the record is written to
    `<chapter>.json` there, whole after every measurement. Without it the ledger lives in memory, so
    that a reader's own run works anywhere.

    Raises LedgerError for an unknown profile or chapter, or one that is not what the runner set.
    """

    def __init__(self, chapter: str, profile: str = "laptop", claims: Claims | None = None) -> None:
        self.claims = load_claims() if claims is None else claims
        if profile not in PROFILES:
            raise LedgerError(f"unknown profile {profile!r}: use one of {', '.join(PROFILES)}.")
        if chapter not in self.claims.chapters:
            known = ", ".join(self.claims.chapters)
            raise LedgerError(f"unknown chapter {chapter!r}: claims.yml knows {known}.")
        for name, value in (("BOOK_CHAPTER", chapter), ("BOOK_PROFILE", profile)):
            running = os.environ.get(name, value)
            if running != value:
                raise LedgerError(
                    f"the book runs with {name}={running}, but the notebook says {value!r}. "
                    "Take the value from the parameters cell."
                )
        self.chapter, self.profile = chapter, profile
        self._entries: dict[str, dict[str, Any]] = {}
        self._head = {
            "format": FORMAT,
            "chapter": chapter,
            "profile": profile,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "commit": commit(default_root()),
            "machine": machine(),
        }
        self._write()  # an empty record, so that none of an earlier run survives

    @property
    def document(self) -> dict[str, Any]:
        """The record so far, as it is written: plain JSON values."""
        return {**self._head, "entries": list(self._entries.values())}

    def record(
        self,
        claim_id: str,
        measured: Mapping[str, Any],
        *,
        n: Any,
        unit: str = "seeds",
        interval: Mapping[str, Any] | None = None,
        nulls: Mapping[str, Mapping[str, Any]] | None = None,
        controls: Mapping[str, Mapping[str, Any]] | None = None,
        note: str = "",
        caveat: str = "",
    ) -> Card:
        """Judge one measurement against its claim, write it down, and return its card.

        `measured` gives a number for every part of the claim's condition; `interval` the 95 %
        interval (low, high) of those parts that have one, over `n` independent `unit`. `nulls` and
        `controls` map a name to the same parts, measured on it: a number each, or (number, (low,
        high)). `caveat` says in words what limits the result; it can only weaken *reproduced*.

        Raises LedgerError where anything is unknown, missing, not finite or contradictory, and
        where a claim is recorded twice with different values.
        """
        claim = self._claim(claim_id)
        at = f"{self.chapter}, {claim_id}"
        values = checked(at, "measured", claim, self._names(claim), measured, interval or {})
        wanted = [part.name for part in reference_parts(claim, self.profile)]
        groups = [
            {
                name: checked(
                    at, who := f"{role} {name!r}", claim, wanted, *split(f"{at}: {who}", given)
                )
                for name, given in (group or {}).items()
            }
            for role, group in (("null", nulls), ("control", controls))
        ]
        n = units(at, n)
        if claim.needs_reference and not (groups[0] or groups[1]):
            asked = claim.null or claim.control
            raise LedgerError(
                f"{at}: record at least one null or control. claims.yml asks: {asked}."
            )
        sides = {"nulls": groups[0], "controls": groups[1]}
        try:
            judgement = judge(claim, values, n=n, profile=self.profile, caveat=caveat, **sides)
        except ValueError as error:
            raise LedgerError(f"{at}: {error}") from None
        entry = {
            "id": claim_id,
            "measured": {name: value.point for name, value in values.items()},
            "interval": {k: list(v.interval) for k, v in values.items() if v.interval},
            "n": n,
            "unit": unit,
            "nulls": {name: plain(group) for name, group in groups[0].items()},
            "controls": {name: plain(group) for name, group in groups[1].items()},
            "verdict": judgement.verdict,
            "parts": dict(judgement.parts),
            "reasons": list(judgement.reasons),
            "note": note,
            "caveat": caveat,
        }
        if self._entries.get(claim_id, entry) != entry:
            raise LedgerError(
                f"{at}: recorded before in this run, with other values. Record a claim once; "
                "start a new Ledger to run the chapter again."
            )
        self._entries[claim_id] = entry
        self._write()
        return Card(claim, self.profile, entry)

    def _claim(self, claim_id: str) -> Claim:
        claim = self.claims.by_id.get(claim_id)
        if claim is None:
            known = ", ".join(claim.id for claim in self.claims.of_chapter(self.chapter))
            raise LedgerError(f"no claim {claim_id!r} in claims.yml. This chapter has: {known}.")
        if claim.chapter != self.chapter:
            raise LedgerError(f"{claim_id} belongs to {claim.chapter}, not to {self.chapter}.")
        return claim

    def _names(self, claim: Claim) -> list[str]:
        return [part.name for part in claim.active_parts(self.profile)]

    def _write(self) -> None:
        folder = os.environ.get("BOOK_RECORDS")
        if not folder:
            return
        target = Path(folder) / f"{self.chapter}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{self.chapter}-{os.getpid()}.part")
        try:
            with partial.open("w", encoding="utf-8") as file:
                json.dump(self.document, file, indent=1, ensure_ascii=False, allow_nan=False)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
