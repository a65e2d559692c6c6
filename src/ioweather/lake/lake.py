"""Open a lake; write to it; pin it for reading."""

from __future__ import annotations

import json
import logging
import os
import secrets
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import Final, NamedTuple

from ioweather._version import __version__
from ioweather.core.errors import LakeError
from ioweather.core.facility import Facility, Owner, load_facility
from ioweather.core.frames import Frame
from ioweather.core.tables import TABLES, Checked, Complaints
from ioweather.core.units import now_ns
from ioweather.lake import appends, layout
from ioweather.lake.caches import LakeCache, mark_of
from ioweather.lake.delta_tables import PinnedTables, TableFiles, newest_files
from ioweather.lake.sandbox import Limits, SqlResult, run_user_sql
from ioweather.lake.snapshot import Snapshot

_LOG = logging.getLogger("ioweather.lake")
# Whatever the ledger lists is then visible.
LEDGER_FIRST: Final = ("ingests", *(name for name in TABLES if name != "ingests"))


def new_ingest_id() -> str:
    """Sortable by time, so that 'the newest row' has a meaning; unique among writers."""
    return f"{now_ns():020d}-{secrets.token_hex(4)}"


class LedgerEntry(NamedTuple):  # a data class takes four times as long to make, and there is one per log
    """The outcome of one file."""

    digest: str
    path: str
    bytes: int
    source: str
    status: str
    rows: Mapping[str, int]
    reason: str | None = None
    message: str | None = None
    refused_rows: int = 0
    flagged_rows: int = 0
    rows_ingest_ids: str | None = None


class Lake:
    """The lake in a directory. Nothing is read until a snapshot or an append. Snapshots of a lake with an owner show
    what that person may see. With a cache, for a process that answers many questions, they share what they read."""

    def __init__(self, root: Path, owner: Owner | None = None, cache: LakeCache | None = None) -> None:
        self.root = root
        self.owner = owner
        self.cache = cache

    def __repr__(self) -> str:
        return f"Lake({str(self.root)!r})"

    def tables(self) -> dict[str, int]:
        """Rows per table.

        >>> import ioweather
        >>> ioweather.open_lake("my-lake").tables()["series"]
        84
        """
        with self.snapshot() as snapshot:
            return snapshot.tables()

    def sql(self, query: str, *, rows: int = 10_000, seconds: float = 30.0, memory: str = "1GiB") -> SqlResult:
        """One SELECT or EXPLAIN in DuckDB's SQL, as `ioweather.sql`."""
        with self.snapshot() as snapshot:
            return run_user_sql(snapshot, query, Limits(rows, seconds, memory))

    def seen_by(self, owner: Owner | None) -> Lake:
        return Lake(self.root, owner, self.cache)

    @property
    def facility(self) -> Facility:
        return load_facility(layout.facility_file(self.root))

    def append(
        self,
        table: str,
        rows: Frame | Checked,
        *,
        source: str,
        ingest_id: str | None = None,
        complaints: Complaints | None = None,
    ) -> int:
        """Add rows that are valid and not stored yet; returns how many there were.

        A Frame is checked here: rows that are left out are added to `complaints`, or logged. Readers check rows
        themselves (Checked), to name the file and to use the time at which it was read.
        """
        layout.lake_directory(self.root).close()
        if isinstance(rows, Frame):
            rows = TABLES[table].check(rows, now_ns())
            found = complaints if complaints is not None else Complaints()
            found.add(rows)
            if complaints is None and found.refused_rows:
                _LOG.warning("%s", found)
        where = layout.tables_dir(self.root)
        return appends.append(where, TABLES[table], rows.frame, source=source, ingest_id=ingest_id or new_ingest_id())

    def record(self, entries: Collection[LedgerEntry], rows_ingest_ids: str | None = None) -> None:
        """Write to the ledger, always after the rows. `rows_ingest_ids`: the ids of the rows of all these files."""
        by_source: dict[str, list[LedgerEntry]] = {}
        for entry in entries:
            by_source.setdefault(entry.source, []).append(entry)
        for source, group in by_source.items():
            values = dict(zip(LedgerEntry._fields, zip(*group, strict=True), strict=True))
            frame = TABLES["ingests"].frame(
                {
                    **{name: values[name] for name in ("digest", "path", "bytes", "status", "reason", "message")},
                    "rows_ingest_ids": rows_ingest_ids or values["rows_ingest_ids"],
                    "rows": [json.dumps(dict(rows), sort_keys=True) for rows in values["rows"]],
                    "refused_count": values["refused_rows"],
                    "flagged_count": values["flagged_rows"],
                    "ingested_ns": now_ns(),
                    "software_version": __version__,
                },
            )
            self.append("ingests", frame, source=source)

    def snapshot(self) -> Snapshot:
        """All tables at their current versions."""
        if self.cache is None:
            return Snapshot(self.root, self.pinned(), self.facility, self.owner)
        # The marks first: after a commit in between, files are newer than their mark, and are listed again.
        marks = {name: mark_of(self.root, (name,)) for name in LEDGER_FIRST}
        newest = partial(newest_files, layout.tables_dir(self.root))
        pinned = {
            name: self.cache.get(("files", name), mark, partial(newest, TABLES[name])) for name, mark in marks.items()
        }
        return Snapshot(self.root, pinned, self.facility, self.owner, cache=self.cache, marks=marks)

    def pinned(self) -> Mapping[str, TableFiles]:
        return PinnedTables(layout.tables_dir(self.root), LEDGER_FIRST)


