"""SQL of users over the tables of a snapshot: one SELECT, bounded in memory, rows and time.

DuckDB may open exactly the table files of the snapshot (`allowed_paths`). It takes that as leave to write them too, so
the query runs in a process that cannot write (`store.sandbox`). Paths are relative to the lake: a query that
shows one does not show where the lake is.
"""

from __future__ import annotations

from dataclasses import replace

from ioweather.core.errors import QueryRefused
from ioweather.lake.database import literal, quote
from ioweather.lake.sandbox import Limits, SqlResult, run_confined
from ioweather.lake.snapshot import QUARANTINE, Snapshot

__all__ = ["Limits", "SqlResult", "run_user_sql"]


def run_user_sql(snapshot: Snapshot, sql: str, limits: Limits = Limits()) -> SqlResult:  # noqa: B008 - frozen
    """Run the query. Raises QueryRefused where it is not one SELECT, fails, or exceeds a limit."""
    if snapshot.owner is not None:
        raise QueryRefused("SQL sees the whole lake, and is not for one person's part of it.")
    directory = str(snapshot.root.resolve())
    tables = {
        name: replace(files, uris=tuple(uri.removeprefix(f"{directory}/") for uri in files.uris))
        for name, files in snapshot.pinned.items()
    }
    paths = [uri for files in tables.values() for uri in files.uris]
    setup = [
        *(f"CREATE VIEW {quote(name)} AS {files.view()}" for name, files in tables.items()),
        f"CREATE VIEW quarantine AS {QUARANTINE}",
        f"SET memory_limit = {literal(limits.memory)}",
        "SET threads = 2",
        "SET TimeZone = 'UTC'",
        "SET python_enable_replacements = false",  # Python's variables are no tables
        "SET temp_directory = ''",  # no spilling: it would write files
        f"SET allowed_paths = [{', '.join(map(literal, paths))}]",
        "SET enable_external_access = false",
        "SET lock_configuration = true",
    ]
    return run_confined(directory, paths, setup, sql, limits)
