"""A lake for a process that answers many questions: what was read stays in memory until the lake changes.

Whether it changed is seen at the directories of the tables' logs, where every commit is a new file.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from ioweather.core.contracts import SeriesGroup
from ioweather.core.visibility import Owner
from ioweather.store import layout
from ioweather.store.delta import TableFiles
from ioweather.store.lake import Lake
from ioweather.store.snapshot import Snapshot
from ioweather.tables import TABLES

Mark: TypeAlias = tuple[int, ...]
# Two commits within one tick of the clock of the file system look like one; a lake is trusted when it has been still.
_STILL_NS: Final = 1_000_000_000


@dataclass
class Kept:
    """What is known of one lake; shared by all who ask."""

    mark: Mark = ()
    pinned: Mapping[str, TableFiles] | None = None
    series: list[SeriesGroup] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


def mark_of(root: Path, names: Collection[str] = TABLES) -> Mark:
    """Changes with every commit to one of the tables and every change of facility.toml."""
    tables = layout.tables_dir(root)
    logs = [tables / name / "_delta_log" for name in sorted(names)]
    return tuple(map(_changed_ns, (*logs, layout.facility_file(root))))


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


class KeptLake(Lake):
    def __init__(self, root: Path, kept: Kept, owner: Owner | None = None) -> None:
        super().__init__(root, owner)
        self._kept = kept

    def seen_by(self, owner: Owner | None) -> Lake:
        return KeptLake(self.root, self._kept, owner)

    def snapshot(self) -> Snapshot:
        with self._kept.lock:
            mark = mark_of(self.root)
            if self._kept.pinned is None or mark != self._kept.mark:
                fresh = super().snapshot()
                if time.time_ns() - max(mark) < _STILL_NS:
                    self._kept.pinned = None
                    return fresh
                self._kept.mark, self._kept.pinned, self._kept.series = mark, fresh.pinned, fresh.series()
                fresh.close()
            return Snapshot(self.root, self._kept.pinned, self.facility, self.owner, self._kept.series)
