"""LMT's database, whichever engine holds it: cumulative counters to series, INFO tables to topology.

`TIMESTAMP` is the local time at which a sample arrived, floored to the step; the counters of stamp T close the
interval that ends at T. A sample that is missing is made up for by the next one, which is then LATE; counters that
dropped belong to a server that restarted (RESET). The first stamp only opens the first interval.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from zoneinfo import ZoneInfo

import numpy as np

from ioweather.core.arrays import Ints
from ioweather.core.clock import local_to_ns
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, EmptyInput, UndatedInput
from ioweather.core.frames import Frame
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, NS, ns_to_datetime
from ioweather.sources.lmt.counters import CounterMemory
from ioweather.tables.series import COMPONENTS

# Many wall-clock times at once: a database of local times to UTC, through the days when clocks change.

_EPOCH = dt.datetime(1970, 1, 1)
# Zones change their offset on the half hour or the hour.
_BLOCK_SECONDS = 1800


def local_seconds_to_ns(local_seconds: Ints, zone: ZoneInfo) -> Ints:
    """UTC ns of wall-clock times (seconds since 1970-01-01 00:00 on that wall), in the order they were recorded.

    One look at the zone per half hour; only times that happen twice are placed one by one, after the one before.
    """
    blocks, member = np.unique(local_seconds // _BLOCK_SECONDS, return_inverse=True)
    offsets = np.empty((len(blocks), 2), np.int64)
    for row, block in enumerate(blocks.tolist()):
        naive = _EPOCH + dt.timedelta(seconds=block * _BLOCK_SECONDS)
        for fold in (0, 1):
            offset = naive.replace(tzinfo=zone, fold=fold).utcoffset()
            assert offset is not None
            offsets[row, fold] = offset // dt.timedelta(seconds=1)
    early, late = offsets[member, 0], offsets[member, 1]
    result: Ints = (local_seconds - early) * NS
    for position in np.nonzero(early != late)[0].tolist():
        naive = _EPOCH + dt.timedelta(seconds=int(local_seconds[position]))
        before = int(result[position - 1]) if position else None
        result[position] = local_to_ns(naive, zone, after_ns=before)
    return result


def offset_seconds(value_ns: int, zone: ZoneInfo) -> int:
    """How far the zone was ahead of UTC."""
    offset = ns_to_datetime(value_ns, zone).utcoffset()
    assert offset is not None
    return offset // dt.timedelta(seconds=1)


def ns_to_local_text(value_ns: int, zone: ZoneInfo) -> str:
    """What the wall clock showed, as the database writes it."""
    return ns_to_datetime(value_ns, zone).strftime("%Y-%m-%d %H:%M:%S")


NEEDED_TABLES = frozenset({"TIMESTAMP_INFO", "FILESYSTEM_INFO", "OST_INFO", "OST_DATA"})
# Samples are fetched and reduced in pieces of this length: a Cori-size one is 700,000 rows.
WINDOW_NS = 4 * HOUR_NS
MAX_SECONDS = 2**63 // NS - 2 * 86_400  # what fits into int64 ns, in any zone
# A poll reads this much before its period, so that its first samples have one to differ from.
LOOKBACK_NS = 10 * MINUTE_NS

Rows = Iterator[tuple[str, Frame]]


class Database(Protocol):
    """What an engine must do: tell its tables, and run a SELECT with '?' as placeholder."""

    where: str

    def tables(self) -> frozenset[str]: ...
    def query(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[Sequence[Any]]: ...


@dataclass(frozen=True, eq=False)
class Stamps:
    """TS_ID to step: sample `ids[i]` closes step `steps[i]`, which starts at first_ns + step * step_ns."""

    ids: Ints
    steps: Ints
    first_ns: int
    step_ns: int

    def between(self, first: int, end: int) -> Stamps:
        chosen = (self.steps >= first) & (self.steps < end)
        return Stamps(self.ids[chosen], self.steps[chosen], self.first_ns, self.step_ns)


@dataclass(frozen=True)
class Part:
    """One component of the INFO tables."""

    key: int
    name: str
    system: str
    server: str | None = None


@dataclass(frozen=True)
class Window:
    """The steps [first, end) as they are worked on, and the first of them that is wanted."""

    stamps: Stamps
    first: int
    end: int
    wanted: int

    @property
    def start_ns(self) -> int:
        return self.stamps.first_ns + self.first * self.stamps.step_ns


@dataclass(eq=False)
class Collection:
    """Everything about one database that is needed to read it piece by piece."""

    database: Database
    context: ReadContext
    stamps: Stamps
    targets: list[Part]
    servers: list[Part]
    metadata_targets: list[Part]
    metadata_servers: list[Part]
    operations: dict[int, str]
    memory: dict[str, CounterMemory] = field(default_factory=dict)


def open_collection(
    database: Database, context: ReadContext, *, since_ns: int | None = None, until_ns: int | None = None
) -> Collection:
    """Check that this is LMT, place its stamps in time, and read who is who."""
    _check(database, context)
    assert context.zone is not None
    return _collection(database, context, _stamps(database, context.zone, since_ns, until_ns))


def _check(database: Database, context: ReadContext) -> None:
    missing = NEEDED_TABLES - database.tables()
    if missing:
        raise CorruptInput(f"{database.where} is not an LMT database: it has no table {', '.join(sorted(missing))}.")
    if context.zone is None:
        raise UndatedInput(
            f"{database.where} holds local times without a zone.", hint="Give --zone, or set `zone` in facility.toml."
        )


def windows(stamps: Stamps, since_ns: int | None) -> Iterator[Window]:
    """All steps in pieces; those before `since_ns` (a whole minute) only give the rest something to differ from."""
    wanted = 0 if since_ns is None else -(-(since_ns // MINUTE_NS * MINUTE_NS - stamps.first_ns) // stamps.step_ns)
    wanted = max(wanted, 0)
    recorded = np.unique(stamps.steps)  # from -1: the stamp that only opens the first interval
    position = 0
    while position < len(recorded):  # from stamp to stamp, so that years without any cost nothing
        first = int(recorded[position])
        begin_ns = stamps.first_ns + max(first, 0) * stamps.step_ns
        border_ns = begin_ns // WINDOW_NS * WINDOW_NS + WINDOW_NS
        end = min(int(recorded[-1]) + 1, -(-(border_ns - stamps.first_ns) // stamps.step_ns))
        yield Window(stamps.between(first, end), first, end, wanted)
        position = int(np.searchsorted(recorded, end))


def _stamps(database: Database, zone: ZoneInfo, since_ns: int | None, until_ns: int | None) -> Stamps:
    condition: tuple[str, list[str]] = ("", [])
    if since_ns is not None:
        condition = " WHERE TIMESTAMP >= ?", [_begin_text(since_ns, zone)]
    rows = list(
        database.query(f"SELECT TS_ID, TIMESTAMP FROM TIMESTAMP_INFO{condition[0]} ORDER BY TS_ID", condition[1])
    )
    try:
        local = np.array([str(row[1]) for row in rows], dtype="datetime64[s]").astype(np.int64)
    except ValueError as error:
        raise CorruptInput(f"{database.where}: TIMESTAMP_INFO holds what is no time: {error}.") from None
    if len(local) and not 0 <= local.min() <= local.max() < MAX_SECONDS:
        raise CorruptInput(f"{database.where}: TIMESTAMP_INFO holds times outside the years 1970 to 2261.")
    ids = np.array([identity(row[0], "TIMESTAMP_INFO", database) for row in rows], np.int64)
    times = local_seconds_to_ns(local, zone) // NS
    if until_ns is not None:
        inside = times <= until_ns // MINUTE_NS * MINUTE_NS // NS
        ids, times = ids[inside], times[inside]
    moments = np.unique(times)
    if len(moments) < 2:
        raise EmptyInput(f"{database.where} has {len(moments)} time stamps in that period; at least two are needed.")
    distances = np.diff(moments)
    usual = distances[distances <= 3600]
    step = int(np.bincount(usual).argmax()) if len(usual) else int(distances.min())
    places = times // step
    first = int(places.min())
    return Stamps(ids, places - first - 1, first * step * NS, step * NS)


def recorded_ns(database: Database, context: ReadContext) -> tuple[int, int]:
    """The first and the last stamp."""
    _check(database, context)
    assert context.zone is not None
    (row,) = list(database.query("SELECT MIN(TIMESTAMP), MAX(TIMESTAMP) FROM TIMESTAMP_INFO"))
    if row[0] is None:
        raise EmptyInput(f"{database.where} has no time stamps.")
    local = np.array([str(stamp) for stamp in row], dtype="datetime64[s]").astype(np.int64)
    first, last = (int(moment) for moment in local_seconds_to_ns(local, context.zone))
    return first, last


def identity(value: Any, table: str, database: Database) -> int:
    """SQLite holds anything in any column."""
    if type(value) is not int:
        raise CorruptInput(f"{database.where}: {table} has the id {str(value)[:40]!r}, which is no number.")
    return value


def _begin_text(since_ns: int, zone: ZoneInfo) -> str:
    """The wall-clock time from which to read. Where clocks change about then, it lies well before the change, so that
    the order of samples tells the doubled hours apart."""
    start_ns = since_ns // MINUTE_NS * MINUTE_NS - LOOKBACK_NS
    if offset_seconds(start_ns - 2 * HOUR_NS, zone) != offset_seconds(start_ns + 2 * HOUR_NS, zone):
        start_ns -= 3 * HOUR_NS
    return ns_to_local_text(start_ns, zone)


def _collection(database: Database, context: ReadContext, stamps: Stamps) -> Collection:
    tables = database.tables()

    def rows(table: str, columns: str) -> list[Sequence[Any]]:
        found = list(database.query(f"SELECT {columns} FROM {table}")) if table in tables else []
        for row in found:
            identity(row[0], table, database)
        return found

    systems = {row[0]: str(row[1]) for row in rows("FILESYSTEM_INFO", "FILESYSTEM_ID, FILESYSTEM_NAME")}
    only = next(iter(systems.values()), context.system or "lustre")
    hosts = {row[0]: row for row in rows("OSS_INFO", "OSS_ID, FILESYSTEM_ID, HOSTNAME")}
    servers = [Part(row[0], str(row[2]), systems.get(row[1], only)) for row in hosts.values()]
    targets = [
        Part(
            row[0],
            str(row[2]),
            systems.get(hosts[row[1]][1], only) if row[1] in hosts else only,
            str(hosts[row[1]][2]) if row[1] in hosts else str(row[3]),
        )
        for row in rows("OST_INFO", "OST_ID, OSS_ID, OST_NAME, HOSTNAME")
    ]
    metadata = rows("MDS_INFO", "MDS_ID, FILESYSTEM_ID, MDS_NAME, HOSTNAME")
    return Collection(
        database, context, stamps, targets, servers,
        metadata_targets=[Part(row[0], str(row[2]), systems.get(row[1], only), str(row[3])) for row in metadata],
        metadata_servers=[Part(row[0], str(row[3]), systems.get(row[1], only)) for row in metadata],
        operations={row[0]: str(row[1]) for row in rows("OPERATION_INFO", "OPERATION_ID, OPERATION_NAME")},
    )  # fmt: skip


def topology(collection: Collection) -> Frame:
    """LMT does not say since when: since the day of the first stamp, so that polls of one day say the same."""
    kinds = (
        ("ost", collection.targets),
        ("oss", collection.servers),
        ("mdt", collection.metadata_targets),
        ("mds", collection.metadata_servers),
    )
    parts = [(kind, part) for kind, group in kinds for part in group]
    return COMPONENTS.frame(
        system=[part.system for _, part in parts],
        kind=[kind for kind, _ in parts],
        component=[part.name for _, part in parts],
        valid_from_ns=collection.stamps.first_ns // DAY_NS * DAY_NS,
        server=[part.server for _, part in parts],
        rows=len(parts),
    )
