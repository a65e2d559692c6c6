"""SQL of users over the tables of a snapshot: one SELECT, in a process of its own that cannot write.

    python -m ioweather.lake.sandbox < question > answer       (both JSON)

DuckDB's `allowed_paths` limits a query to the table files of the snapshot, but also lets it write to them. Therefore
the child gives up its rights before it starts DuckDB: it can open these files for reading and no other file
(`lake.confinement`), and its memory and processor time are limited. The parent kills it when its time is over.
Paths are relative to the lake: a query that shows one does not show where the lake is.
"""

from __future__ import annotations

import decimal
import json
import math
import os
import resource
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from ioweather.core.errors import QueryRefused
from ioweather.core.foreign_text import joined
from ioweather.core.tabular import Tabular, frame_of_rows
from ioweather.core.units import parse_size
from ioweather.core.words import names_of
from ioweather.lake.confinement import confine

if TYPE_CHECKING:
    from ioweather.lake.snapshot import Snapshot

# They show paths of files, or run unchecked text as SQL.
_HIDDEN_FUNCTIONS: Final = frozenset(
    names_of("current_setting duckdb_settings duckdb_external_file_cache query query_table json_execute_serialized_sql")
)
_HIDDEN_TABLES: Final = frozenset({"pg_settings"})
# DuckDB reads the limits of its container there, and aborts where it cannot.
_READABLE: Final = ("/proc/self", "/sys/fs/cgroup")
# Memory of Python, DuckDB's code and the stacks of its threads, on top of the query's limit.
_OWN_BYTES: Final = 2 << 30
_THREADS: Final = 2


@dataclass(frozen=True)
class Limits:
    """Limits of one query. With `must_confine`, it is refused where the kernel cannot confine the child."""

    rows: int = 10_000
    seconds: float = 30.0
    memory: str = "1GiB"
    answer_bytes: int = 1 << 30
    must_confine: bool = False


@dataclass(frozen=True, repr=False)
class SqlResult(Tabular):
    """Result of a query. `truncated`: there are more rows than the limit."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool

    def _table(self) -> Any:
        return frame_of_rows(self.columns, self.rows)

    def __repr__(self) -> str:
        more = ", and there are more" if self.truncated else ""
        return joined(f"<SqlResult: {len(self.rows):,} rows of {', '.join(self.columns)}{more}>")


def _run(setup: Sequence[str], sql: str, limits: Limits) -> SqlResult:
    """Run the query in this process. `setup` creates the views and ends by locking the configuration."""
    import duckdb

    con = duckdb.connect(":memory:")
    try:
        for line in setup:
            con.execute(line)
        statement = checked_statement(con, sql)
        with _time_limit(con, limits.seconds):
            asked = con.sql(statement)
            columns, types = asked.columns, asked.types
            rows = asked.project(_readable(types)).limit(limits.rows + 1).fetchall()
    except duckdb.InterruptException:
        raise too_long(limits) from None
    except (duckdb.OutOfMemoryException, MemoryError):
        raise too_large(limits) from None
    except duckdb.Error as error:
        raise QueryRefused(f"DuckDB says: {error}") from None
    finally:
        con.close()
    return SqlResult(
        columns=tuple(columns),
        types=tuple(map(str, types)),
        rows=tuple(tuple(row) for row in rows[: limits.rows]),
        truncated=len(rows) > limits.rows,
    )


# Types that Python represents exactly. Others (times with a zone, for which DuckDB wants pytz; intervals of months;
# times beyond the year 9999 or finer than microseconds) are text as DuckDB writes it.
_WHOLE: Final = frozenset(
    names_of("""
    boolean tinyint smallint integer bigint hugeint utinyint usmallint uinteger ubigint uhugeint float double decimal
    varchar blob uuid enum null
