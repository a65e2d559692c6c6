"""Results of commands, routes and functions, compared with those that were recorded.

Numbers are compared with a tolerance. Sentences are left out, so that words can change: of texts, only those of one or
two words count (names, kinds, units). Record anew with `IOWEATHER_RECORD=1 pytest tests/net`, and read the difference.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent / "recorded"
RECORDING: Final = os.environ.get("IOWEATHER_RECORD") == "1"
_MOST_ITEMS: Final = 8
_MOST_DEPTH: Final = 9
# They tell of this machine and this moment; blocks are the words and numbers of the same answer for a screen.
_VOLATILE: Final = re.compile(
    r"^(provenance|software_version|version|versions|lake|root|path|made_ns|ingested_ns|ingest_id|as_of_ns|checked_ns|seconds_taken"
    r"|digest|log_digest|svg|html|spec|vega.*|href|link|url|now_ns|age_seconds|model|alt.*|caption|blocks)$"
)
_RELATIVE, _ABSOLUTE = 1e-6, 1e-9


def reduced(value: Any, depth: int = 0) -> Any:
    """The part of a result that is compared: short lists, rounded numbers, no sentences."""
    if depth > _MOST_DEPTH:
        return None
    if isinstance(value, dict):
        return {
            str(key): part
            for key, item in sorted(value.items())
            if not _VOLATILE.match(str(key)) and (part := reduced(item, depth + 1)) is not None
        }
    if isinstance(value, (list, tuple)):
        items = [reduced(item, depth + 1) for item in value[:_MOST_ITEMS]]
        return {"of": len(value), "first": items} if len(value) > _MOST_ITEMS else items
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return value if len(value.split()) <= 2 and "/" not in value and len(value) <= 60 else None
    return value


def differences(expected: Any, found: Any, place: str = "") -> list[str]:
    if isinstance(expected, dict) and isinstance(found, dict):
        return [
            line
            for key in sorted({*expected, *found})
            for line in differences(expected.get(key), found.get(key), f"{place}.{key}")
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [
            line
            for at, (one, other) in enumerate(zip(expected, found, strict=True))
            for line in differences(one, other, f"{place}[{at}]")
        ]
    if type(expected) in (int, float) and type(found) in (int, float):
        same = math.isclose(expected, found, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    else:
        same = expected == found
    return [] if same else [f"{place}: recorded {expected!r}, now {found!r}"]


def found(value: Any) -> Any:
    """The part that is compared, as it is after a way through JSON."""
    return json.loads(json.dumps(reduced(value)))


def recorded(group: str, name: str) -> Any:
    known = json.loads((FOLDER / f"{group}.json").read_text("utf-8"))
    assert name in known, f"{group}: {name} was never recorded"
    return known[name]


def compare(group: str, name: str, value: Any) -> None:
    """Fails where the result differs from the recorded one; records it where that is asked for."""
    if RECORDING:
        _record(FOLDER / f"{group}.json", name, found(value))
        return
    lines = differences(recorded(group, name), found(value))
    assert not lines, f"{name}: {len(lines)} values differ:\n" + "\n".join(lines[:20])


def _record(file: Path, name: str, value: Any) -> None:
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = json.loads(file.read_text("utf-8")) if file.exists() else {}
        known[name] = value
        lines = (f"{json.dumps(key)}: {json.dumps(known[key], ensure_ascii=False)}" for key in sorted(known))
        file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
