"""What follows from new rows: which table is made again from which, when, and by whom. Nothing else says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ioweather.core.frames import Frame
from ioweather.core.words import names_of
from ioweather.sources.scan.lists import Entries, ListTally
from ioweather.sources.scan.names import original_name
from ioweather.sources.scan.rows import ScanFacts, scan_frames
from ioweather.store.lake import Lake, new_ingest_id
from ioweather.workflows.ingest.rollups import refresh_rollups

# Scans whose entries came in alone, from anybody's CSV or Parquet: counted here, so that exhibits find their bins.

_BATCH: Final = 50_000
_NUMBERS: Final = names_of("size_bytes capacity_bytes mtime_ns atime_ns ctime_ns uid gid link_count device inode")
_NEW: Final = """
SELECT scan_id, start_ns, any_value(source) FROM scan_entries
WHERE scan_id NOT IN (SELECT scan_id FROM scans) GROUP BY ALL ORDER BY ALL
"""


def tally_entries(lake: Lake) -> int:
    """Make `scans` and `scan_bins` of entries that have none; returns how many scans that were."""
    with lake.snapshot() as snapshot:
        if not snapshot.pinned["scan_entries"].uris:
            return 0
        found = snapshot.query(_NEW).fetchall()
        for scan_id, start_ns, source in found:
            counted = ListTally(start_ns)
            rows = snapshot.query(
                f"SELECT path, escaped, kind, {', '.join(_NUMBERS)} FROM scan_entries "
                "WHERE scan_id = ? AND start_ns = ? ORDER BY path",
                [scan_id, start_ns],
            )
            while batch := rows.fetchmany(_BATCH):
                for entries in _entries(batch):
                    counted.add(entries)
            root, tally = counted.finish()
            facts = ScanFacts(scan_id, start_ns, None, root, f"mount:{root}")
            ingest_id = new_ingest_id()
            for table, frame in scan_frames(facts, tally):
                lake.append(table, frame, source=source, ingest_id=ingest_id)
    return len(found)


def _entries(rows: Sequence[tuple[Any, ...]]) -> list[Entries]:
    """Rows with the same columns known go together; what is not known of some must not hide it of others."""
    groups: dict[tuple[bool, ...], list[tuple[Any, ...]]] = {}
    for row in rows:
        groups.setdefault(tuple(value is not None for value in row[3:]), []).append(row)
    found = []
    for known, group in groups.items():
        columns = [list(column) for column in zip(*(row[3:] for row in group), strict=True)]
        size, capacity, mtime, atime, ctime, uid, gid, links, device, inode = (
            column if there else None for column, there in zip(columns, known, strict=True)
        )
        paths = [original_name(row[0], bool(row[1])).decode("utf-8", "surrogateescape") for row in group]
        kinds = [row[2] or "file" for row in group]
        found.append(Entries(paths, kinds, size, capacity, mtime, atime, ctime, uid, gid, links, device, inode))
    return found


@dataclass(frozen=True)
class FollowsRows:
    """After rows of `table` were written, before the ledger says so: also where none is new, for who wrote them may
    have been stopped here. `make` returns how many rows of `makes` changed."""

    table: str
    makes: str
    make: Callable[[Lake, Frame], int]


@dataclass(frozen=True)
class FollowsMapping:
    """After all files that were mapped to `table` are in: a source of our own brings rows of `makes` itself, anybody's
    CSV or Parquet does not."""

    table: str
    makes: str
    make: Callable[[Lake], int]


@dataclass(frozen=True)
class FollowsArrival:
    """After all files are in, where rows of one of `tables` are new, from the time of the first of them on: a search is
    too long to be made for every piece."""

    tables: tuple[str, ...]
    makes: str
    make: Callable[[Lake, int], int]


def _search_health(lake: Lake, since_ns: int) -> int:
    tables = lake.pinned()
    if not (tables["series"].uris or tables["responses"].uris):
        return 0
    from ioweather.workflows.health import find_sick_components  # what only stores jobs does not load it

    return find_sick_components(lake, since_ns)


def _learn_slowness(lake: Lake, since_ns: int) -> int:
    """After what is sick is known: of runs beside what servers did. It is kept beside the tables."""
    tables = lake.pinned()
    if not (tables["series"].uris and tables["job_io"].uris):
        return 0
    from ioweather.workflows.slowed_runs import learn_slowness

    learn_slowness(lake, since_ns)
    return 0


def _search_episodes(lake: Lake, _since_ns: int) -> int:
    from ioweather.workflows.events import find_episodes

    return find_episodes(lake)


FOLLOWS_ROWS: Final = (FollowsRows("responses", "response_rollups", refresh_rollups),)
FOLLOWS_MAPPING: Final = (FollowsMapping("scan_entries", "scans", tally_entries),)
FOLLOWS_ARRIVAL: Final = (
    FollowsArrival(("series", "responses", "applications", "job_operations"), "events", _search_health),
    FollowsArrival(("series", "applications", "job_operations"), "events", _learn_slowness),
    FollowsArrival(("responses",), "events", _search_episodes),
)
SEARCHED: Final = frozenset(table for each in FOLLOWS_ARRIVAL for table in each.tables)


def follow_rows(lake: Lake, table: str, written: Frame) -> dict[str, int]:
    """Rows that changed, by table."""
    return {each.makes: each.make(lake, written) for each in FOLLOWS_ROWS if each.table == table}


def follow_arrival(lake: Lake, first_ns: Mapping[str, int]) -> dict[str, int]:
    """`first_ns`: the time of the first new row, by table. Rows that changed, by table."""
    made: dict[str, int] = {}
    for each in FOLLOWS_ARRIVAL:
        new = [first_ns[table] for table in each.tables if table in first_ns]
        if new:
            made[each.makes] = made.get(each.makes, 0) + each.make(lake, min(new))
    return made


def follow_mapping(lake: Lake, table: str) -> dict[str, int]:
    return {each.makes: each.make(lake) for each in FOLLOWS_MAPPING if each.table == table}
