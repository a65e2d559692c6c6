"""DuckDB within this process: one database that holds nothing, and a connection for everybody who asks.

The library is loaded with the first connection: what was kept is shown without it. To make a database takes 30 ms of
processor time, a connection to one takes 1 ms. What a connection makes is TEMP: no other connection sees it, and it
goes when the connection is closed.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def connection() -> duckdb.DuckDBPyConnection:
    """To be closed by the caller. Only of the thread that asked, as every connection of DuckDB is."""
    return _database(os.getpid()).cursor()


@cache
def _database(_process: int) -> duckdb.DuckDBPyConnection:
    import duckdb

    # A forked child has none of its parent's threads: it makes its own.
    database = duckdb.connect(":memory:")
    # Files of the lake do not change once they are written, and one answer reads the same ones many times.
    database.execute("SET GLOBAL parquet_metadata_cache = true")
    return database
