"""Mappings of users: a SELECT over any CSV, JSON or Parquet file, and a site's mapping of labelled samples.

`ioweather ingest --as TABLE --select map.sql FILE` reads a file into any table. `<lake>/mapping.toml` maps labelled
samples (Prometheus), of servers that are read and of servers that push.
"""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import IO, Any, Final, Literal

import duckdb
from arro3 import core, io

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, LakeError, SourceError, UsageError
from ioweather.core.frames import Frame
from ioweather.core.tables import TABLES
from ioweather.core.units import MIB
from ioweather.lake.database import SQL_TYPES, fetch_frame, literal
from ioweather.lake.sandbox import locking_settings, require_select, start_child
from ioweather.readers.prometheus.mapping import Mappings
from ioweather.readers.text_files import note_cut, plain_bytes, unfinished_line, unzipped_blocks

# Part of the key of rows: rows that an older version mapped by TOML, or read by a reader of its own, have the same one.
_SOURCE: Final = "mapped"
_FORMER_READERS: Final = ("collectd", "ldms")
# Values of columns that most files do not have.
_DEFAULTS: Final[Mapping[str, Mapping[str, object]]] = {
    "series": {"quality": 0},
    "jobs": {"step": "", "restart": 0},
    "responses": {"status": "ok"},
}
_NULLS: Final = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
_CSV: Final = "all_varchar = true, header = true, skip = 0, comment = '', quote = '\"', escape = '\"'"


def read_select_text(given: Path) -> str:
    """The text of a file, or of the SELECT that is shipped under this name, such as `lfs_df`."""
    shipped = {path.name.removesuffix(".sql"): path for path in resources.files(__package__).joinpath("maps").iterdir()}
    if str(given) in shipped and not given.exists():
        return shipped[str(given)].read_text(encoding="utf-8").strip()
    try:
        return given.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"--select {given}: {getattr(error, 'strerror', None) or error}.",
            hint=f"Use a file, or one of {', '.join(sorted(shipped))}.",
        ) from None


def source_of(sql: str) -> str:
    """Return the source name of the rows of a SELECT."""
    return next((name for name in _FORMER_READERS if sql == read_select_text(Path(name))), _SOURCE)


def check_select(table: str, sql: str) -> None:
    """Raise UsageError if the table does not exist or the statement is not one SELECT."""
    if table not in TABLES or table == "ingests":
        raise UsageError(
            f"There is no table {table!r} to write to.",
            hint=f"Tables: {', '.join(name for name in TABLES if name != 'ingests')}.",
        )
    try:
        require_select(sql, sql)
    except UsageError as error:
        raise UsageError(f"--select: {error.message}", hint="See docs/how-to/any-csv.md.") from None


