"""Scans whose entries came in alone, from anybody's CSV or Parquet: counted here, so that exhibits find their bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ioweather.core.words import names_of
from ioweather.lake.lake import Lake, new_ingest_id
from ioweather.readers.scan.lists import Entries, ListTally
from ioweather.readers.scan.scan_rows import ScanFacts, scan_frames
from ioweather.readers.scan.tally import original_name

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
