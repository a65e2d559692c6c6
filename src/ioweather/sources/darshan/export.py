"""Darshan's counters in Parquet: what sites and researchers keep instead of logs.

A row is a record of a file, with its id and rank, as PyDarshan's `to_df()` and our `to_pandas()` have them; or a whole
run, whose counters are sums over its files, as `darshan-parser --total` prints them. In both the columns of the job
stand beside the counters: they tell one run from another. `export.toml` says what they may be called.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, EmptyInput, TruncatedInput, UndatedInput
from ioweather.core.frames import Frame
from ioweather.core.units import NS
from ioweather.core.words import names_of
from ioweather.sources.darshan.counters import FIXED
from ioweather.sources.darshan.layout import NATIVE
from ioweather.sources.darshan.model import DarshanJob, DarshanLog, Form, Module
from ioweather.sources.darshan.reader3 import check_ranks
from ioweather.sources.darshan.regions import check_job
from ioweather.sources.darshan.rows import rows_of_logs
from ioweather.sources.parquet_files import opened_parquet

_MAGIC: Final = b"PAR1"
_ALL_FILES: Final = 0  # the record id of sums over all files
# Counters of one file, which have no sum.
_NO_SUM: Final = re.compile(r"RANK|VARIANCE|_MODE$|_MEM_ALIGNMENT$|TIME_SIZE$|_STRIDE\d|RENAMED_FROM")
_LONGEST_FOOTER: Final = 16 << 20
_MODULES: Final = {"POSIX": "POSIX_", "MPI-IO": "MPIIO_", "STDIO": "STDIO_"}
_NEEDED: Final = ("BYTES_READ", "BYTES_WRITTEN")
_REQUIRED: Final = ("job_id", "nprocs", "start", "end")
# So many records at once: 90 counters each, 70 MB.
_CHUNK_RECORDS: Final = 100_000
_NUMBERS: Final = names_of("TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT FLOAT DOUBLE")
_RECORD_KINDS: Final = {"id": "UBIGINT", "rank": "BIGINT", "path": "VARCHAR"}
_HOW: Final = (
    "Beside Darshan's counters there must be columns of the job: jobid, uid, nprocs, start_time, end_time (seconds "
    "since 1970) and exe; see docs/sources/darshan.md."
)


@dataclass(frozen=True)
class _Shape:
    """Which column of the file is what. `counters` maps a counter's own name to its column, by module."""

    job: Mapping[str, str]
    record: Mapping[str, str]
    counters: Mapping[str, Mapping[str, str]]

    @property
    def whole_runs(self) -> bool:
        return "id" not in self.record


@dataclass(frozen=True)
class DarshanExport:
    name: str = "darshan_export"
    title: str = "Darshan's counters in Parquet: a row for each record, or for each run"
    tables: tuple[str, ...] = ("applications", "files")

    def detect(self, head: bytes, path: Path) -> float:
        """Names of columns stand in the last part of a Parquet file."""
        if not head.startswith(_MAGIC):
            return 0.0
        footer = _footer(path)
        return 0.9 if any(prefix.encode() + b"BYTES_READ" in footer for prefix in _MODULES.values()) else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        with opened_parquet(path) as (con, file):
            for logs in _logs(con, path, file):
                applications, files = rows_of_logs(logs, context.paths)
                yield "applications", applications
                if files.rows:
                    yield "files", files


SOURCE = DarshanExport()


@cache
def _names() -> Mapping[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("export.toml").read_text(encoding="utf-8"))


def _footer(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 8))
            length = int.from_bytes(file.read(4), "little")
            if file.read(4) != _MAGIC or not 0 < length <= min(size, _LONGEST_FOOTER):
                return b""
            file.seek(max(0, size - 8 - length))
            return file.read(length)
    except OSError:
        return b""


