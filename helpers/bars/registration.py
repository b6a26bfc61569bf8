"""Thresholds written down and hashed before anything is measured.

``register`` writes a JSON file and, beside it, its SHA-256.  Evaluation goes by the file: other
thresholds, a file that was changed, and one that came after the first look are refused.  An older
file rules: whoever registers again at its path gets the old one if the bars are the same, and an
error if they are not.

Whoever changes both the file and the hash beside it is caught only by a copy of the hash elsewhere:
commit it, or print it, and pass it to :func:`load`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from helpers.bars.bar import Bar
from helpers.bars.evidence import Evidence, now

FORMAT = 1


class RegistrationError(ValueError):
    """A registration that cannot be used; the message says why, and what to do."""


@dataclass(frozen=True)
class Registration:
    """A registration file: its bars, the specification's name, when, where, and its hash."""

    bars: tuple[Bar, ...]
    spec: str
    date: str
    path: Path
    sha256: str


def register(
    bars: Sequence[Bar], path: str | os.PathLike[str], *, spec: str, evidence: Evidence
) -> Registration:
    """Write thresholds, directions, the specification's name and the date; hash them.

    Args:
        bars: with different names.
        path: of the JSON file; ``path`` + ``.sha256`` holds its hash.
        spec: what the models are held against.
        evidence: this run's; nothing may have been opened, unless the file is older than that.

    Raises:
        RegistrationError: something was seen already, the path holds other bars or a file that was
            changed, or two bars share a name.
    """
    bars, path = tuple(bars), Path(path)
    if not bars or len({bar.name for bar in bars}) < len(bars) or not spec.strip():
        raise RegistrationError(
            "register one bar or more, with different names, and name the spec."
        )
    if path.exists():
        older = load(path)
        check_bars(older, bars)
        if older.spec != spec:
            raise RegistrationError(
                f"{path} was registered on {older.date} for {older.spec!r}, not for {spec!r}. The "
                "older registration rules: use another path for another specification."
            )
        check_first(older, evidence)
        return older
    if evidence.opened:
        first = evidence.opened[0]
        raise RegistrationError(
            f"too late: {first.what!r} was opened at {first.date}, and thresholds must come before "
            "the evidence. Restart, and register before anything is opened."
        )
    document = {
        "format": FORMAT,
        "spec": spec,
        "date": now(),
        "bars": [asdict(bar) for bar in bars],
    }
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text.encode()
    with path.open("xb") as file:  # never over a file that another process has just written
        file.write(content)
    sha256 = hashlib.sha256(content).hexdigest()
    _beside(path).write_text(f"{sha256}\n", encoding="ascii")
    return load(path, sha256)


def load(path: str | os.PathLike[str], sha256: str | None = None) -> Registration:
    """Read a registration file.

    Args:
        path: of the file.
        sha256: what its hash was; from the file beside it if None.

    Raises:
        RegistrationError: a file or hash that is not there, or a file that was changed.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
        wanted = sha256 or _beside(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise RegistrationError(
            f"no registration to go by: {error}. Register before the run, or restore both {path} "
            f"and {_beside(path).name} from version control."
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if found != wanted:
        raise RegistrationError(
            f"{path} was changed after it was registered: its SHA-256 is {found}, and was "
            f"{wanted}. Restore both files from version control. New thresholds need a new path, "
            "registered before new data are opened."
        )
    try:
        document = json.loads(content)
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']}")
        bars = tuple(Bar(**bar) for bar in document["bars"])
        datetime.fromisoformat(document["date"])
        return Registration(bars, document["spec"], document["date"], path, found)
    except (ValueError, KeyError, TypeError) as error:
        raise RegistrationError(f"{path} is no registration of format {FORMAT}: {error}.") from None


def check(registration: Registration, bars: Sequence[Bar], evidence: Evidence) -> Registration:
    """The registration as its file has it, if these are its bars and it came first.

    Raises:
        RegistrationError: see the module's head, or nothing was opened through ``evidence``.
    """
    filed = load(registration.path, registration.sha256)
    check_bars(filed, registration.bars)
    check_bars(filed, bars)
    if not evidence.opened:
        raise RegistrationError(
            "nothing was opened through this evidence, so nothing shows what came first. Pass data "
            "and models through evidence.open(name, content) before you measure."
        )
    check_first(filed, evidence)
    return filed


def check_bars(registration: Registration, bars: Sequence[Bar]) -> None:
    """Raise a :class:`RegistrationError` unless these are the registered bars, in every field."""
    filed, given = ({bar.name: bar for bar in side} for side in (registration.bars, bars))
    for name in sorted(filed.keys() | given.keys()):
        if filed.get(name) == given.get(name):
            continue
        if name not in given:
            problem = f"bar {name} is registered and missing here"
        elif name not in filed:
            problem = f"bar {name} is not registered"
        else:
            key = next(k for k, v in asdict(filed[name]).items() if asdict(given[name])[k] != v)
            was, now_ = getattr(filed[name], key), getattr(given[name], key)
            problem = f"bar {name}: {key} is {now_!r} and was registered as {was!r}"
        raise RegistrationError(
            f"{problem}. The registration of {registration.date} rules: use its bars, "
            f"load({str(registration.path)!r}).bars, or register others at a new path before new "
            "data are opened."
        )


def check_first(registration: Registration, evidence: Evidence) -> None:
    """Raise a :class:`RegistrationError` unless it is older than everything that was opened."""
    for look in evidence.opened:
        if datetime.fromisoformat(look.date) < datetime.fromisoformat(registration.date):
            raise RegistrationError(
                f"{registration.path} was registered at {registration.date}, after {look.what!r} "
                f"was opened at {look.date}. Such thresholds decide nothing: register first, then "
                "open data that nobody has seen."
            )


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")
