"""Read `claims.yml`, and refuse anything in it that is not fully understood.

A typing mistake in a condition would otherwise decide a verdict.
"""

from __future__ import annotations

import datetime
import importlib.resources
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from helpers.ledger.claims import KINDS, OPS, PROFILES, VERDICTS, Claim, Claims, ClaimsError, Part

_TOP = {"fixed", "sources", "chapters", "claims"}
_REQUIRED = ("id", "chapter", "source", "statement", "quantity", "paper", "kind", "condition")
_REQUIRED += ("dagger", "expected", "history")
_OPTIONAL = ("null", "control", "reference_parts", "min_n")


def default_root() -> Path | None:
    """The checkout that this package runs from, or None where it was installed without one."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "book" / "claims.yml").is_file() else None


def load_claims(root: Path | str | None = None) -> Claims:
    """Read the claims of the checkout `root`, else of this package's own, else the packaged copy.

    Raises ClaimsError where an entry is incomplete, contradictory, or holds an unknown field.
    """
    root = default_root() if root is None else Path(root)
    if root is not None:
        path = root / "book" / "claims.yml"
        if not path.is_file():
            raise ClaimsError(f"{path} is missing: run from a checkout of the book, or restore it.")
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ClaimsError(f"{path} is not UTF-8 text ({error}). Restore it.") from None
        return parse_claims(text, where=str(path))
    packaged = importlib.resources.files("helpers") / "claims.yml"
    if not packaged.is_file():
        raise ClaimsError("no book/claims.yml here and no packaged copy: reinstall the package.")
    return parse_claims(packaged.read_text(encoding="utf-8"), where="helpers/claims.yml")


def parse_claims(text: str, where: str = "claims.yml") -> Claims:
    """Turn the text of a claims file into `Claims`; strict (see `load_claims`)."""
    try:
        raw = yaml.load(text, Loader=_UniqueKeys)
    except yaml.YAMLError as error:
        raise ClaimsError(f"{where} is not valid YAML: {error}. Correct that line.") from None
    if not isinstance(raw, dict) or set(raw) != _TOP:
        found = sorted(map(str, raw)) if isinstance(raw, dict) else type(raw).__name__
        raise ClaimsError(f"{where} needs exactly the fields {sorted(_TOP)}, found {found}.")
    for field, kind in (("sources", dict), ("chapters", dict), ("claims", list)):
        if not isinstance(raw[field], kind):
            word = "a list" if kind is list else "a mapping"
            raise ClaimsError(f"{where}: {field} must be {word}, found {raw[field]!r:.60}.")
    for chapter, title in raw["chapters"].items():
        if not isinstance(title, str) or not re.match(r"\d+[a-z]?_", str(chapter)):
            raise ClaimsError(f"{where}: chapters maps names like 01_name to titles: {chapter!r}.")
    by_id: dict[str, Claim] = {}
    for number, entry in enumerate(raw["claims"], start=1):
        named = isinstance(entry, dict) and isinstance(entry.get("id"), str)
        at = f"{where}, claim {entry['id'] if named else f'number {number}'}"
        try:
            claim = _Entry(at, raw["sources"], raw["chapters"]).claim(entry)
        except TypeError as error:  # for example a list where a name should be
            raise ClaimsError(f"{at}: a field is of the wrong type ({error}).") from None
        if claim.id in by_id:
            raise ClaimsError(f"{at}: this id is used twice. Give each claim its own id.")
        by_id[claim.id] = claim
    return Claims(str(raw["fixed"]), raw["sources"], raw["chapters"], by_id)


class _UniqueKeys(yaml.SafeLoader):
    """YAML lets a repeated key win silently; a repeated `value:` must not."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict:
        merge = "tag:yaml.org,2002:merge"  # `<<` may be overridden; that is what it is for
        own = [key for key, _ in node.value if key.tag != merge]
        keys = [self.construct_object(key, deep=True) for key in own]
        twice = {str(key) for key in keys if keys.count(key) > 1}
        if twice:
            raise yaml.constructor.ConstructorError(
                None, None, f"the field {', '.join(sorted(twice))} is given twice", node.start_mark
            )
        return super().construct_mapping(node, deep)