def open_lake(path: str | os.PathLike[str] | None = None, *, create: bool = False) -> Lake:
    """The lake at `path`, at IOWEATHER_LAKE, or in the user's data home. With `create`, made if absent.

    >>> import ioweather
    >>> ioweather.open_lake("my-lake")
    Lake('my-lake')
    """
    root = Path(path) if path is not None else layout.default_lake_dir()
    if not layout.is_lake(root):
        if not create:
            raise LakeError(
                f"There is no lake at {root}.", hint="Make one with `ioweather ingest FILES`, or name one with --lake."
            )
        layout.create_lake(root)
    elif create:
        layout.lake_directory(root).close()
    layout.check_version(root)
    return Lake(root)


def lake_at(lake: Lake | str | os.PathLike[str] | None, *, create: bool = False) -> Lake:
    """A lake, or the one in that directory; None is the person's own."""
    return lake if isinstance(lake, Lake) else open_lake(lake, create=create)


class Place:
    """The lake that a question reads, opened on first use. `asked` is a lake, its directory, or None: the person's own,
    where there is one."""

    def __init__(self, asked: Lake | str | os.PathLike[str] | None, until: ExitStack) -> None:
        self._asked = asked
        self._until = until
        self.opened: Snapshot | None = None

    @property
    def was_named(self) -> bool:
        return self._asked is not None

    @property
    def is_there(self) -> bool:
        """Whether there is a lake to open; opening a named lake that is missing is an error."""
        return self.was_named or layout.is_lake(layout.default_lake_dir())

    @property
    def directory(self) -> Path | None:
        if self._asked is None:
            return layout.default_lake_dir() if self.is_there else None
        return self._asked.root if isinstance(self._asked, Lake) else Path(self._asked)

    @cached_property
    def lake(self) -> Lake:
        return lake_at(self._asked)

    @property
    def snapshot(self) -> Snapshot:
        if self.opened is None:
            self.opened = self._until.enter_context(self.lake.snapshot())
        return self.opened

    def snapshot_if_there(self) -> Snapshot | None:
        return self.snapshot if self.is_there else None

    @property
    def facility(self) -> Facility:
        """Of a log alone nothing is known of where it ran."""
        if self.opened is not None:
            return self.opened.facility
        is_lake = self.was_named and self.directory is not None and layout.is_lake(self.directory)
        return self.lake.facility if is_lake else Facility()
