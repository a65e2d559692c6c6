"""A lake as one person may see it: rows of the facility as they are, rows of people only where they are the person's.

A table that is not named here shows nothing, so that one added later is not shown by mistake.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import duckdb

from ioweather.core.visibility import Owner
from ioweather.lake.database import literal, quote
from ioweather.lake.table_files import TableFiles

# What storage does, as its servers, devices and probes tell; benchmarks are the facility's own.
OF_THE_FACILITY: Final = frozenset({"benchmarks", "components", "events", "response_rollups", "responses", "series"})
_UIDS, _LOGS, _JOBS, _IDS = "__own_uids", "__own_logs", "__own_jobs", "__own_job_ids"
_OWN_LOG = f"log_digest IN (SELECT log_digest FROM {_LOGS})"
# Which rows of a table are a person's; `$user` stands for the name.
OF_PEOPLE: Final[Mapping[str, str]] = {
    "applications": _OWN_LOG,
    "files": _OWN_LOG,
    "job_io": _OWN_LOG,
    # Without user and cluster: accounting must know one cluster only, and nobody else's job of that id.
    "job_operations": f"(uid IN (SELECT uid FROM {_UIDS}) OR (uid IS NULL AND (cluster, job_id) IN (FROM {_JOBS})) "
    f"OR (uid IS NULL AND cluster IS NULL AND job_id IN (FROM {_IDS})))",
    "jobs": f'("user" = $user OR ("user" IS NULL AND uid IN (SELECT uid FROM {_UIDS})))',
    "ingests": f"digest IN (SELECT log_digest FROM {_LOGS})",
    "scans": "TRUE",
    "verdicts": f"({_OWN_LOG} OR (log_digest IS NULL AND uid IN (SELECT uid FROM {_UIDS})))",
    "scan_bins": f"(owner_kind = 'all' OR (owner_kind = 'user' AND owner IN (SELECT uid::VARCHAR FROM {_UIDS})))",
    "scan_entries": f"uid IN (SELECT uid FROM {_UIDS})",
}
# Columns that name paths of others in rows that are everybody's, and jobs of others in a person's own rows.
_HIDDEN: Final = {"scans": ("errors", "largest"), "verdicts": ("culprits",)}


def note_who_owns_what(con: duckdb.DuckDBPyConnection, pinned: Mapping[str, TableFiles], owner: Owner) -> None:
    """Once per connection: the person's numbers, as accounting and facility file tell, and the logs of these."""
    listed = ", ".join(f"({uid})" for uid in owner.uids)
    known = f'SELECT uid FROM ({pinned["jobs"].scan()}) WHERE "user" = {literal(owner.user)} AND uid IS NOT NULL'
    said = f" UNION SELECT * FROM (VALUES {listed})" if listed else ""
    con.execute(f"CREATE TEMP TABLE {_UIDS} AS SELECT DISTINCT uid FROM ({known}{said})")
    con.execute(
        f"CREATE TEMP TABLE {_JOBS} AS SELECT DISTINCT cluster, raw_job_id FROM ({pinned['jobs'].scan()}) "
        f'WHERE "user" = {literal(owner.user)} OR ("user" IS NULL AND uid IN (SELECT uid FROM {_UIDS}))'
    )
    con.execute(
        f"CREATE TEMP TABLE {_IDS} AS SELECT raw_job_id FROM {_JOBS} "
        f"WHERE raw_job_id IS NOT NULL AND raw_job_id NOT IN ("
        f"SELECT raw_job_id FROM ({pinned['jobs'].scan()}) WHERE raw_job_id IS NOT NULL AND NOT coalesce("
        f'"user" = {literal(owner.user)}, uid IN (SELECT uid FROM {_UIDS}), FALSE)) '
        f"AND (SELECT count(DISTINCT cluster) FROM ({pinned['jobs'].scan()})) = 1"
    )
    con.execute(
        f"CREATE TEMP TABLE {_LOGS} AS SELECT log_digest FROM ({pinned['applications'].scan()}) "
        f"WHERE uid IN (SELECT uid FROM {_UIDS})"
    )


def own_uids(con: duckdb.DuckDBPyConnection) -> set[int]:
    """The person's numbers, on a connection that knows who owns what."""
    return {int(uid) for (uid,) in con.execute(f"SELECT uid FROM {_UIDS}").fetchall()}


def owned(table: str, select: str, owner: Owner) -> str:
    """The SELECT over a table, of what the person may see."""
    if table in OF_THE_FACILITY:
        return select
    condition = OF_PEOPLE.get(table, "FALSE").replace("$user", literal(owner.user))
    hidden = ", ".join(f"NULL::VARCHAR AS {quote(name)}" for name in _HIDDEN.get(table, ()))
    columns = f"* REPLACE ({hidden})" if hidden else "*"
    return f"SELECT {columns} FROM ({select}) WHERE {condition}"