class _Entry:
    """Checks one entry; every complaint begins with where it stands."""

    def __init__(self, at: str, sources: Mapping, chapters: Mapping) -> None:
        self.at, self.sources, self.chapters = at, sources, chapters

    def need(self, true: bool, problem: str) -> None:
        if not true:
            raise ClaimsError(f"{self.at}: {problem}")

    def text(self, value: Any, field: str) -> str:
        good = isinstance(value, str) and bool(value.strip())
        self.need(good, f"{field} must be a text, found {value!r}. Write one, or quote it.")
        return value.strip()

    def claim(self, raw: Any) -> Claim:
        self.need(isinstance(raw, dict), "an entry is a list of fields. Begin with `id:`.")
        missing = [field for field in _REQUIRED if field not in raw]
        self.need(not missing, f"add the missing fields {missing}.")
        self.need(None not in raw, 'write "null" in quotes: YAML reads the bare word as nothing.')
        unknown = sorted(set(raw) - set(_REQUIRED) - set(_OPTIONAL))
        self.need(not unknown, f"unknown fields {unknown}. Remove or rename them.")
        kind, chapter, source = raw["kind"], raw["chapter"], raw["source"]
        self.need(kind in KINDS, f"kind {kind!r} is unknown. Use one of {KINDS}.")
        self.need(chapter in self.chapters, f"chapter {chapter!r} is not among `chapters`. Add it.")
        good = isinstance(source, dict) and set(source) == {"paper", "section"}
        self.need(good, "source needs exactly `paper` and `section`.")
        self.need(source["paper"] in self.sources, f"add {source['paper']!r} to `sources`.")
        null, control = raw.get("null"), raw.get("control")
        null = None if null is None else self.text(null, "null")
        control = None if control is None else self.text(control, "control")
        if kind == "presence":
            self.need(bool(null or control), "say in `null` what must fail this condition.")
        if kind == "absence":
            self.need(bool(control), "say in `control` what must violate this condition.")
        if kind == "finding":
            self.need(not (null or control), "a finding has no null or control. Change its kind.")
        condition = raw["condition"]
        good = isinstance(condition, dict) and set(condition) == {"text", "parts"}
        self.need(good, "condition needs exactly `text` and `parts`.")
        parts = self.parts(condition["parts"])
        for profile in PROFILES:
            decided = any(profile in part.profiles for part in parts)
            self.need(decided, f"no part applies in profile {profile}. Add one.")
        references = self.parts(raw["reference_parts"]) if "reference_parts" in raw else ()
        self.need(kind != "finding" or not references, "a finding needs no reference_parts.")
        everywhere = all(part.profiles == PROFILES for part in references)
        self.need(everywhere, "reference_parts apply in every profile. Leave `profiles` out.")
        min_n = raw.get("min_n", 1)
        good = isinstance(min_n, int) and not isinstance(min_n, bool) and min_n >= 1
        self.need(good, f"min_n must be a whole number of at least 1, found {min_n!r}.")
        self.need(isinstance(raw["dagger"], bool), "dagger must be true or false.")
        return Claim(
            id=self.text(raw["id"], "id"),
            chapter=chapter,
            source=source,
            statement=self.text(raw["statement"], "statement"),
            quantity=self.text(raw["quantity"], "quantity"),
            paper=None if raw["paper"] is None else self.text(raw["paper"], "paper"),
            kind=kind,
            condition=self.text(condition["text"], "condition.text"),
            parts=parts,
            null=null,
            control=control,
            reference_parts=references,
            min_n=min_n,
            dagger=raw["dagger"],
            expected=self.expected(raw["expected"]),
            history=self.history(raw["history"]),
        )

    def parts(self, raw: Any) -> tuple[Part, ...]:
        self.need(isinstance(raw, list) and bool(raw), "a condition needs at least one part.")
        parts = tuple(self.part(item) for item in raw)
        names = [part.name for part in parts]
        twice = sorted({name for name in names if names.count(name) > 1})
        self.need(not twice, f"parts {twice} appear twice. Rename one, or use `between`.")
        return parts

    def part(self, raw: Any) -> Part:
        self.need(isinstance(raw, dict), f"a part is {{name, op, value, label}}, found {raw!r}.")
        needed, allowed = {"name", "op", "value", "label"}, {"decide", "profiles"}
        good = needed <= set(raw) <= needed | allowed
        self.need(good, f"a part needs {sorted(needed)} and may have {sorted(allowed)}: {raw!r}.")
        name, op, value = self.text(raw["name"], "a part's name"), raw["op"], raw["value"]
        self.need(name.isidentifier(), f"part name {name!r}: use letters, digits, underscores.")
        self.need(op in OPS, f"part {name}: unknown op {op!r}. Use one of {OPS}.")
        if op == "between":
            good = isinstance(value, list) and len(value) == 2 and all(map(_number, value))
            self.need(good and value[0] <= value[1], f"part {name}: give `value: [low, high]`.")
            value = (float(value[0]), float(value[1]))
        else:
            self.need(_number(value), f"part {name}: value must be a number, found {value!r}.")
            value = float(value)
        decide = raw.get("decide", "interval")
        self.need(decide in ("interval", "point"), f"part {name}: decide is interval or point.")
        self.need(op != "==" or decide == "point", f"part {name}: `==` needs `decide: point`.")
        self.need(op != "holds" or decide == "interval", f"part {name}: `holds` needs an interval.")
        profiles = raw.get("profiles", list(PROFILES))
        good = isinstance(profiles, list) and bool(profiles) and set(profiles) <= set(PROFILES)
        self.need(good, f"part {name}: profiles must be among {PROFILES}.")
        return Part(name, op, value, self.text(raw["label"], "label"), decide, tuple(profiles))

    def expected(self, raw: Any) -> Mapping[str, str] | None:
        if raw is None:
            return None
        good = isinstance(raw, dict) and set(raw) == {"verdict", "since", "why"}
        self.need(good, "expected needs exactly `verdict`, `since` and `why`, or is null.")
        good = raw["verdict"] in VERDICTS
        self.need(good, f"expected verdict {raw['verdict']!r} is unknown. Use one of {VERDICTS}.")
        return {
            "verdict": raw["verdict"],
            "since": self.date(raw["since"], "expected.since"),
            "why": self.text(raw["why"], "expected.why"),
        }

    def history(self, raw: Any) -> tuple[Mapping[str, str], ...]:
        self.need(isinstance(raw, list), "history must be a list ([] where nothing changed).")
        for item in raw:
            good = isinstance(item, dict) and set(item) == {"date", "field", "was", "why"}
            self.need(good, "each step of history needs exactly `date`, `field`, `was`, `why`.")
        return tuple(
            {"date": self.date(item["date"], "history.date")}
            | {
                field: self.text(item[field], f"history.{field}")
                for field in ("field", "was", "why")
            }
            for item in raw
        )

    def date(self, value: Any, field: str) -> str:
        try:
            return datetime.date.fromisoformat(str(value)).isoformat()
        except ValueError:
            raise ClaimsError(f"{self.at}: {field} must be a date like 2026-11-30.") from None


def _number(value: Any) -> bool:
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return real and math.isfinite(value)
