"""What a lake holds, apart from when and in which commits it came in: to set two lakes side by side."""

from __future__ import annotations

import hashlib

from ioweather.core.tables import TABLES
from ioweather.lake.lake import Lake

_COMMITS = ("ingest_id", "ingested_ns", "rows_ingest_ids")


def contents(lake: Lake) -> dict[str, tuple[int, str]]:
    """Table -> number of rows and a digest of all of them, sorted, to the last bit."""
    found = {}
    with lake.snapshot() as snapshot:
        for name in TABLES:
            if not snapshot.pinned[name].uris:
                continue
            columns = [row[0] for row in snapshot.query(f'DESCRIBE "{name}"').fetchall() if row[0] not in _COMMITS]
            listed = ", ".join(f'"{column}"' for column in columns)
            rows = snapshot.query(f'SELECT {listed} FROM "{name}"').fetchall()
            # repr of a float is exact; sorting text has no trouble with nulls.
            lines = sorted(map(repr, rows))
            found[name] = (len(lines), hashlib.sha256("\n".join(lines).encode()).hexdigest())
    return found
