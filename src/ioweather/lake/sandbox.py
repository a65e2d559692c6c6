"""SQL of users: one SELECT, in a process of its own that can read the files it is given, and write none.

    python -m ioweather.lake.sandbox < question > answer

Either over the tables of a snapshot (the answer is JSON), or over one foreign file, for rows of a table (the answer is
a stream of Arrow; why it is refused goes to standard error, as JSON).

DuckDB's `allowed_paths` limits a query to some files, but also lets it write to them. Therefore the child gives up its
rights before it starts DuckDB: it can open these files for reading and no other file (`lake.confinement`), and its
memory and processor time are limited. The parent kills it when its time is over. Paths are relative: a query that shows
one does not show where the lake is.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import re
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ioweather.core.errors import UsageError
from ioweather.core.tabular import Tabular, frame_of_rows
from ioweather.core.units import joined, names_of, parse_size
from ioweather.lake.confinement import confine

if TYPE_CHECKING:
    from ioweather.lake.lake import Snapshot

# DuckDB reads the limits of its container there, and aborts where it cannot.
_READABLE: Final = ("/proc/self", "/sys/fs/cgroup")
# Memory of Python, DuckDB's code and the stacks of its threads, on top of the query's limit.
_OWN_BYTES: Final = 2 << 30
_THREADS: Final = 2
_MOST_COLUMNS: Final = 60
# They show where the lake is, or run text as SQL. No word of a query may be one of these, not even a name or a text.
_HIDDEN: Final = re.compile(
    r"\b(current_setting|duckdb_settings|pg_settings|duckdb_external_file_cache|query|query_table"
    r"|json_execute_serialized_sql)\b",
    re.IGNORECASE,
)
# Types that JSON has. Decimals become floats; all others are text as DuckDB writes it.
_JSON_TYPES: Final = frozenset(
    names_of("""
    boolean tinyint smallint integer bigint hugeint utinyint usmallint uinteger ubigint uhugeint float double
    varchar enum
""")
)


_LENGTHS: Final = ("duration_ns", "interval_ns")


@dataclass(frozen=True, repr=False)
class SqlResult(Tabular):
    """Result of a query. `truncated`: there are more rows than the limit."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool

    def _table(self) -> Any:
        return frame_of_rows(self.columns, self.rows)

    def _times(self) -> list[str]:
        """Columns named as the times of the tables: start_ns, but not duration_ns or interval_ns."""
        kinds = dict(zip(self.columns, self.types, strict=True))
        return [n for n in kinds if n.endswith("_ns") and kinds[n] == "BIGINT" and n not in _LENGTHS]

    def __repr__(self) -> str:
        more = ", and there are more" if self.truncated else ""
        return joined(f"<SqlResult: {len(self.rows):,} rows of {', '.join(self.columns)}{more}>")


def run_user_sql(
    snapshot: Snapshot,
    sql: str,
    *,
    rows: int = 10_000,
    seconds: float = 30.0,
    memory: str = "1GiB",
    answer_bytes: int = 1 << 30,
    must_confine: bool = False,
) -> SqlResult:
    """Run the query over the tables. Raises UsageError (kind QueryRefused) where it is not one SELECT or EXPLAIN of
    one, fails, or exceeds a limit; with `must_confine`, also where the kernel cannot confine the child."""
    from ioweather.lake.database import literal, quote  # not loaded by the child
    from ioweather.lake.lake import QUARANTINE

    if snapshot.owner is not None:
        raise UsageError(
            "SQL reads the whole lake, so it is not available to users with partial access.", kind="QueryRefused"
        )
    directory = str(snapshot.root.resolve())
    snapshot.fetch_all()  # a child reaches no network
    tables = {
        name: files._replace(uris=tuple(uri.removeprefix(f"{directory}/") for uri in files.uris))
        for name, files in snapshot.pinned.items()
    }
    paths = [uri for files in tables.values() for uri in files.uris]
    setup = [
        *(f"CREATE VIEW {quote(name)} AS {files.view()}" for name, files in tables.items()),
        f"CREATE VIEW quarantine AS {QUARANTINE}",
        f"SET memory_limit = {literal(memory)}",
        "SET TimeZone = 'UTC'",
        *locking_settings([literal(path) for path in paths]),
    ]
    question = {
        "directory": directory,
        "files": paths,
        "setup": setup,
        "sql": sql,
        "rows": rows,
        "seconds": seconds,
        "memory": memory,
        "answer_bytes": answer_bytes,
        "must_confine": must_confine,
    }
    child = start_child(stderr=subprocess.DEVNULL)
    try:
        data, _ = child.communicate(json.dumps(question).encode(), timeout=seconds)
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"The query ran longer than {seconds:g} s and was stopped.",
            hint="Query less data, or increase --timeout.",
            kind="QueryRefused",
        ) from None
    finally:
        child.kill()
        child.communicate()
    try:
        answer = json.loads(data)  # not pickle: the child ran untrusted SQL
    except ValueError:  # the kernel stopped it before it could say why
        raise _make_memory_error(memory) from None
    if "refused" in answer:
        raise UsageError(str(answer["refused"]), hint=str(answer["hint"]), kind="QueryRefused")
    found = tuple(tuple(row) for row in answer["rows"])
    return SqlResult(tuple(answer["columns"]), tuple(answer["types"]), found, bool(answer["truncated"]))


