"""Files with several names: counted once, when all their names are in."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice
from typing import Final

from ioweather.sources.scan.owners import Owner
from ioweather.sources.scan.plan import LinkRecord
from ioweather.sources.scan.tally import Files, Tally

_BATCH: Final = 4096
_AMOUNTS: Final = ("size", "capacity", "mtime", "atime", "ctime")


def linked_tally(records: Iterable[LinkRecord], now_seconds: int) -> Tally:
    """The tally of files with several names; a record each."""
    tally = Tally(now_seconds)
    seen = int(time.time())
    source = iter(records)
    while batch := list(islice(source, _BATCH)):
        by_owner: dict[Owner, list[LinkRecord]] = {}
        for record in batch:
            by_owner.setdefault(Owner(record.uid, record.gid, record.project or None), []).append(record)
            tally.add("depth", record.depth, 1, record.size or 0)
            tally.add("link_count", record.links.bit_length(), 1, record.size or 0)
        for owner, group in by_owner.items():
            size, capacity, mtime, atime, ctime = (_column(group, name) for name in _AMOUNTS)
            files = Files([record.extension for record in group], size, capacity, mtime, atime, ctime, named=False)
            tally.add_files(owner, files, seen)
    return tally


def _column(records: list[LinkRecord], name: str) -> list[int] | None:
    """A list may not say everything of its files."""
    values = [getattr(record, name) for record in records]
    return None if None in values else values
