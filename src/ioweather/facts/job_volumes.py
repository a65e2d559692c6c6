"""What servers counted of each job, read from the lake: the need `volumes`."""

from __future__ import annotations

from typing import Final

from ioweather.core.contracts import Period
from ioweather.core.frames import Frame
from ioweather.core.tables import Quality
from ioweather.core.tables.schema import specs_of
from ioweather.lake.database import fetch_frame
from ioweather.lake.snapshot import Snapshot

_COLUMNS: Final = specs_of("""
    job_key=text job_id=int64? cluster=text? uid=int64? exe=text? start_ns=int64 end_ns=int64 read_bytes=int64
    write_bytes=int64
""")


def server_volumes(snapshot: Snapshot, period: Period) -> Frame:
    """A row per job: its keys, first and last moment, bytes read and written. Counts of a whole life only of jobs of
    which there is nothing finer, and of these the longest."""
    life = int(Quality.WHOLE_LIFE)
    sql = f"""WITH counted AS ({snapshot.rows("job_operations", period_ns=period)}),
        fine AS (SELECT DISTINCT system, job_key FROM counted WHERE quality & {life} = 0),
        once AS (SELECT * FROM counted WHERE quality & {life} = 0 UNION ALL (
            SELECT * FROM counted ANTI JOIN fine USING (system, job_key)
            QUALIFY row_number() OVER (PARTITION BY system, job_key, component, operation, start_ns
                                       ORDER BY interval_ns DESC) = 1))
        SELECT job_key, job_id, cluster, uid, any_value(exe) AS exe, min(start_ns) AS start_ns,
            max(start_ns + interval_ns) AS end_ns,
            TRY_CAST(coalesce(sum(bytes) FILTER (operation = 'read'), 0) AS BIGINT) AS read_bytes,
            TRY_CAST(coalesce(sum(bytes) FILTER (operation = 'write'), 0) AS BIGINT) AS write_bytes
        FROM once GROUP BY job_key, job_id, cluster, uid ORDER BY ALL"""
    return fetch_frame(snapshot.bare, sql, _COLUMNS)
