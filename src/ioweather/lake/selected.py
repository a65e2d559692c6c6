"""Rows of one file by a SELECT of the user, run in a process of its own that can read that file and write none.

    python -m ioweather.lake.selected < question > rows        (JSON; a stream of Arrow)

The query sees the file as the view `input`, the variables `file` (for DuckDB's own readers) and `path` (where it is),
and the macros of `macros.sql`. The child is confined as in `lake.sandbox`; why it refuses goes to its standard error,
as JSON.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal

from ioweather.core.errors import CorruptInput, EmptyInput, QueryRefused, SourceError
from ioweather.lake.sandbox import Limits, checked_statement, give_up_rights, locking, start_child

if TYPE_CHECKING:
    from ioweather.core.frames import Frame
    from ioweather.core.tables.schema import TableSpec

_NULLS: Final = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
_CSV: Final = "all_varchar = true, header = true, skip = 0, comment = '', quote = '\"', escape = '\"'"
_MOST_COLUMNS: Final = 60


def read_select(
    path: Path,
    content: Path,
    form: Literal["csv", "json", "parquet"],
    delimiter: str,
    sql: str,
    spec: TableSpec,
    known: Mapping[str, object],
    zone: str | None,
    limits: Limits,
) -> Iterator[Frame]:
    """Frames of the table, from the `content` of the file at `path`; errors name the latter.

    `known` fills columns that the SELECT leaves out. Raises SourceError.
    """
    import duckdb
    from arro3 import core

    from ioweather.lake.database import SQL_TYPES, fetch_frame, literal  # which the child need not load

    options = f", delim = {literal(delimiter)}, nullstr = [{', '.join(map(literal, _NULLS))}], {_CSV}"
    setup = [
        f"SET VARIABLE file = {literal(content.name)}",
        f"SET VARIABLE path = {literal(str(path.absolute()))}",
        f"SET VARIABLE zone = {literal(zone)}",
        f"SET TimeZone = {literal(zone or 'UTC')}",
        f"SET memory_limit = {literal(limits.memory)}",
        resources.files(__package__).joinpath("macros.sql").read_text(encoding="utf-8"),
        f"CREATE VIEW input AS FROM read_{form}({literal(content.name)}{options if form == 'csv' else ''})",
        *locking([literal(content.name)]),
    ]
    columns = [(c.name, SQL_TYPES[c.type], not c.nullable, literal(known.get(c.name))) for c in spec.columns]
    body = {
        "directory": str(content.resolve().parent),
        "file": content.name,
        "setup": setup,
        "sql": sql,
        "limits": asdict(limits),
        "table": spec.name,
        "columns": columns,
    }
    child = start_child("ioweather.lake.selected", stderr=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    rows = 0
    try:
        child.stdin.write(json.dumps(body).encode())
        child.stdin.close()
        with duckdb.connect(":memory:") as con:
            for batch in _batches(child.stdout):
                con.register("batch", core.Table.from_batches([batch]))
                rows += batch.num_rows
                yield fetch_frame(con, "FROM batch", spec.columns)
        message = child.stderr.read()
        _raise_refusal(path, message, child.wait(), limits)
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdout, child.stderr):
            pipe.close()
    if not rows:
        raise EmptyInput(f"{path}: the SELECT gives no row.")


def _batches(stream: IO[bytes]) -> Iterator[Any]:
    from arro3 import io

    try:
        yield from io.read_ipc_stream(stream)
    except Exception:
        return  # the stream ended early: the child says why


def _raise_refusal(path: Path, message: bytes, code: int, limits: Limits) -> None:
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        raise SourceError(
            f"{path}: the SELECT took more than {limits.seconds:g} s of processor time.", kind="TooMuchTime"
        )
    try:
        refusal = json.loads(message) if message else {}
    except ValueError:
        refusal = {}
    if "refused" in refusal:
        raise CorruptInput(f"{path}: {refusal['refused']}", hint=str(refusal["hint"]))
    if code:
        raise SourceError(f"{path}: the SELECT took more than {limits.memory} of memory.", kind="TooMuchMemory")


# In the child


def _write_rows(question: Mapping[str, Any], limits: Limits) -> None:
    import duckdb
    from arro3 import core, io

    with duckdb.connect(":memory:") as con:
        present: Sequence[str] = ()
        unreadable = ""
        try:
            for line in question["setup"]:
                try:
                    con.execute(line)
                except duckdb.Error as error:
                    if not line.startswith("CREATE VIEW"):
                        raise
                    unreadable = f" The file is no table: {_brief(error)}"  # but may have lines()
            present = [] if unreadable else con.sql("FROM input").columns
            asked = con.sql(checked_statement(con, question["sql"]))
            rows = asked.project(_projection(question, asked.columns)).limit(limits.rows + 1)
            io.write_ipc_stream(core.RecordBatchReader.from_stream(rows), sys.stdout.buffer)
            sys.stdout.buffer.flush()
        except (duckdb.OutOfMemoryException, MemoryError):
            raise QueryRefused(f"The SELECT took more than {limits.memory} of memory.") from None
        except QueryRefused as refusal:
            raise QueryRefused(refusal.message, hint=f"{refusal.hint} {_names(present)}") from None
        except Exception as error:  # of DuckDB, or of the stream that its rows go through
            raise QueryRefused(f"DuckDB says: {_brief(error)}{unreadable}", hint=_names(present)) from None


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())[:600]


def _names(present: Sequence[str]) -> str:
    more = f" and {len(present) - _MOST_COLUMNS} more" if len(present) > _MOST_COLUMNS else ""
    return f"The file has: {', '.join(present[:_MOST_COLUMNS])}{more}." if present else ""


def _projection(question: Mapping[str, Any], given: Sequence[str]) -> str:
    """Every column of the table, in its type. Raises QueryRefused where the SELECT does not fit the table."""
    table, columns = question["table"], question["columns"]
    names = [name for name, *_ in columns]
    if unknown := [name for name in given if name not in names]:
        raise QueryRefused(f"{table} has no column {', '.join(unknown)}.", hint=f"It has: {', '.join(names)}.")
    if missing := [name for name, _, needed, known in columns if needed and known == "NULL" and name not in given]:
        raise QueryRefused(f"The SELECT gives no {', '.join(missing)}, which a row of {table} must have.")
    parts = []
    for name, kind, needed, known in columns:
        column = f'"{name}"'
        value = f"CAST({column if name in given else known} AS {kind})"
        if needed and name in given:
            value = f"CASE WHEN {column} IS NULL THEN error('{name} is null in a row.') ELSE {value} END"
        parts.append(f"{value} AS {column}")
    return ", ".join(parts)


def main() -> None:
    import arro3.core
    import arro3.io  # noqa: F401  code cannot be read later

    question = json.loads(sys.stdin.buffer.read())
    limits = Limits(**question["limits"])
    try:
        give_up_rights(question["directory"], [question["file"]], limits)
        _write_rows(question, limits)
    except QueryRefused as error:
        sys.stderr.write(json.dumps({"refused": error.message, "hint": error.hint.strip()}))
        sys.stderr.flush()
        sys.exit(1)


if __name__ == "__main__":
    main()
