"""What follows from new rows: which table is made again from which, when, and by whom. Nothing else says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ioweather.core.frames import Frame
from ioweather.store.lake import Lake
from ioweather.workflows.ingest.rollups import refresh_rollups
from ioweather.workflows.ingest.scan_entries import tally_entries


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


FOLLOWS_ROWS: Final = (FollowsRows("responses", "response_rollups", refresh_rollups),)
FOLLOWS_MAPPING: Final = (FollowsMapping("scan_entries", "scans", tally_entries),)


def follow_rows(lake: Lake, table: str, written: Frame) -> dict[str, int]:
    """Rows that changed, by table."""
    return {each.makes: each.make(lake, written) for each in FOLLOWS_ROWS if each.table == table}


def follow_mapping(lake: Lake, table: str) -> dict[str, int]:
    return {each.makes: each.make(lake) for each in FOLLOWS_MAPPING if each.table == table}
