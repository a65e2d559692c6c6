"""What claims are judged from: exhibits of this lake, and files that other sites wrote of theirs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from ioweather.core.contracts import Period
from ioweather.core.errors import IoweatherError, UsageError
from ioweather.core.outcomes import ClaimOutcome, SiteClaims
from ioweather.core.papers.claims import STANDINGS, claims
from ioweather.core.results import Exhibit, to_jsonable
from ioweather.core.units import UNITS
from ioweather.lake.lake import Lake
from ioweather.topics.analyse import availability, each_exhibit

FORMAT: Final = "ioweather claims"
_VERSION: Final = 1
_LARGEST_BYTES: Final = 4 << 20


def exhibits_of_claims(lake: Lake, paper: str, period_ns: Period) -> Mapping[str, Exhibit | str]:
    """Every exhibit that a claim rests on, or why there is none. A fault in one takes no other along."""
    wanted = {claim.exhibit for claim in claims(paper)}
    with lake.snapshot() as snapshot:
        found = [item for item in availability(snapshot) if item.id in wanted]
    made: dict[str, Exhibit | str] = {item.id: "; ".join(item.missing) for item in found if not item.ready}
    by_study: dict[str, list[str]] = {}
    for item in found:
        if item.ready:
            by_study.setdefault(item.study, []).append(item.id)
    for ids in by_study.values():
        for exhibit_id, outcome in each_exhibit(lake, ids, period_ns=period_ns).items():
            made[exhibit_id] = outcome if isinstance(outcome, Exhibit) else _reason(outcome)
    return made


def _reason(error: Exception) -> str:
    return error.message if isinstance(error, IoweatherError) else f"it failed: {type(error).__name__}"


def write_claims(site: SiteClaims, file: Path) -> None:
    """One site's claims for others to hold theirs against: numbers and marks, no users and no paths."""
    body = {"format": FORMAT, "version": _VERSION, **to_jsonable(site)}
    try:
        file.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--export {file}: {error.strerror}.") from None


def read_claims(file: Path) -> SiteClaims:
    """What `write_claims` wrote, here or elsewhere. A statement that this version does not know is left out."""
    where = f"--against {file}"
    try:
        if file.stat().st_size > _LARGEST_BYTES:
            raise UsageError(f"{where}: too large for a file of claims.")
        body = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{where}: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{where}: it is not JSON.", hint="`ioweather claims --export FILE` writes one.") from None
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise UsageError(f"{where}: it is not a file of claims.", hint="`ioweather claims --export FILE` writes one.")
    if body.get("version") != _VERSION:
        raise UsageError(f"{where}: it has version {body.get('version')!r}; this one reads {_VERSION}.")
    try:
        known = {claim.id for claim in claims()}
        listed = tuple(_claim(row) for row in body["claims"] if row["id"] in known)
        return SiteClaims(str(body["site"])[:100], bool(body["simulated"]), listed)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{where}: a statement cannot be read ({type(error).__name__}: {error}).") from None


_NUMBERS: Final = ("value", "low", "high", "n", "p_value")


def _claim(row: Mapping[str, Any]) -> ClaimOutcome:
    kept = {field.name: row[field.name] for field in fields(ClaimOutcome) if field.name in row}
    if kept["standing"] not in STANDINGS or kept.get("unit", "") not in UNITS:
        raise ValueError(f"{kept['id']} has an unknown standing or unit")
    for name in _NUMBERS:
        number = kept.get(name)
        if number is not None and (isinstance(number, bool) or not isinstance(number, (int, float))):
            raise TypeError(f"{kept['id']}: {name} is no number")
    return ClaimOutcome(**{**kept, "why": str(kept.get("why", ""))[:200]})