def _make_memory_error(memory: str) -> UsageError:
    """Return the error of a query that exceeded its memory limit, such as "1GiB"."""
    return UsageError(
        f"The query needed more than {memory} of memory and was stopped.",
        hint="Aggregate, or filter by day.",
        kind="QueryRefused",
    )


def locking_settings(paths: Sequence[str]) -> list[str]:
    """Settings of a child's DuckDB, for the end of its setup. `paths` are SQL literals of the files it may read."""
    return [
        f"SET threads = {_THREADS}",
        "SET python_enable_replacements = false",  # Python's variables are no tables
        "SET temp_directory = ''",  # spilling would write files
        f"SET allowed_paths = [{', '.join(paths)}]",
        "SET enable_external_access = false",
        "SET lock_configuration = true",
    ]


def start_child(*, stderr: int) -> subprocess.Popen[bytes]:
    """Start a child, which reads its question from its standard input."""
    return subprocess.Popen(
        [sys.executable, "-m", "ioweather.lake.sandbox"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        cwd="/",
        env={"LANG": "C.UTF-8"},
        start_new_session=True,
    )


def require_select(sql: str, select: str) -> None:
    """Raise UsageError where `sql` is not one statement, or its part `select` is no SELECT."""
    import duckdb

    try:
        count = len(duckdb.extract_statements(sql))
        kinds = [str(found.type) for found in duckdb.extract_statements(select)] if count == 1 else []
    except duckdb.Error as error:
        raise UsageError(f"DuckDB: {error}", kind="QueryRefused") from None
    if count != 1:
        raise UsageError(f"Expected one statement, found {count}.", kind="QueryRefused")
    named = kinds[0].rsplit(".", 1)[-1].removesuffix("_STATEMENT") if kinds else "An empty statement"
    if named != "SELECT" or len(kinds) > 1:
        hint = "Only SELECT and EXPLAIN SELECT are allowed; the lake is read-only."
        raise UsageError(f"{named} is not allowed here.", hint=hint, kind="QueryRefused")


def checked_statement(sql: str) -> str:
    """Return the text of the only statement: a SELECT, or EXPLAIN [ANALYZE] of one. Raises UsageError otherwise.

    EXPLAIN ANALYZE runs its statement, and DuckDB calls both EXPLAIN, so what follows is checked by itself.
    """
    import duckdb

    text = sql.encode()
    # What follows the semicolon would become a part of a larger query.
    end = next((at for at, _ in duckdb.tokenize(sql) if text[at : at + 1] == b";"), len(text))
    statement = text[:end].decode()
    explained = re.match(r"\s*EXPLAIN\s+(ANALYZE\s+)?", statement, re.IGNORECASE)
    require_select(sql, statement[explained.end() :] if explained else statement)
    if hidden := _HIDDEN.search(statement):
        raise UsageError(f"{hidden[0]} is not available here.")
    return statement


# In the child


def _answer_query(question: Mapping[str, Any]) -> str:
    """The rows of a query over the lake, as JSON. The setup creates the views, and locks the configuration."""
    import duckdb

    con = duckdb.connect(":memory:")
    try:
        for line in question["setup"]:
            con.execute(line)
        asked = con.sql(checked_statement(question["sql"]))
        columns, types = asked.columns, asked.types
        # By position, because names may be there twice.
        readable = [f"CAST(#{n} AS {_write_type(kind)})" for n, kind in enumerate(types, start=1)]
        rows = asked.project(", ".join(readable)).limit(question["rows"] + 1).fetchall()
        result = {"columns": columns, "types": [*map(str, types)], "rows": rows[: question["rows"]]}
        data = json.dumps({**result, "truncated": len(rows) > question["rows"]})
    except (duckdb.OutOfMemoryException, MemoryError):
        raise _make_memory_error(question["memory"]) from None
    except duckdb.Error as error:
        raise UsageError(f"DuckDB: {error}") from None
    if len(data) > question["answer_bytes"]:
        raise UsageError(f"The result is larger than {question['answer_bytes'] >> 20} MiB.", hint="Select less.")
    return data


def _write_type(kind: Any) -> str:
    """The type, with floats for decimals, and text for other types that JSON does not have."""
    if kind.id in ("list", "array"):
        return f"{_write_type(kind.children[0][1])}[]"
    if kind.id == "struct":
        quoted = ((name.replace('"', '""'), child) for name, child in kind.children)
        return "STRUCT(" + ", ".join(f'"{name}" {_write_type(child)}' for name, child in quoted) + ")"
    if kind.id == "decimal":
        return "DOUBLE"
    return str(kind) if kind.id in _JSON_TYPES else "VARCHAR"


def _write_rows(question: Mapping[str, Any]) -> None:
    """Write the rows of a SELECT over a foreign file, with every column of the table, to standard output."""
    import duckdb
    from arro3 import core, io

    with duckdb.connect(":memory:") as con:
        present, unreadable = "", ""
        try:
            for line in question["setup"]:
                try:
                    con.execute(line)
                except duckdb.Error as error:
                    if not line.startswith("CREATE VIEW"):
                        raise
                    unreadable = f" The file is not a table: {_format_one_line(error)}"  # but may have lines()
            names = [] if unreadable else con.sql("FROM input").columns
            more = f" and {len(names) - _MOST_COLUMNS} more" if len(names) > _MOST_COLUMNS else ""
            present = f"The file has: {', '.join(names[:_MOST_COLUMNS])}{more}." if names else ""
            asked = con.sql(checked_statement(question["sql"]))
            rows = asked.project(_write_projection(question, asked.columns)).limit(question["rows"] + 1)
            io.write_ipc_stream(core.RecordBatchReader.from_stream(rows), sys.stdout.buffer)
            sys.stdout.buffer.flush()
        except (duckdb.OutOfMemoryException, MemoryError):
            raise UsageError(f"The SELECT needed more than {question['memory']} of memory.") from None
        except UsageError as refusal:
            raise UsageError(refusal.message, hint=f"{refusal.hint} {present}") from None
        except Exception as error:  # of DuckDB, or of the stream that its rows go through
            raise UsageError(f"DuckDB: {_format_one_line(error)}{unreadable}", hint=present) from None


def _format_one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:600]


