"""A table of the lake, or a part of it, as one Parquet or CSV file for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import duckdb

from ioweather.core.errors import QueryRefused, UsageError
from ioweather.core.tables import TABLES
from ioweather.lake.convert import literal, quote
from ioweather.lake.snapshot import Snapshot

_FORMS: Final = {
    ".parquet": "FORMAT parquet, COMPRESSION zstd",
    ".csv": "FORMAT csv, HEADER true",
    ".csv.gz": "FORMAT csv, HEADER true, COMPRESSION gzip",
}
ENDINGS: Final = tuple(_FORMS)


def export_table(
    snapshot: Snapshot, table: str, out: Path, *, where: str = "", period_ns: tuple[int, int] | None = None
) -> int:
    """Write rows of a table in the order of time; returns how many. Of revisable rows, those that count."""
    if table not in TABLES:
        raise UsageError(f"There is no table {table!r}.", hint=f"Tables: {', '.join(TABLES)}.")
    form = next((_FORMS[ending] for ending in sorted(_FORMS, key=len, reverse=True) if out.name.endswith(ending)), None)
    if form is None:
        raise UsageError(f"--out {out}: the ending must be one of {', '.join(ENDINGS)}.")
    time = quote(TABLES[table].time)
    conditions = [f"({where}\n)"] if where else []  # the line break ends a comment in it
    if period_ns is not None:
        conditions.append(f"{time} >= {period_ns[0]} AND {time} < {period_ns[1]}")
    query = f"SELECT * FROM {quote(table)} WHERE {' AND '.join(conditions) or 'TRUE'} ORDER BY {time}"
    _one_select(query)
    draft = out.with_name(f".{out.name}.partial")
    try:
        copied = snapshot.query(f"COPY ({query}) TO {literal(draft)} ({form})")
        rows: int = copied.fetchall()[0][0]
        draft.replace(out)
    except duckdb.IOException as error:
        raise UsageError(f"--out {out}: {error}") from None
    except duckdb.Error as error:
        raise QueryRefused(f"DuckDB says: {error}") from None
    finally:
        draft.unlink(missing_ok=True)
    return rows


def _one_select(query: str) -> None:
    try:
        kinds = [str(statement.type).rsplit(".", 1)[-1] for statement in duckdb.extract_statements(query)]
    except duckdb.Error as error:
        raise QueryRefused(f"DuckDB says: {error}") from None
    if kinds not in (["SELECT"], ["SELECT_STATEMENT"]):
        raise QueryRefused("--where takes one condition.", hint="For example: --where \"system = 'scratch'\"")
