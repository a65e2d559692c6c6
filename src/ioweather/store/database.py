"""DuckDB within this process: one database that holds nothing, and a connection for everybody who asks.

The engine is loaded with the first connection: what was kept is shown without it. To make a database takes 20 ms of
processor time, a connection to one takes 1 ms. What a connection makes is TEMP: no other connection sees it, and it
goes when the connection is closed.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    import duckdb

WRITER_MEMORY: Final = "512MiB"
Connect: TypeAlias = "Callable[[], duckdb.DuckDBPyConnection]"


def engine() -> Any:
    """`duckdb` without its relations, which take four times as long to load: who asks in SQL, by `execute`, needs none.
    They are apart in a module that is not promised: without it, the whole is loaded."""
    try:
        import _duckdb
    except ImportError:
        import duckdb

        return duckdb
    return _duckdb


def loaded_engine() -> Any:
    """None where nobody has asked it anything: an error is not of it then."""
    return sys.modules.get("_duckdb") or sys.modules.get("duckdb")


def connection() -> duckdb.DuckDBPyConnection:
    """To be closed by the caller. Only of the thread that asked, as every connection of DuckDB is."""
    return _database(os.getpid(), "").cursor()


@contextmanager
def later(memory: str = "") -> Iterator[Connect]:
    """What gives one connection, made when it is first asked for: most commits need none. With a limit of memory, its
    database is another one, and puts on disk what does not fit."""
    made: list[duckdb.DuckDBPyConnection] = []

    def connect() -> duckdb.DuckDBPyConnection:
        if not made:
            made.append(_database(os.getpid(), memory).cursor())
        return made[0]

    try:
        yield connect
    finally:
        for con in made:
            con.close()


def or_of_duckdb(*errors: type[Exception]) -> tuple[type[Exception], ...]:
    """For an `except`, which asks when there is an error."""
    return (*errors, found.Error) if (found := loaded_engine()) else errors


def _remove(place: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child ends too
        shutil.rmtree(place, ignore_errors=True)


@cache
def _database(_process: int, memory: str) -> duckdb.DuckDBPyConnection:
    # A forked child has none of its parent's threads: it makes its own.
    database: duckdb.DuckDBPyConnection = engine().connect(":memory:")
    # Files of the lake do not change once they are written, and one answer reads the same ones many times.
    database.execute("SET GLOBAL parquet_metadata_cache = true")
    if memory:
        place = tempfile.mkdtemp(prefix="ioweather-")  # private (mode 0700), also in a shared /tmp
        atexit.register(_remove, place, os.getpid())
        database.execute(f"SET GLOBAL memory_limit = '{memory}'")
        database.execute(f"SET GLOBAL temp_directory = '{place}'")
    return database
