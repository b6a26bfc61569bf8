"""All records beside all claims: the ledger's table, and the comparison with what was expected."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.ledger.claims import Claim, Claims
from helpers.ledger.reading import load_claims
from helpers.ledger.record import FORMAT

NOT_RUN = "not run"
# the fields of an entry that anything here or on the ledger's page reads
ENTRY = dict.fromkeys(("id", "unit", "verdict", "note"), str)
ENTRY |= dict.fromkeys(("measured", "interval", "nulls", "controls", "parts"), dict)
ENTRY |= {"n": int, "reasons": list}


class RecordError(ValueError):
    """A record file that cannot be read. The message names it and what to do."""


@dataclass(frozen=True)
class Review:
    """What differs from the expectation, and what differs in a permitted way."""

    mismatches: list[str]
    notes: list[str]


def read_records(folder: Path | str) -> list[dict[str, Any]]:
    """Every `*.json` record in `folder`, by name; an empty list where the folder is missing.

    Raises RecordError for a file that is not a whole record.
    """
    records = []
    for path in sorted(Path(folder).glob("[!.]*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            whole = record["format"] == FORMAT and isinstance(record["entries"], list)
            whole = whole and {"chapter", "profile", "date", "commit", "machine"} <= set(record)
            whole = whole and all(map(_whole_entry, record["entries"]))
        except (ValueError, KeyError, TypeError):
            whole = False
        if not whole:
            raise RecordError(f"{path} is not a whole record: delete it and run its chapter again.")
        records.append(record)
    return records


def _whole_entry(entry: Any) -> bool:
    return all(isinstance(entry[name], kind) for name, kind in ENTRY.items())


def compare(
    records: Iterable[Mapping[str, Any]] | Path | str, claims: Claims, profile: str
) -> list[str]:
    """One message for every verdict that is not the expected one; empty where all is well."""
    return review(records, claims, profile).mismatches


def review(
    records: Iterable[Mapping[str, Any]] | Path | str, claims: Claims, profile: str
) -> Review:
    """Compare the records of one profile (dicts, or a folder of them) with `expected`.

    A move to or from *undecided* is a note; every other difference is a mismatch, and so are a
    claim that was expected but not measured, one that was measured without an expectation, and
    fewer independent units than the condition asks for.
    """
    if isinstance(records, str | Path):
        records = read_records(records)
    mismatches, notes, seen = [], [], set()
    for record in records:
        if record["profile"] != profile:
            mismatches.append(
                f"{record['chapter']}: recorded in profile {record['profile']}, not {profile}. "
                "Run it again in this profile."
            )
            continue
        for entry in record["entries"]:
            seen.add(entry["id"])
            claim = claims.by_id.get(entry["id"])
            if claim is None:
                mismatches.append(
                    f"{entry['id']}: measured, but claims.yml has no such claim. Add it."
                )
                continue
            problem, note = _difference(claim, entry)
            mismatches += [problem] if problem else []
            notes += [note] if note else []
    for claim in claims.by_id.values():
        if claim.expected and claim.id not in seen:
            mismatches.append(
                f"{claim.id}: expected {claim.expected['verdict']}, but {claim.chapter} did not "
                "measure it. Run that chapter, or find why it records nothing."
            )
    return Review(mismatches, notes)


def _difference(claim: Claim, entry: Mapping[str, Any]) -> tuple[str, str]:
    """(mismatch, note) of one entry; empty texts where there is none."""
    got = entry["verdict"]
    if claim.expected is None:
        return f"{claim.id}: measured ({got}) without an expectation. Fill in `expected`.", ""
    if entry["n"] < claim.min_n:
        return f"{claim.id}: n = {entry['n']}, and the condition asks for {claim.min_n}.", ""
    want = claim.expected["verdict"]
    if got == want:
        return "", ""
    said = f"{claim.id}: {got}, expected {want} (since {claim.expected['since']})"
    reasons = f"; {'; '.join(entry['reasons'])}" if entry["reasons"] else ""
    if "undecided" in (got, want):
        return "", f"{said}{reasons}. A move to or from undecided is accepted."
    return f"{said}{reasons}. Find out why; change `expected` only with a step of history.", ""


def table(root: Path | str, claims: Claims | None = None) -> list[dict[str, Any]]:
    """Every claim as one JSON-able row, and one more for each full-profile result that is kept.

    Merges `book/claims.yml`, `_build/records/laptop/*.json` and `results/full/*.json` under `root`.
    """
    root = Path(root)
    claims = load_claims(root) if claims is None else claims
    laptop = _by_id(read_records(root / "_build" / "records" / "laptop"))
    full = _by_id(read_records(root / "results" / "full"))
    return rows(claims, laptop, full)


def rows(
    claims: Claims,
    run: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]],
    full: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]],
) -> list[dict[str, Any]]:
    """The rows of `table`, from (record, entry) by claim id."""
    result = []
    for claim in claims.by_id.values():
        result.append(_row(claim, *run.get(claim.id, (None, None))))
        if claim.id in full:
            result.append(_row(claim, *full[claim.id]))
    return result


def _by_id(records: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Mapping, Mapping]]:
    return {entry["id"]: (record, entry) for record in records for entry in record["entries"]}


def _row(
    claim: Claim, record: Mapping[str, Any] | None, entry: Mapping[str, Any] | None
) -> dict[str, Any]:
    entry = entry or {}
    record = record or {}
    return {
        "id": claim.id,
        "chapter": claim.chapter,
        "source": dict(claim.source),
        "statement": claim.statement,
        "quantity": claim.quantity,
        "paper": claim.paper,
        "measured": entry.get("measured"),
        "interval": entry.get("interval"),
        "n": entry.get("n"),
        "condition": claim.condition,
        "null": {
            "asked": claim.null,
            "control_asked": claim.control,
            "nulls": entry.get("nulls"),
            "controls": entry.get("controls"),
        },
        "verdict": entry.get("verdict", NOT_RUN),
        "expected": claim.expected["verdict"] if claim.expected else None,
        "profile": record.get("profile"),
        "commit": record.get("commit"),
        "date": record.get("date"),
    }