def _write_projection(question: Mapping[str, Any], given: Sequence[str]) -> str:
    """Every column of the table, in its type. Raises UsageError where the SELECT does not fit the table."""
    table, columns = question["table"], question["columns"]
    names = [name for name, *_ in columns]
    if unknown := [name for name in given if name not in names]:
        raise UsageError(f"{table} has no column {', '.join(unknown)}.", hint=f"Columns: {', '.join(names)}.")
    if missing := [name for name, _, needed, known in columns if needed and known == "NULL" and name not in given]:
        raise UsageError(f"The SELECT lacks {', '.join(missing)}, which {table} requires.")
    parts = []
    for name, kind, needed, known in columns:
        column = f'"{name}"'
        value = f"CAST({column if name in given else known} AS {kind})"
        if needed and name in given:
            value = f"CASE WHEN {column} IS NULL THEN error('{name} is null in a row.') ELSE {value} END"
        parts.append(f"{value} AS {column}")
    return ", ".join(parts)


def give_up_rights(
    directory: str, files: Sequence[str], *, seconds: float, memory: str, must_confine: bool = False
) -> None:
    """Limit this process for good: it may read these files of the directory, and write none. `seconds` are those of
    processor time of each thread; `memory`, such as "1GiB", is that of the query."""
    for module in ("duckdb", "arro3.core", "arro3.io"):
        importlib.import_module(module)  # code cannot be read later
    for what, value in (
        (resource.RLIMIT_AS, _OWN_BYTES + parse_size(memory)),
        (resource.RLIMIT_CPU, math.ceil(seconds) * _THREADS + 1),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (most, most))
    os.chdir(directory)
    if not confine(files, _READABLE) and must_confine:
        hint = "SQL over HTTP needs Landlock or seccomp. `ioweather sql` works without them."
        raise UsageError("This kernel cannot isolate a query.", hint=hint)


def main() -> None:
    """Answer the question on standard input."""
    question = json.loads(sys.stdin.buffer.read())
    is_file = "table" in question
    try:
        try:
            limits = {name: question[name] for name in ("seconds", "memory", "must_confine")}
            give_up_rights(question["directory"], question["files"], **limits)
            if is_file:
                _write_rows(question)
            else:
                sys.stdout.write(_answer_query(question))
        except MemoryError:
            raise _make_memory_error(question["memory"]) from None
    except UsageError as error:
        refusal = json.dumps({"refused": error.message, "hint": error.hint.strip()})
        (sys.stderr if is_file else sys.stdout).write(refusal)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
