"""A lake for a process that answers many questions: what was read stays in memory until the lake changes.

Whether it changed is seen without opening a table (`changed_ns`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from ioweather.core.contracts import SeriesGroup
from ioweather.core.facility import Facility, Owner
from ioweather.core.frames import Frame
from ioweather.core.tables import TABLES
from ioweather.lake import layout
from ioweather.lake.delta_tables import changed_ns, newest_files
from ioweather.lake.lake import LEDGER_FIRST, Lake
from ioweather.lake.snapshot import Snapshot, T, Where
from ioweather.lake.table_files import TableFiles

Mark: TypeAlias = tuple[int, ...]
# Two commits within one tick of the file system's clock look like one. A table that was read so soon after a commit is
# read again after as long; what was missed in between is then seen.
_STILL_NS: Final = 1_000_000_000


@dataclass(frozen=True)
class _Table:
    files: TableFiles
    changed_ns: int
    read_ns: int

    def is_as_on_disk(self, changed_ns: int) -> bool:
        was_still = self.read_ns - self.changed_ns >= _STILL_NS
        return self.changed_ns == changed_ns and (was_still or time.time_ns() - self.read_ns < _STILL_NS)


@dataclass
class Kept:
    """What is known of one lake; shared by all who ask."""

    tables: dict[str, _Table] = field(default_factory=dict)
    made: dict[str, tuple[Facility, list[TableFiles], Any]] = field(default_factory=dict)
    # Rows stay too while there is room: for a process that makes many results of the same tables, and ends.
    room_bytes: int = 0
    frames: dict[str, tuple[Facility, TableFiles, Frame]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    making: threading.RLock = field(default_factory=threading.RLock)


def mark_of(root: Path, names: Collection[str] = TABLES) -> Mark:
    """Changes with every commit to one of the tables and every change of facility.toml."""
    tables = layout.tables_dir(root)
    try:
        facility_ns = layout.facility_file(root).stat().st_mtime_ns
    except OSError:
        facility_ns = 0
    return (*(changed_ns(tables, name) for name in sorted(names)), facility_ns)


class KeptLake(Lake):
    def __init__(self, root: Path, kept: Kept, owner: Owner | None = None) -> None:
        super().__init__(root, owner)
        self._kept = kept

    def seen_by(self, owner: Owner | None) -> Lake:
        return KeptLake(self.root, self._kept, owner)

    def snapshot(self) -> Snapshot:
        with self._kept.lock:
            return KeptSnapshot(self.root, self.pinned(), self.facility, self.owner, kept=self._kept)

    def pinned(self) -> Mapping[str, TableFiles]:
        return {name: self._files_of(name) for name in LEDGER_FIRST}

    def _files_of(self, name: str) -> TableFiles:
        tables = layout.tables_dir(self.root)
        last_ns = changed_ns(tables, name)
        known = self._kept.tables.get(name)
        if known is None or not known.is_as_on_disk(last_ns):
            read_ns = time.time_ns()
            known = self._kept.tables[name] = _Table(newest_files(tables, TABLES[name]), last_ns, read_ns)
        return known.files


@dataclass(repr=False)
class KeptSnapshot(Snapshot):
    """What is made of whole tables is made once for all snapshots of their versions."""

    kept: Kept = field(default_factory=Kept, repr=False)

    def once(self, what: str, tables: Collection[str], make: Callable[[], T]) -> T:
        with self.kept.making:
            files = [self.pinned[table] for table in tables]
            known = self.kept.made.get(what)
            if (
                known is None
                or known[0] != self.facility
                or any(was is not now for was, now in zip(known[1], files, strict=True))
            ):
                known = self.kept.made[what] = (self.facility, files, make())
            found: T = known[2]
            return found

    def series(self) -> list[SeriesGroup]:
        return self.once("series", ("series",), super().series)

    def frame(
        self,
        table: str,
        columns: Sequence[str] = (),
        where: Where | None = None,
        period_ns: tuple[int, int] | None = None,
        days: Collection[str] | None = None,
    ) -> Frame:
        asked = repr((table, columns, where, period_ns, days, self.owner))
        facility, files, frame = self.kept.frames.get(asked, (None, None, None))
        if frame is None or facility != self.facility or files is not self.pinned[table]:
            if frame is not None and self.kept.frames.pop(asked, None) is not None:
                self.kept.room_bytes += frame.nbytes
            frame = super().frame(table, columns, where, period_ns, days)
            if frame.nbytes <= self.kept.room_bytes:
                self.kept.room_bytes -= frame.nbytes
                self.kept.frames[asked] = (self.facility, self.pinned[table], frame)
        return frame
