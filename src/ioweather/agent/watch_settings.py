"""[watch] of facility.toml: what `ioweather ingest --watch` reads, and how often the agent runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ioweather.core.errors import FacilityError
from ioweather.core.units import MINUTE_NS, parse_duration_ns

_KEYS: Final = ("directories", "every", "accounting", "tell", "check_owner")


@dataclass(frozen=True)
class WatchSettings:
    """`accounting`: ask `sacct` too, where it is here. `tell`: a program that is run for each new verdict, with the job
    id and the line (deploy/slurm/tell-slurm). `check_owner`: strangers are believed about their own runs alone."""

    directories: tuple[Path, ...] = ()
    every_ns: int = MINUTE_NS
    accounting: bool = True
    tell: Path | None = None
    check_owner: bool = True


def watch_settings_from(section: Mapping[str, Any]) -> WatchSettings:
    unknown = sorted(section.keys() - set(_KEYS))
    if unknown:
        raise FacilityError(f"unknown key {', '.join(unknown)} in [watch].", hint=f"Known: {', '.join(_KEYS)}.")
    directories = section.get("directories", [])
    if not isinstance(directories, list) or not all(isinstance(item, str) and item for item in directories):
        raise FacilityError("[watch] directories must be a list of paths.")
    relative = [item for item in directories if not Path(item).is_absolute()]
    if relative:
        raise FacilityError(f"[watch] directories: {relative[0]!r} is not an absolute path.")
    for name in ("accounting", "check_owner"):
        if not isinstance(section.get(name, True), bool):
            raise FacilityError(f"[watch] {name}: {section[name]!r} is neither true nor false.")
    try:
        every_ns = parse_duration_ns(str(section.get("every", "1m")))
    except ValueError as error:
        raise FacilityError(f"[watch] every: {error}.") from None
    tell = section.get("tell")
    if tell is not None and not (isinstance(tell, str) and Path(tell).is_absolute()):
        raise FacilityError(f"[watch] tell: {tell!r} is not the absolute path of a program.")
    accounting, check_owner = section.get("accounting", True), section.get("check_owner", True)
    places = tuple(map(Path, directories))
    return WatchSettings(places, every_ns, accounting, Path(tell) if tell else None, check_owner)