def _shape(path: Path, types: Mapping[str, str]) -> _Shape:
    names = _names()
    found = {
        part: {
            what: next(n for n in options if n in types)
            for what, options in names[part].items()
            if any(n in types for n in options)
        }
        for part in ("job", "record")
    }
    counters: dict[str, dict[str, str]] = {}
    for module, prefix in _MODULES.items():
        known = {name for key, each in FIXED.items() if key[0] == module for name in (*each.counters, *each.fcounters)}
        for ahead in names["prefixes"]:
            mine = {name: ahead + name for name in sorted(known) if ahead + name in types}
            if all(prefix + name in mine for name in _NEEDED):
                counters[module] = mine
                break
    if not counters:
        raise TruncatedInput(
            f"{path} has counters, but not the bytes that were read and written.",
            hint="PyDarshan's to_df() has two frames: join them, counters.merge(fcounters, on=['id', 'rank']).",
        )
    if missing := [what for what in _REQUIRED if what not in found["job"]]:
        raise CorruptInput(f"{path} does not say which run its counters are of: it has no {missing[0]}.", hint=_HOW)
    if ("id" in found["record"]) != ("rank" in found["record"]):
        raise CorruptInput(f"{path} has one of id and rank: a record has both, a whole run none.", hint=_HOW)
    for what in ("start", "end"):
        kind = types[found["job"][what]]
        if kind not in (*_NUMBERS, "TIMESTAMP WITH TIME ZONE"):
            raise UndatedInput(
                f"{path}: the column {found['job'][what]!r} is {kind.lower()}, which has no zone.",
                hint="Write seconds since 1970, or times with a zone.",
            )
    return _Shape(found["job"], found["record"], counters)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _logs(con: duckdb.DuckDBPyConnection, path: Path, file: str) -> Iterator[list[DarshanLog]]:
    """The runs of a file, some at a time; rows of one run need not stand together."""
    types = {row[0]: str(row[1]) for row in con.sql(f"DESCRIBE SELECT * FROM {file}").fetchall()}
    shape = _shape(path, types)
    keys = ", ".join(f"{_quoted(name)} AS job_{what}" for what, name in shape.job.items())
    columns = [f"job_{what}" for what in shape.job]
    con.execute(f"""CREATE TEMP TABLE runs AS SELECT *, row_number() OVER () - 1 AS run FROM (
        SELECT {", ".join(columns)}, count(*) AS records FROM (SELECT {keys} FROM {file}) GROUP BY ALL ORDER BY ALL)""")
    con.execute(f"""CREATE TEMP TABLE chunks AS
        SELECT run, (sum(records) OVER (ORDER BY run) - 1) // {_CHUNK_RECORDS} AS chunk FROM runs""")
    moments = [
        f"epoch_ns(job_{what})" if types[shape.job[what]].startswith("TIMESTAMP") else f"job_{what}"
        for what in ("start", "end")
    ]
    others = [f"job_{what}" for what in shape.job if what not in ("start", "end")]
    jobs = con.sql(f"SELECT run, {', '.join([*moments, *others])} FROM runs ORDER BY run").fetchall()
    if not jobs:
        raise EmptyInput(f"{path} holds no row.")
    stamps = [types[shape.job[what]].startswith("TIMESTAMP") for what in ("start", "end")]
    fields = [name.removeprefix("job_") for name in others]
    about = {
        run: _job(path, {"start": start, "end": end, **dict(zip(fields, rest, strict=True))}, stamps)
        for run, start, end, *rest in jobs
    }
    same = " AND ".join(f"f.{_quoted(name)} IS NOT DISTINCT FROM r.job_{what}" for what, name in shape.job.items())
    chunks = "SELECT chunk, sum(records) FROM chunks JOIN runs USING (run) GROUP BY chunk ORDER BY chunk"
    for chunk, records in con.sql(chunks).fetchall():
        wanted = f"SELECT r.* FROM runs r JOIN chunks USING (run) WHERE chunk = {int(chunk)}"
        table = con.sql(f"SELECT r.run, {_selects(shape)} FROM {file} f JOIN ({wanted}) r ON {same}").fetchnumpy()
        if len(table["run"]) != records:  # filters look at the statistics of a column, which others wrote
            raise CorruptInput(f"{path}: statistics of its columns contradict their values.", hint="Fetch it again.")
        yield list(_of_chunk(path, shape, table, about))


def _selects(shape: _Shape) -> str:
    """Null is -1 in a counter and NaN in a time, as Darshan itself has it where it did not measure."""
    wanted = [f"CAST(f.{_quoted(column)} AS {_RECORD_KINDS[what]}) AS {what}_" for what, column in shape.record.items()]
    for columns in shape.counters.values():
        for name, column in columns.items():
            kind, missing = ("DOUBLE", "'NaN'") if "_F_" in name else ("BIGINT", "-1")
            wanted.append(f"coalesce(CAST(f.{_quoted(column)} AS {kind}), {missing}) AS {name}")
    return ", ".join(wanted)


