"""Somebody's Parquet file, opened by DuckDB: that file and nothing else, whatever its name may hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ioweather.core.errors import CorruptInput

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@contextmanager
def opened_parquet(path: Path) -> Iterator[tuple[DuckDBPyConnection, str]]:
    """A connection, and the file as a table of its own SQL. What DuckDB cannot read there is corrupt."""
    import duckdb

    quoted = "'" + str(path.resolve()).replace("'", "''") + "'"
    with closing(duckdb.connect(":memory:")) as con:
        con.execute(f"SET allowed_paths = [{quoted}]")
        con.execute("SET enable_external_access = false")
        con.execute("SET lock_configuration = true")
        try:
            yield con, f"read_parquet({quoted})"
        except (duckdb.Error, OSError) as error:
            reason = str(error).splitlines()[0]
            raise CorruptInput(f"{path} cannot be read as Parquet: {reason}.", hint="Is the file complete?") from None