def read_selected(
    path: Path, table: str, sql: str, context: ReadContext, *, seconds: float, memory_bytes: int, rows: int
) -> Iterator[tuple[str, Frame]]:
    """Frames of `table` by a SELECT over the file, within these limits. Raises SourceError.

    The query runs confined (`lake.sandbox`). It sees the file as the view `input`, the variables `file` (for DuckDB's
    own readers), `path` (where it is), `start_ns` and `system` (both as given by the user), and the macros of
    `macros.sql`."""
    spec, zone = TABLES[table], context.zone.key if context.zone is not None else None
    known = {**_DEFAULTS.get(table, {}), "system": context.system, "host": context.host}
    memory = f"{max(1, memory_bytes // MIB)}MiB"
    with path.open("rb") as file:
        head = plain_bytes(file.read(64 << 10))
    form, options = _detect_form(head), ""
    if form == "csv":
        first = head.partition(b"\n")[0].decode("utf-8", "replace")
        delimiter = max((",", ";", "\t", "|"), key=first.count)
        options = f", delim = {literal(delimiter)}, nullstr = [{', '.join(map(literal, _NULLS))}], {_CSV}"
    count = 0
    with _without_cut_line(path, form) as whole:
        setup = [
            f"SET VARIABLE file = {literal(whole.name)}",
            f"SET VARIABLE path = {literal(str(path.absolute()))}",
            f"SET VARIABLE zone = {literal(zone)}",
            f"SET VARIABLE start_ns = {literal(context.start_ns)}",
            f"SET VARIABLE system = {literal(context.system)}",
            f"SET TimeZone = {literal(zone or 'UTC')}",
            f"SET memory_limit = {literal(memory)}",
            resources.files("ioweather.lake").joinpath("macros.sql").read_text(encoding="utf-8"),
            f"CREATE VIEW input AS FROM read_{form}({literal(whole.name)}{options})",
            *locking_settings([literal(whole.name)]),
        ]
        body = {
            "directory": str(whole.resolve().parent),
            "files": [whole.name],
            "setup": setup,
            "sql": sql,
            "rows": rows,
            "seconds": seconds,
            "memory": memory,
            "must_confine": False,
            "table": table,
            "columns": [(c.name, SQL_TYPES[c.type], not c.nullable, literal(known.get(c.name))) for c in spec.columns],
        }
        with start_child(stderr=subprocess.PIPE) as child, duckdb.connect(":memory:") as con:
            try:
                assert child.stdin is not None
                assert child.stdout is not None
                assert child.stderr is not None
                child.stdin.write(json.dumps(body).encode())
                child.stdin.close()
                for batch in _receive_batches(child.stdout):
                    con.register("batch", core.Table.from_batches([batch]))
                    count += batch.num_rows
                    yield table, fetch_frame(con, "FROM batch", spec.columns)
                message = child.stderr.read()
                _raise_refusal(path, message, child.wait(), seconds, memory)
            finally:
                child.kill()
    if not count:
        raise SourceError(f"{path}: the SELECT gives no row.", kind="EmptyInput")


def _receive_batches(stream: IO[bytes]) -> Iterator[Any]:
    """Arrow batches from the child; they end early where it fails."""
    try:
        yield from io.read_ipc_stream(stream)
    except Exception:
        return  # the stream ended early: the child says why


def _raise_refusal(path: Path, message: bytes, code: int, seconds: float, memory: str) -> None:
    """Raise SourceError if the child refused the SELECT (it says why in `message`), or was ended."""
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        raise SourceError(f"{path}: the SELECT took more than {seconds:g} s of processor time.", kind="TooMuchTime")
    try:
        refusal = json.loads(message) if message else {}
    except ValueError:
        refusal = {}
    if "refused" in refusal:
        raise CorruptInput(f"{path}: {refusal['refused']}", hint=str(refusal["hint"]))
    if code:
        raise SourceError(f"{path}: the SELECT needed more than {memory} of memory.", kind="TooMuchMemory")


def _detect_form(head: bytes) -> Literal["csv", "json", "parquet"]:
    """How DuckDB is to read the file, from its first bytes."""
    if head.startswith(b"PAR1"):
        return "parquet"
    return "json" if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")) else "csv"


@contextmanager
def _without_cut_line(path: Path, form: str) -> Iterator[Path]:
    """The file; for text that is zipped or ends in the middle of a line, a copy that is neither. A last line without a
    line end is complete if a quote closes it, or a bracket in JSON."""
    closing = b'"' if form == "csv" else b"}]"
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
        size = file.seek(0, 2)
        if not size:
            raise SourceError(f"{path} is empty.", kind="EmptyInput")
        file.seek(size - 1)
        if form == "parquet" or (not zipped and file.read(1) in b"\r\n" + closing):
            yield path
            return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "input"
        pending, lines = b"", 0
        with copy.open("wb") as made:
            for block in unzipped_blocks(path):
                whole, end, pending = (pending + block).rpartition(b"\n")
                made.write(whole + end)
                lines += whole.count(b"\n") + len(end)
            if pending.strip() and pending.rstrip()[-1:] in closing:
                made.write(pending)
            elif pending.strip():
                note_cut(unfinished_line(path, lines + 1))
        yield copy


# Labelled samples


def own_mapping(root: Path) -> Mapping[str, Any] | None:
    """A mapping of the site's own, for all that comes with labels."""
    file = root / "mapping.toml"
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise LakeError(f"Cannot use {file}: {error}.") from None
    try:
        Mappings(document)
    except UsageError as error:
        raise LakeError(f"{file}: {error.message}", hint=error.hint) from None
    return document
