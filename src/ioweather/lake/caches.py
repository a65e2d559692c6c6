"""Cached results: the mark of table versions that one is valid for, and arrays on disk for questions about months."""

from __future__ import annotations

import fnmatch
import hashlib
import io
import os
import zipfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.errors import UnsafePlace
from ioweather.core.tables import TABLES
from ioweather.lake import layout
from ioweather.lake.delta_tables import newest_version

Mark: TypeAlias = tuple[int | None, ...]
# Of one place: the current record, and the one before a late file came, for a reader of that state.
_MOST_RECORDS: Final = 2
_SUFFIX: Final = ".npz"


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


def read_record(root: Path, place: str, key: str) -> dict[str, NDArray[Any]] | None:
    """The arrays that `write_record` stored under this place and key. None where there are none, or the file is damaged
    or of another version of this software: the caller computes them again. No pickle is read."""
    try:
        with (
            (root / "records" / _record_name(place, key)).open("rb") as file,
            np.load(file, allow_pickle=False) as arrays,
        ):
            return dict(arrays)
    except (OSError, ValueError, KeyError, TypeError, IndexError, EOFError, SyntaxError, zipfile.BadZipFile):
        return None


def write_record(root: Path, place: str, key: str, record: Mapping[str, Any]) -> None:
    """Store arrays by name in a file next to the tables. `key` is a digest of all that they depend on. Does nothing in
    a lake that this user may only read."""
    body = io.BytesIO()
    np.savez(body, **record)
    store_newest(root, ("records",), _record_name(place, key), body.getvalue(), f"{place}.*{_SUFFIX}", _MOST_RECORDS)


def store_newest(root: Path, folders: Sequence[str], name: str, data: bytes, pattern: str, most: int) -> None:
    """Write a cache file into nested directories of the lake, and remove all but the newest `most` files that match
    `pattern`. Does nothing in a lake that this user may only read."""
    try:
        with ExitStack() as opened:
            place = opened.enter_context(layout.lake_directory(root))
            for folder in folders:
                place = opened.enter_context(place.inside(folder, mode=0o750, keep=0o775, shared=True))
            place.replace(name, data, 0o640)
            same = fnmatch.filter(place.names(), pattern)
            age = {each: os.stat(each, dir_fd=place.fd, follow_symlinks=False).st_mtime_ns for each in same}
            for old in sorted(same, key=age.__getitem__)[:-most]:
                place.discard(old)
    except (OSError, UnsafePlace):
        return


def _record_name(place: str, key: str) -> str:
    """Name of the file of an array record."""
    return f"{place}.{key}-{code_digest()}{_SUFFIX}"
