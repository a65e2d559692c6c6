"""DuckDB within this process: one in-memory database, and a connection of it for each caller.

Making a database takes 20 ms of processor time, a connection to one takes 1 ms. Connections make TEMP objects only: no
other connection sees them, and they go when the connection is closed.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from typing import Final

import duckdb

WRITER_MEMORY: Final = "512MiB"


def connection(memory: str = "") -> duckdb.DuckDBPyConnection:
    """A connection for the calling thread, to be closed by the caller. With a limit of memory, its database is another
    one, which puts on disk what does not fit."""
    return _database(os.getpid(), memory).cursor()


def _remove(place: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child ends too
        shutil.rmtree(place, ignore_errors=True)


@cache
def _database(_process: int, memory: str) -> duckdb.DuckDBPyConnection:
    # A forked child has none of its parent's threads: it makes its own.
    database = duckdb.connect(":memory:")
    # Files of the lake do not change once they are written, and one answer reads the same ones many times.
    database.execute("SET GLOBAL parquet_metadata_cache = true")
    if memory:
        place = tempfile.mkdtemp(prefix="ioweather-")  # private (mode 0700), also in a shared /tmp
        atexit.register(_remove, place, os.getpid())
        database.execute(f"SET GLOBAL memory_limit = '{memory}'")
        database.execute(f"SET GLOBAL temp_directory = '{place}'")
    return database
