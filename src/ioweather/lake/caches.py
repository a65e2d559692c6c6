"""Cached results: the mark of table versions that one is valid for, and JSON on disk."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from ioweather.core.errors import UnsafePlace
from ioweather.core.tables import TABLES
from ioweather.lake import layout
from ioweather.lake.delta_tables import newest_version

Mark: TypeAlias = tuple[int | None, ...]
# Of one place: the current record, and the one before a late file came, for a reader of that state.
_MOST_RECORDS: Final = 2


@cache
def code_digest() -> str:
    """Digest of this package's code: a development version changes without a new version number."""
    files = (path for path in Path(__file__).parents[1].rglob("*.*") if path.suffix in {".py", ".toml", ".sql"})
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files))).hexdigest()[:16]


def version_mark(root: Path, names: Collection[str] = TABLES) -> Mark:
    """Versions of the tables, and the times of facility.toml and of the lake's marker: equal while nothing changed."""
    tables = layout.tables_dir(root)
    files = (layout.facility_file(root), layout.lake_marker(root))
    return (*(newest_version(tables, TABLES[name]) for name in sorted(names)), *map(_modified_ns, files))


def _modified_ns(path: Path) -> int | None:
    """Time of the last change; None where there is no such file."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def read_record(root: Path, place: str, key: str) -> Any:
    """What `write_record` stored under this place and key. None where there is nothing, or the file is damaged or of
    another version of this software: the caller computes it again."""
    try:
        return json.loads((root / "records" / _record_name(place, key)).read_text("utf-8"))
    except (OSError, ValueError):
        return None


def write_record(root: Path, place: str, key: str, record: Any, *, most: int = _MOST_RECORDS) -> None:
    """Store JSON in a file next to the tables, and remove all but the newest `most` files of this place. `key` is a
    digest of all that it depends on. Does nothing in a lake that this user may only read."""
    try:
        with (
            layout.lake_directory(root) as lake,
            lake.inside("records", mode=0o750, keep=0o775, shared=True) as records,
        ):
            records.replace(_record_name(place, key), json.dumps(record).encode(), 0o640)
            same = fnmatch.filter(records.names(), f"{place}.*")
            age = {each: os.stat(each, dir_fd=records.fd, follow_symlinks=False).st_mtime_ns for each in same}
            for old in sorted(same, key=age.__getitem__)[:-most]:
                records.discard(old)
    except (OSError, UnsafePlace):
        return


def _record_name(place: str, key: str) -> str:
    return f"{place}.{key}-{code_digest()}.json"