""")
)


def _readable(types: Sequence[Any]) -> str:
    """The columns by position, because names may be there twice."""
    return ", ".join(
        f"#{place}" if _is_whole(kind) else f"CAST(#{place} AS {_textual(kind)})"
        for place, kind in enumerate(types, start=1)
    )


def _is_whole(kind: Any) -> bool:
    if kind.id in ("list", "array"):
        return _is_whole(kind.children[0][1])
    if kind.id == "struct":
        return all(_is_whole(child) for _, child in kind.children)
    return kind.id in _WHOLE


def _textual(kind: Any) -> str:
    """The type with text in place of types that Python cannot represent. A map becomes text: its keys may not hash."""
    if kind.id in ("list", "array"):
        return f"{_textual(kind.children[0][1])}[]"
    if kind.id == "struct":
        quoted = ((name.replace('"', '""'), child) for name, child in kind.children)
        return "STRUCT(" + ", ".join(f'"{name}" {_textual(child)}' for name, child in quoted) + ")"
    return str(kind) if kind.id in _WHOLE and kind.id != "null" else "VARCHAR"


def too_long(limits: Limits) -> QueryRefused:
    return QueryRefused(
        f"The query ran longer than {limits.seconds:g} s and was stopped.", hint="Ask for less, or give --timeout."
    )


def too_large(limits: Limits) -> QueryRefused:
    return QueryRefused(
        f"The query needed more than {limits.memory} of memory and was stopped.", hint="Aggregate, or filter by day."
    )


def checked_statement(con: Any, sql: str) -> str:
    """Return the text of the only statement: a SELECT, or EXPLAIN [ANALYZE] of one. Raises QueryRefused otherwise.

    EXPLAIN ANALYZE runs its statement, and DuckDB calls both EXPLAIN, so what follows is checked by itself.
    """
    import duckdb

    tokens = [at for at, _ in duckdb.tokenize(sql)]
    text = sql.encode()
    # What follows the semicolon would become a part of a larger query.
    end = next((at for at in tokens if text[at : at + 1] == b";"), len(text))
    words = [text[at:].split(maxsplit=1)[0].upper() for at in tokens[:2]]
    prefixes = 0
    if words[:1] == [b"EXPLAIN"]:
        prefixes = 2 if words[1:] == [b"ANALYZE"] else 1
    start = tokens[prefixes] if len(tokens) > prefixes else len(text)
    select = text[start:end].decode()
    require_select(sql, select)
    _require_visible(con, select)
    return " ".join([*(word.decode() for word in words[:prefixes]), select])


def require_select(sql: str, select: str) -> None:
    """Raise QueryRefused where `sql` is not one statement, or its part `select` is no SELECT."""
    import duckdb

    try:
        count = len(duckdb.extract_statements(sql))
    except duckdb.Error as error:
        raise QueryRefused(f"DuckDB says: {error}") from None
    if count != 1:
        raise QueryRefused(f"Expected one statement, found {count}.")
    kinds = [
        str(found.type).rsplit(".", 1)[-1].removesuffix("_STATEMENT") for found in duckdb.extract_statements(select)
    ]
    if kinds != ["SELECT"]:
        named = kinds[0] if kinds else "An empty statement"
        hint = "Only SELECT and EXPLAIN of a SELECT run here; the lake is read-only."
        raise QueryRefused(f"{named} is not allowed here.", hint=hint)


def _require_visible(con: Any, select: str) -> None:
    """Refuse functions that list the lake's files or run text as SQL, wherever the parsed query calls them."""
    parsed = json.loads(con.execute("SELECT json_serialize_sql(?::VARCHAR)", [select]).fetchall()[0][0])
    stack: list[Any] = [parsed]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            called, table = str(node.get("function_name")).lower(), str(node.get("table_name")).lower()
            if called in _HIDDEN_FUNCTIONS or table in _HIDDEN_TABLES:
                raise QueryRefused(f"{called if called in _HIDDEN_FUNCTIONS else table} is not available here.")
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


