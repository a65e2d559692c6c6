"""Cached results of sealed days for questions about months: arrays in files next to the tables.

A missing or damaged file, or one of another version of this software, is computed again. Users who may only read a lake
store nothing.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from ioweather._version import __version__
from ioweather.core.errors import UnsafePlace
from ioweather.lake import layout

# For one place: the current record, and the one before a late file came, for a reader of that state.
_MOST_KEPT: Final = 2
T = TypeVar("T")
_SUFFIX: Final = ".npz"


class LakeRecords:
    """Arrays by name under a place and a key of all that they depend on. `get` gives what `take` makes of them, or None
    where they are missing or `take` fails."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def get(self, place: str, key: str, take: Callable[[Mapping[str, Any]], T]) -> T | None:
        """Return `take` of the arrays, each read at its first use; None where there are none. No pickle is read."""
        try:
            with (
                (layout.records_dir(self._root) / _file(place, key)).open("rb") as file,
                np.load(file, allow_pickle=False) as arrays,
            ):
                return take(arrays)
        except (OSError, ValueError, KeyError, TypeError, IndexError, EOFError, SyntaxError, zipfile.BadZipFile):
            return None

    def put(self, place: str, key: str, record: Mapping[str, Any]) -> None:
        try:
            with (
                layout.lake_directory(self._root) as lake,
                lake.inside("records", mode=0o750, keep=0o775, shared=True) as folder,
            ):
                body = io.BytesIO()
                np.savez(body, **record)
                folder.replace(_file(place, key), body.getvalue(), 0o640)
                same = [name for name in folder.names() if name.startswith(f"{place}.") and name.endswith(_SUFFIX)]
                age = {name: os.stat(name, dir_fd=folder.fd, follow_symlinks=False).st_mtime_ns for name in same}
                for old in sorted(same, key=lambda name: age[name])[:-_MOST_KEPT]:
                    folder.discard(old)
        except (OSError, UnsafePlace):
            return


def _file(place: str, key: str) -> str:
    return f"{place}.{key}-{__version__}{_SUFFIX}"
