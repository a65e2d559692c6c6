"""What the dashboard asks a lake itself: what it holds, and which runs match a word."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, cast

from ioweather.core.cells import plain
from ioweather.core.results import SCHEMA_VERSION
from ioweather.core.words import names_of
from ioweather.lake.inventory import overlaps
from ioweather.lake.snapshot import Snapshot

_MOST_JOBS = 200
JOB_COLUMNS = names_of("job_id user account uid exe nprocs start_ns end_ns read_bytes write_bytes io_seconds")


@dataclass(frozen=True)
class SeriesHeld:
    filesystem: str
    component_kind: str
    source: str
    components: int
    interval_seconds: float
    first_ns: int
    end_ns: int
    rows: int


def series_held(snapshot: Snapshot) -> list[SeriesHeld]:
    found: dict[tuple[str, str, str], SeriesHeld] = {}
    for group in snapshot.series():
        key = (group.filesystem, group.component_kind, group.source)
        known = found.get(key)
        found[key] = SeriesHeld(
            *key,
            max(group.components, known.components if known else 0),
            min(group.interval_ns / 1e9, known.interval_seconds if known else math.inf),
            min(group.first_ns, known.first_ns) if known else group.first_ns,
            max(group.end_ns, known.end_ns) if known else group.end_ns,
            group.rows + (known.rows if known else 0),
        )
    return list(found.values())


# Where a row of a table ends, and whether the newest day has the last: a run lies in the day on which it began.
_ENDS: Final = {
    "series": ("start_ns + interval_ns", True),
    "applications": ("end_ns", False),
    "responses": ("start_ns", True),
}
TIMED_TABLES: Final = tuple(_ENDS)


def last_ns(snapshot: Snapshot, table: str) -> int | None:
    """Where the rows of a table end that may be seen."""
    days = snapshot.pinned[table].days()
    if not days:
        return None
    end, is_in_newest = _ENDS[table]
    rows = snapshot.rows(table, days={max(days)} if is_in_newest and snapshot.owner is None else None)
    (last,) = snapshot.bare.execute(f"SELECT max({end}) FROM ({rows})").fetchall()[0]
    return cast("int | None", last)


def inventory(snapshot: Snapshot) -> dict[str, Any]:
    quarantined = snapshot.query("SELECT path, reason, message FROM quarantine ORDER BY path LIMIT 500").fetchall()
    return {
        "schema_version": SCHEMA_VERSION,
        "facility": snapshot.facility.name,
        "simulated": snapshot.facility.simulated,
        "tables": {
            name: {"rows": rows, "version": snapshot.versions.get(name)} for name, rows in snapshot.tables().items()
        },
        "series": [vars(held) for held in series_held(snapshot)],
        "overlaps": overlaps(snapshot.series(), snapshot.facility),
        "quarantine": [dict(zip(("path", "reason", "message"), row, strict=True)) for row in quarantined],
    }


def find_jobs(snapshot: Snapshot, words: str = "", limit: int = 50) -> list[dict[str, Any]]:
    """Runs with a log, the newest first; every word must be in the job id, the program, the user or the account."""
    if not snapshot.pinned["applications"].uris:
        return []
    text = "concat_ws(' ', a.job_id::VARCHAR, a.exe, j.user, j.account, j.name, 'uid ' || a.uid)"
    wanted = words.split()[:8]
    where = " AND ".join([f"contains(lower({text}), lower(?))" for _ in wanted] or ["TRUE"])
    sql = f"""
        WITH j AS (SELECT raw_job_id, any_value(user) AS user, any_value(account) AS account, any_value(name) AS name
                   FROM jobs WHERE step = '' GROUP BY raw_job_id)
        SELECT a.job_id, j.user, j.account, a.uid, a.exe, a.nprocs, a.start_ns, a.end_ns, m.read_bytes, m.write_bytes,
               m.io_seconds
        FROM applications a LEFT JOIN j ON j.raw_job_id = a.job_id LEFT JOIN job_io m ON m.log_digest = a.log_digest
        WHERE {where} ORDER BY a.start_ns DESC LIMIT {min(max(limit, 1), _MOST_JOBS)}"""
    found = snapshot.query(sql, wanted)
    return [dict(zip(JOB_COLUMNS, map(plain, row), strict=True)) for row in found.fetchall()]
