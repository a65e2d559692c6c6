"""A user's SQL in a sandbox: one SELECT or EXPLAIN over the pinned tables, bounded in memory, rows and time.

The connection may open exactly the Parquet files of the snapshot and nothing else: `allowed_paths`, not
`allowed_directories`, because with a directory a COPY could overwrite a part of the lake.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb

from ioweather.core.errors import QueryRefused
from ioweather.store.convert import literal, quote
from ioweather.store.snapshot import QUARANTINE, Snapshot

_ALLOWED = ("SELECT", "EXPLAIN")


@dataclass(frozen=True)
class Limits:
    rows: int = 10_000
    seconds: float = 30.0
    memory: str = "1GiB"


@dataclass(frozen=True)
class SqlResult:
    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool


def run_user_sql(snapshot: Snapshot, sql: str, limits: Limits = Limits()) -> SqlResult:  # noqa: B008 - frozen
    statement = _only_statement(sql)
    con = _sandbox(snapshot, limits)
    try:
        with _time_limit(con, limits.seconds):
            con.execute(statement)
            columns = con.description or []
            rows = con.fetchmany(limits.rows + 1)
    except duckdb.InterruptException:
        raise QueryRefused(
            f"The query ran longer than {limits.seconds:g} s and was stopped.", hint="Ask for less, or give --timeout."
        ) from None
    except duckdb.OutOfMemoryException:
        raise QueryRefused(
            f"The query needed more than {limits.memory} of memory and was stopped.",
            hint="Aggregate, or filter by day.",
        ) from None
    except duckdb.Error as error:
        raise QueryRefused(f"DuckDB says: {error}") from None
    finally:
        con.close()
    return SqlResult(
        columns=tuple(column[0] for column in columns),
        types=tuple(str(column[1]) for column in columns),
        rows=tuple(tuple(row) for row in rows[: limits.rows]),
        truncated=len(rows) > limits.rows,
    )


def _only_statement(sql: str) -> duckdb.Statement:
    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryRefused(f"DuckDB says: {error}") from None
    if len(statements) != 1:
        raise QueryRefused(f"Expected one statement, found {len(statements)}.")
    kind = str(statements[0].type).rsplit(".", 1)[-1].removesuffix("_STATEMENT")
    if kind not in _ALLOWED:
        raise QueryRefused(f"{kind} is not allowed here.", hint="Only SELECT and EXPLAIN are; the lake is read-only.")
    return statements[0]


def _sandbox(snapshot: Snapshot, limits: Limits) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(":memory:")
    for name, files in snapshot.pinned.items():
        con.execute(f"CREATE VIEW {quote(name)} AS {files.view()}")
    con.execute(f"CREATE VIEW quarantine AS {QUARANTINE}")
    paths = ", ".join(literal(uri) for files in snapshot.pinned.values() for uri in files.uris)
    con.execute(f"SET memory_limit = {literal(limits.memory)}")
    con.execute("SET temp_directory = ''")  # no spilling: it would write files
    con.execute(f"SET allowed_paths = [{paths}]")
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")
    return con


@contextmanager
def _time_limit(con: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, con.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
