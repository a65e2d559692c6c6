"""What follows from new rows: which table is made again from which, when, and by whom. Nothing else says so."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ioweather.core.errors import IoweatherError, LakeError
from ioweather.core.frames import Frame
from ioweather.ingestion.response_rollups import refresh_rollups
from ioweather.lake.lake import Lake

_LOG = logging.getLogger("ioweather.ingest")
# Of one search after an ingest. `lake compact --everything` searches all rows without a limit.
_MOST_SECONDS: Final = 900.0
_SEARCH_AGAIN: Final = "Run `ioweather lake compact --everything` to do it again."
_READ_AGAIN: Final = "Run `ioweather ingest --again` with these files to do it again."


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

    name: str
    tables: tuple[str, ...]
    makes: str
    make: Callable[[Lake, int, float], int]  # since when, and for how many seconds at most


def _tally_entries(lake: Lake) -> int:
    from ioweather.ingestion.listed_entries import tally_entries

    return tally_entries(lake)


def _search_health(lake: Lake, since_ns: int, most_seconds: float) -> int:
    tables = lake.pinned()
    if not (tables["series"].uris or tables["responses"].uris):
        return 0
    from ioweather.diagnosis.health_query import find_sick_components  # what only stores jobs does not load it

    return find_sick_components(lake, since_ns, most_seconds)


def _learn_slowness(lake: Lake, since_ns: int, most_seconds: float) -> int:
    """After what is sick is known: of runs beside what servers did. It is kept beside the tables."""
    tables = lake.pinned()
    if not (tables["series"].uris and tables["job_io"].uris):
        return 0
    from ioweather.diagnosis.blame_query import learn_slowness

    learn_slowness(lake, since_ns, most_seconds)
    return 0


def _search_episodes(lake: Lake, _since_ns: int, _most_seconds: float) -> int:
    from ioweather.diagnosis.events import find_episodes

    return find_episodes(lake)


FOLLOWS_ROWS: Final = (FollowsRows("responses", "response_rollups", refresh_rollups),)
FOLLOWS_MAPPING: Final = (FollowsMapping("scan_entries", "scans", _tally_entries),)
FOLLOWS_ARRIVAL: Final = (
    FollowsArrival(
        "The search for unhealthy components",
        ("series", "responses", "applications", "job_operations"),
        "events",
        _search_health,
    ),
    FollowsArrival(
        "The comparison of slow runs with the load",
        ("series", "applications", "job_operations"),
        "events",
        _learn_slowness,
    ),
    FollowsArrival("The search for slow episodes", ("responses",), "events", _search_episodes),
)
SEARCHED: Final = frozenset(table for each in FOLLOWS_ARRIVAL for table in each.tables)


def follow_rows(lake: Lake, table: str, written: Frame, missing: list[str] | None = None) -> dict[str, int]:
    """Rows that changed, by table. What fails is added to `missing`; the rows it would be made of stay. Where the lake
    itself cannot be written, that is raised: running the same command again completes it."""
    made: dict[str, int] = {}
    for each in FOLLOWS_ROWS:
        if each.table == table:
            try:
                made[each.makes] = each.make(lake, written)
            except (LakeError, OSError):
                raise
            except Exception as error:
                _note(f"`{each.makes}` was not brought up to date", error, _READ_AGAIN, missing)
    return made


def follow_arrival(
    lake: Lake, first_ns: Mapping[str, int], missing: list[str] | None = None, most_seconds: float = _MOST_SECONDS
) -> dict[str, int]:
    """Search the rows from `first_ns` on, the time of the first new row by table; for `most_seconds` each. Returns how
    many rows changed, by table. What fails or is cut short is added to `missing`; all rows stay."""
    made: dict[str, int] = {}
    for each in FOLLOWS_ARRIVAL:
        new = [first_ns[table] for table in each.tables if table in first_ns]
        if new:
            try:
                made[each.makes] = made.get(each.makes, 0) + each.make(lake, min(new), most_seconds)
            except Exception as error:
                _note(f"{each.name} did not finish", error, _SEARCH_AGAIN, missing)
    return made


def _note(what: str, error: Exception, repeat: str, missing: list[str] | None) -> None:
    reason = str(error) if isinstance(error, IoweatherError) else f"{type(error).__name__}: {error}"
    text = f"{what}: {reason.rstrip('.')}. {repeat}"
    _LOG.warning("%s", text, exc_info=not isinstance(error, IoweatherError))
    if missing is not None:
        missing.append(text)


def follow_mapping(lake: Lake, table: str) -> dict[str, int]:
    return {each.makes: each.make(lake) for each in FOLLOWS_MAPPING if each.table == table}
