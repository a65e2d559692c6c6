"""A user's SQL over the pinned tables: one SELECT or EXPLAIN, bounded in memory, rows and time.

The connection may open exactly the Parquet files of the snapshot and nothing else: `allowed_paths`, not
`allowed_directories`, because with a directory a COPY could overwrite a part of the lake.
"""

from __future__ import annotations

from ioweather.core.errors import QueryRefused
from ioweather.store.convert import literal, quote
from ioweather.store.sandbox import Limits, SqlResult, run, run_apart
from ioweather.store.snapshot import QUARANTINE, Snapshot

__all__ = ["Limits", "SqlResult", "run_user_sql"]


def run_user_sql(
    snapshot: Snapshot,
    sql: str,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    *,
    apart: bool = False,
) -> SqlResult:
    """`apart`: in a process of its own, with walls of the kernel around it, and cells as JSON has them."""
    if snapshot.owner is not None:
        raise QueryRefused("SQL sees the whole lake, and is not for one person's part of it.")
    return (run_apart if apart else run)(_setup(snapshot, limits), sql, limits)


def _setup(snapshot: Snapshot, limits: Limits) -> list[str]:
    views = [f"CREATE VIEW {quote(name)} AS {files.view()}" for name, files in snapshot.pinned.items()]
    paths = ", ".join(literal(uri) for files in snapshot.pinned.values() for uri in files.uris)
    return [
        *views,
        f"CREATE VIEW quarantine AS {QUARANTINE}",
        f"SET memory_limit = {literal(limits.memory)}",
        "SET threads = 2",
        "SET TimeZone = 'UTC'",
        "SET temp_directory = ''",  # no spilling: it would write files
        f"SET allowed_paths = [{paths}]",
        "SET enable_external_access = false",
        "SET lock_configuration = true",
    ]
