"""What sealed days leave for questions about months, kept beside the tables: arrays, whole or not at all.

Nothing here is told to anybody that the tables do not say: what is missing, cut or of another version of this software
is worked out again. Whoever may only read a lake keeps nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ioweather._version import __version__
from ioweather.core.errors import UnsafePlace
from ioweather.store import layout
from ioweather.store.array_files import T, packed, unpacked

# Of one place: what holds now, and what held before a late file came, for a reader of that state.
_MOST_KEPT: Final = 2
_SUFFIX: Final = ".npz"


class LakeRecords:
    """Arrays by name under a place and a key of all that they depend on. `get` gives what `take` makes of them, or None
    where they are missing or `take` fails."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def get(self, place: str, key: str, take: Callable[[Mapping[str, Any]], T]) -> T | None:
        return unpacked(layout.records_dir(self._root) / _file(place, key), take)

    def put(self, place: str, key: str, record: Mapping[str, Any]) -> None:
        try:
            with (
                layout.lake_directory(self._root) as lake,
                lake.inside("records", mode=0o750, keep=0o775, shared=True) as folder,
            ):
                folder.replace(_file(place, key), packed(record), 0o640)
                same = [name for name in folder.names() if name.startswith(f"{place}.") and name.endswith(_SUFFIX)]
                age = {name: os.stat(name, dir_fd=folder.fd, follow_symlinks=False).st_mtime_ns for name in same}
                for old in sorted(same, key=lambda name: age[name])[:-_MOST_KEPT]:
                    folder.discard(old)
        except (OSError, UnsafePlace):
            return


def _file(place: str, key: str) -> str:
    return f"{place}.{key}-{__version__}{_SUFFIX}"