@contextmanager
def _time_limit(con: Any, seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, con.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


# Parent and child


def run_user_sql(snapshot: Snapshot, sql: str, limits: Limits = Limits()) -> SqlResult:
    """Run the query. Raises QueryRefused where it is not one SELECT, fails, or exceeds a limit."""
    from ioweather.lake.database import literal, quote  # not loaded by the child
    from ioweather.lake.snapshot import QUARANTINE

    if snapshot.owner is not None:
        raise QueryRefused("SQL sees the whole lake, and is not for one person's part of it.")
    directory = str(snapshot.root.resolve())
    tables = {
        name: files._replace(uris=tuple(uri.removeprefix(f"{directory}/") for uri in files.uris))
        for name, files in snapshot.pinned.items()
    }
    paths = [uri for files in tables.values() for uri in files.uris]
    setup = [
        *(f"CREATE VIEW {quote(name)} AS {files.view()}" for name, files in tables.items()),
        f"CREATE VIEW quarantine AS {QUARANTINE}",
        f"SET memory_limit = {literal(limits.memory)}",
        "SET TimeZone = 'UTC'",
        *locking([literal(path) for path in paths]),
    ]
    body = {"directory": directory, "files": paths, "setup": setup, "sql": sql, "limits": asdict(limits)}
    child = start_child("ioweather.lake.sandbox", stderr=subprocess.DEVNULL)
    try:
        data, _ = child.communicate(json.dumps(body).encode(), timeout=limits.seconds)
    except subprocess.TimeoutExpired:
        raise too_long(limits) from None
    finally:
        child.kill()
        child.communicate()
    return _decoded(data, limits)


def locking(paths: Sequence[str]) -> list[str]:
    """Settings of a child's DuckDB, for the end of its setup. `paths` are SQL literals of the files it may read."""
    return [
        f"SET threads = {_THREADS}",
        "SET python_enable_replacements = false",  # Python's variables are no tables
        "SET temp_directory = ''",  # spilling would write files
        f"SET allowed_paths = [{', '.join(paths)}]",
        "SET enable_external_access = false",
        "SET lock_configuration = true",
    ]


def start_child(module: str, *, stderr: int) -> subprocess.Popen[bytes]:
    """Start a confined child, which reads its question from its standard input."""
    return subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        cwd="/",
        env={"LANG": "C.UTF-8"},
        start_new_session=True,
    )


# JSON and not pickle: the child ran untrusted SQL. Values without a form in JSON are objects with one key.
_ENCODERS: Final[dict[type, tuple[str, Any]]] = {
    decimal.Decimal: ("$decimal", str),
    uuid.UUID: ("$uuid", str),
    bytes: ("$bytes", bytes.hex),
}
_DECODERS: Final[dict[str, Any]] = {"$decimal": decimal.Decimal, "$uuid": uuid.UUID, "$bytes": bytes.fromhex}


def _encode(value: Any) -> dict[str, str]:
    name, encode = _ENCODERS[type(value)]
    return {name: encode(value)}


def _decode(value: dict[str, Any]) -> Any:
    if len(value) == 1 and (decode := _DECODERS.get(next(iter(value)))) is not None:
        return decode(*value.values())
    return value


def _decoded(data: bytes, limits: Limits) -> SqlResult:
    try:
        body = json.loads(data, object_hook=_decode)
    except (ValueError, decimal.InvalidOperation):  # the kernel stopped it before it could say why
        raise too_large(limits) from None
    if "refused" in body:
        raise QueryRefused(str(body["refused"]), hint=str(body["hint"]))
    rows = tuple(tuple(row) for row in body["rows"])
    return SqlResult(tuple(body["columns"]), tuple(body["types"]), rows, bool(body["truncated"]))


def _lower(what: int, value: int) -> None:
    hard = resource.getrlimit(what)[1]
    most = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (most, most))


def give_up_rights(directory: str, files: Sequence[str], limits: Limits) -> None:
    import duckdb  # noqa: F401  its code cannot be read later

    _lower(resource.RLIMIT_AS, _OWN_BYTES + parse_size(limits.memory))
    _lower(resource.RLIMIT_CPU, math.ceil(limits.seconds) * _THREADS + 1)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_CORE, 0)
    os.chdir(directory)
    if not confine(files, _READABLE) and limits.must_confine:
        hint = "SQL over HTTP needs Landlock or seccomp. `ioweather sql` works without."
        raise QueryRefused("This kernel cannot confine a query.", hint=hint)


def main() -> None:
    question = json.loads(sys.stdin.buffer.read())
    limits = Limits(**question["limits"])
    try:
        give_up_rights(question["directory"], question["files"], limits)
        data = json.dumps(vars(_run(question["setup"], question["sql"], limits)), default=_encode)
        if len(data) > limits.answer_bytes:
            raise QueryRefused(f"The answer is larger than {limits.answer_bytes >> 20} MiB.", hint="Ask for less.")
    except QueryRefused as error:
        data = json.dumps({"refused": error.message, "hint": error.hint})
    except MemoryError:
        refusal = too_large(limits)
        data = json.dumps({"refused": refusal.message, "hint": refusal.hint})
    sys.stdout.write(data)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
