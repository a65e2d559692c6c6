"""What follows from new rows: which table is made again from which, when, and by whom. Nothing else says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ioweather.core.frames import Frame
from ioweather.store.lake import Lake
from ioweather.workflows.ingest.rollups import refresh_rollups


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


def _tally_entries(lake: Lake) -> int:
    from ioweather.workflows.ingest.listed_entries import tally_entries

    return tally_entries(lake)


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
FOLLOWS_MAPPING: Final = (FollowsMapping("scan_entries", "scans", _tally_entries),)
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