def _of_chunk(
    path: Path, shape: _Shape, table: Mapping[str, NDArray[Any]], about: Mapping[int, tuple[DarshanJob, str, str]]
) -> Iterator[DarshanLog]:
    for what in () if shape.whole_runs else ("id", "rank"):
        if np.ma.getmaskarray(table[f"{what}_"]).any():
            raise CorruptInput(f"{path} has a record without its {shape.record[what]}.", hint=_HOW)
    run = np.asarray(table["run"], np.int64)
    order = np.argsort(run, kind="stable")
    starts = np.flatnonzero(np.diff(run[order], prepend=-1))
    for rows in np.split(order, starts[1:]):
        job, version, digest = about[int(run[rows[0]])]
        modules = dict(_modules(shape, table, rows))
        for module in modules.values():
            if shape.whole_runs and len(module.records) > 1:
                raise CorruptInput(
                    f"{path} has {len(rows)} rows of job {job.job_id} that do not tell files apart.",
                    hint="A row for each record has the columns id and rank; a run alone has one row.",
                )
            check_ranks(module, job.nprocs)
        names: dict[int, str] = {}
        if "path" in shape.record and not shape.whole_runs:
            named = zip(table["id_"][rows].tolist(), table["path_"][rows].tolist(), strict=True)
            names = {int(record): str(name) for record, name in named if isinstance(name, str)}
        form: Form = "totals" if shape.whole_runs else "export"
        yield DarshanLog(version, NATIVE, "none", job, modules, names, (), (), digest, form=form)


def _modules(shape: _Shape, table: Mapping[str, NDArray[Any]], rows: NDArray[Any]) -> Iterator[tuple[str, Module]]:
    for module, columns in shape.counters.items():
        prefix = _MODULES[module]
        here = rows[(table[f"{prefix}BYTES_READ"][rows] >= 0) | (table[f"{prefix}BYTES_WRITTEN"][rows] >= 0)]
        if not len(here):
            continue
        kept = [name for name in columns if not shape.whole_runs or not _NO_SUM.search(name)]
        kinds = [(name, "f8" if "_F_" in name else "i8") for name in kept]
        records = np.zeros(len(here), [("id", "u8"), ("rank", "i8"), *kinds])
        records["id"] = _ALL_FILES if shape.whole_runs else table["id_"][here]
        records["rank"] = -1 if shape.whole_runs else table["rank_"][here]
        for name in kept:
            records[name] = table[name][here]
        yield module, Module(module, 0, False, records)


def _job(path: Path, job: Mapping[str, Any], stamps: Sequence[bool]) -> tuple[DarshanJob, str, str]:
    try:
        start, end = (
            _moment(job[what], job.get(f"{what}_nanoseconds"), is_stamp)
            for what, is_stamp in zip(("start", "end"), stamps, strict=True)
        )
        job_id, nprocs = (int(job[name]) if job.get(name) is not None else -1 for name in ("job_id", "nprocs"))
        uid = _uid(job.get("uid"))
    except (TypeError, ValueError, OverflowError):
        raise CorruptInput(f"{path}: a run's id, processes or times are no numbers: {dict(job)!r:.200}.") from None
    check_job(start // NS, end // NS, nprocs)
    exe = str(job.get("exe") or "")
    made = DarshanJob(uid, job_id, nprocs, start, end, (end - start) / NS, {}, exe, ())
    # Of the run, not of the file: an export that is made again next month has the same runs.
    identity = "\0".join(map(str, ("export", job_id, uid, nprocs, start, end, exe, job.get("log"))))
    return made, str(job.get("log_version") or "unknown"), hashlib.sha256(identity.encode()).hexdigest()[:32]


def _uid(value: Any) -> int:
    """Anonymous exports have a hash: a text, or a number of 64 bits. Users stay apart, whatever stands for them."""
    try:
        uid = -1 if value is None else int(value)
    except ValueError:
        uid = int.from_bytes(hashlib.sha256(str(value).encode()).digest()[:7], "big")
    return uid if -(1 << 63) <= uid < 1 << 63 else (uid & (1 << 64) - 1) - (1 << 63)


def _moment(value: Any, nanoseconds: Any, is_stamp: bool) -> int:
    if is_stamp:
        return int(value)
    whole = int(value)
    return whole * NS + (int(nanoseconds) if nanoseconds is not None else round((float(value) - whole) * 1e6) * 1000)
