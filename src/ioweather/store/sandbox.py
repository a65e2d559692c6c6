"""One query of a user in a locked DuckDB, here or in a process of its own.

    python -m ioweather.store.sandbox < question > answer       (both JSON)

The child limits itself before it looks at the query: memory, processor time, and no byte into any file. Whatever the
query makes of DuckDB, the parent kills the child when the time is over. Only DuckDB is imported: it starts in 0.2 s.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

from ioweather.core.cells import plain
from ioweather.core.errors import QueryRefused
from ioweather.core.printable import joined
from ioweather.core.tabular import Tabular, frame_of_rows
from ioweather.core.units import parse_size
from ioweather.core.words import names_of

_ALLOWED: Final = ("SELECT", "EXPLAIN")
# Python, DuckDB's code and the stacks of its threads, beside what the query may use.
_OWN_BYTES: Final = 2 << 30
_ANSWER_BYTES: Final = 32 << 20
_THREADS: Final = 2


@dataclass(frozen=True)
class Limits:
    rows: int = 10_000
    seconds: float = 30.0
    memory: str = "1GiB"


@dataclass(frozen=True, repr=False)
class SqlResult(Tabular):
    """What a query gave. `truncated`: there are more rows than were asked for."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool

    def _table(self) -> Any:
        return frame_of_rows(self.columns, self.rows)

    def __repr__(self) -> str:
        more = ", and there are more" if self.truncated else ""
        return joined(f"<SqlResult: {len(self.rows):,} rows of {', '.join(self.columns)}{more}>")


def run(setup: Sequence[str], sql: str, limits: Limits) -> SqlResult:
    """In this process. `setup` makes the views and ends with locking the door."""
    import duckdb

    statement = _only_statement(sql)
    con = duckdb.connect(":memory:")
    try:
        for line in setup:
            con.execute(line)
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


# What Python's own types hold in full. Others (times with a zone, for which DuckDB wants pytz; intervals of months;
# times beyond the year 9999 or finer than microseconds) are text as DuckDB writes it.
_WHOLE: Final = frozenset(
    names_of("""
    boolean tinyint smallint integer bigint hugeint utinyint usmallint uinteger ubigint uhugeint float double decimal
    varchar blob uuid enum null
""")
)


def _readable(types: Sequence[Any]) -> str:
    """The columns by their places, as names may be there twice."""
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
    """The type with text in the place of what Python cannot hold. Keys of a map need not be hashable there."""
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


def _only_statement(sql: str) -> Any:
    import duckdb

    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryRefused(f"DuckDB says: {error}") from None
    if len(statements) != 1:
        raise QueryRefused(f"Expected one statement, found {len(statements)}.")
    kind = str(statements[0].type).rsplit(".", 1)[-1].removesuffix("_STATEMENT")
    if kind not in _ALLOWED:
        raise QueryRefused(f"{kind} is not allowed here.", hint="Only SELECT and EXPLAIN are; the lake is read-only.")
    # Without what follows its semicolon: it becomes a part of another query.
    text = sql.encode()
    end = next((at for at, _ in duckdb.tokenize(sql) if text[at : at + 1] == b";"), len(text))
    return duckdb.extract_statements(text[:end].decode())[0]


@contextmanager
def _time_limit(con: Any, seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, con.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


# A process of its own


def run_apart(setup: Sequence[str], sql: str, limits: Limits) -> SqlResult:
    """In a child that is killed when its time is over; cells come back as `plain` makes them."""
    question = json.dumps({"setup": list(setup), "sql": sql, "limits": asdict(limits)}).encode()
    child = subprocess.Popen(
        [sys.executable, "-m", "ioweather.store.sandbox"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/", env={"LANG": "C.UTF-8"},
        start_new_session=True,
    )  # fmt: skip
    try:
        data, _ = child.communicate(question, timeout=limits.seconds)
    except subprocess.TimeoutExpired:
        raise too_long(limits) from None
    finally:
        child.kill()
        child.communicate()
    return _answer(data, limits)


def _answer(data: bytes, limits: Limits) -> SqlResult:
    """JSON and not pickle: the child ran what a stranger wrote."""
    try:
        body = json.loads(data)
    except ValueError:  # it ran into a wall of the kernel before it could say so
        raise too_large(limits) from None
    if "refused" in body:
        raise QueryRefused(str(body["refused"]), hint=str(body["hint"]))
    rows = tuple(tuple(row) for row in body["rows"])
    return SqlResult(tuple(body["columns"]), tuple(body["types"]), rows, bool(body["truncated"]))


def _lower(what: int, value: int) -> None:
    hard = resource.getrlimit(what)[1]
    most = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (most, most))


def main() -> None:
    question = json.loads(sys.stdin.buffer.read())
    limits = Limits(**question["limits"])
    _lower(resource.RLIMIT_AS, _OWN_BYTES + parse_size(limits.memory))
    _lower(resource.RLIMIT_CPU, math.ceil(limits.seconds) * _THREADS + 1)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_CORE, 0)
    try:
        result = run([*question["setup"]], question["sql"], limits)
        body = {**vars(result), "rows": [[plain(cell) for cell in row] for row in result.rows]}
        data = json.dumps(body)
        if len(data) > _ANSWER_BYTES:
            raise QueryRefused(f"The answer is larger than {_ANSWER_BYTES >> 20} MiB.", hint="Ask for less.")
    except QueryRefused as error:
        data = json.dumps({"refused": error.message, "hint": error.hint})
    except MemoryError:
        refusal = too_large(limits)
        data = json.dumps({"refused": refusal.message, "hint": refusal.hint})
    sys.stdout.write(data)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
