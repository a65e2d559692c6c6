"""Darshan's counters in Parquet, which sites and researchers archive instead of logs: the source `darshan_export`.

A row is a record of a file, with its id and rank, as PyDarshan's `to_df()` and our `to_pandas()` have them; or a whole
run, whose counters are sums over its files, as `darshan-parser --total` prints them. In both, columns of the job
distinguish the runs. A SELECT could not do this: it names its columns, and these files differ in the counters that they
have.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final, TypeAlias

import duckdb
import numpy as np
from numpy.typing import NDArray

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, EmptyInput, TruncatedInput, UndatedInput
from ioweather.core.frames import Frame
from ioweather.core.units import NS, names_of
from ioweather.readers.darshan.binary import check_job, check_ranks
from ioweather.readers.darshan.darshan_reader import rows_of_logs
from ioweather.readers.darshan.format import FIXED, NATIVE
from ioweather.readers.darshan.log import DarshanJob, DarshanLog, Module
from ioweather.readers.reader_catalogue import FileReader

_MAGIC: Final = b"PAR1"
_LONGEST_FOOTER: Final = 16 << 20
_ALL_FILES: Final = 0  # the record id of sums over all files
# Counters of one file, which have no sum.
_NO_SUM: Final = re.compile(r"RANK|VARIANCE|_MODE$|_MEM_ALIGNMENT$|TIME_SIZE$|_STRIDE\d|RENAMED_FROM")
_MODULES: Final = {"POSIX": "POSIX_", "MPI-IO": "MPIIO_", "STDIO": "STDIO_"}
_NEEDED: Final = ("BYTES_READ", "BYTES_WRITTEN")
# What columns are called in files that sites and researchers make; the first that is there is taken. Counters keep the
# names that Darshan gives them, also behind a prefix.
_PREFIXES: Final = ("", "total_", "TOTAL_")
_JOB: Final = {
    "log": "log log_name log_file darshan_log log_digest",
    "job_id": "jobid job_id JobID",
    "uid": "uid user_id",
    "nprocs": "nprocs n_procs NPROCS",
    "start": "start_time_sec start_time start",
    "start_nanoseconds": "start_time_nsec",
    "end": "end_time_sec end_time end",
    "end_nanoseconds": "end_time_nsec",
    "exe": "exe executable exe_name",
    "log_version": "log_ver log_version",
}
_RECORD: Final = {"id": "id record_id", "rank": "rank", "path": "path file_name filename name"}
_RECORD_TYPES: Final = {"id": "UBIGINT", "rank": "BIGINT", "path": "VARCHAR"}
_NUMBERS: Final = names_of("TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT FLOAT DOUBLE")
# Records in memory at once: 90 counters each, 70 MB; the records of one run are read together.
_CHUNK_RECORDS: Final = 100_000
_Names: TypeAlias = dict[str, str]
_HOW: Final = (
    "Besides Darshan's counters, the file needs columns of the job: jobid, uid, nprocs, start_time, end_time (seconds "
    "since 1970) and exe; see docs/sources/darshan.md."
)


def _detect_darshan_export(head: bytes, path: Path) -> float:
    """Parquet with counters of Darshan: the names of its columns are at the end of the file."""
    if not head.startswith(_MAGIC):
        return 0.0
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 8))
            length = int.from_bytes(file.read(4), "little")
            if file.read(4) != _MAGIC or not 0 < length <= min(size, _LONGEST_FOOTER):
                return 0.0
            file.seek(max(0, size - 8 - length))
            footer = file.read(length)
    except OSError:
        return 0.0
    return 0.9 if any(prefix.encode() + b"BYTES_READ" in footer for prefix in _MODULES.values()) else 0.0


def _read_darshan_export(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    """Rows of the runs in a Parquet file, by a DuckDB that can open no other file."""
    quoted = "'" + str(path.resolve()).replace("'", "''") + "'"
    with closing(duckdb.connect(":memory:")) as con:
        # This file and no other, whatever its contents.
        con.execute(f"SET allowed_paths = [{quoted}]")
        con.execute("SET enable_external_access = false")
        con.execute("SET lock_configuration = true")
        try:
            for logs in _read_runs(con, path, f"read_parquet({quoted})"):
                applications, files = rows_of_logs(logs, context.paths)
                yield "applications", applications
                if files.rows:
                    yield "files", files
        except (duckdb.Error, OSError) as error:
            reason = str(error).splitlines()[0]
            hint = "Is the file complete?"
            raise CorruptInput(f"Cannot read {path} as Parquet: {reason}.", hint=hint) from None


DARSHAN_EXPORT = FileReader(
    "darshan_export",
    "Darshan's counters in Parquet: a row for each record, or for each run",
    ("applications", "files"),
    _detect_darshan_export,
    _read_darshan_export,
)


def _find_columns(path: Path, types: Mapping[str, str]) -> tuple[_Names, _Names, dict[str, _Names]]:
    """Columns of the file: of the job, of the record, and by module those of the counters, by the name of each."""
    job, record = (
        {
            what: found[0]
            for what, given in names.items()
            if (found := [name for name in given.split() if name in types])
        }
        for names in (_JOB, _RECORD)
    )
    counters: dict[str, _Names] = {}
    for module, prefix in _MODULES.items():
        known = {name for key, each in FIXED.items() if key[0] == module for name in (*each.counters, *each.fcounters)}
        for ahead in _PREFIXES:
            mine = {name: ahead + name for name in sorted(known) if ahead + name in types}
            if all(prefix + name in mine for name in _NEEDED):
                counters[module] = mine
                break
    if not counters:
        raise TruncatedInput(
            f"{path} has counters, but no bytes read and written.",
            hint="Join the two frames of PyDarshan's to_df(): counters.merge(fcounters, on=['id', 'rank']).",
        )
    if missing := [what for what in ("job_id", "nprocs", "start", "end") if what not in job]:
        raise CorruptInput(f"{path} has no {missing[0]}, so the run of its counters is unknown.", hint=_HOW)
    if ("id" in record) != ("rank" in record):
        raise CorruptInput(f"{path} has only one of id and rank: records need both, whole runs neither.", hint=_HOW)
    for what in ("start", "end"):
        kind = types[job[what]]
        if kind not in (*_NUMBERS, "TIMESTAMP WITH TIME ZONE"):
            raise UndatedInput(
                f"{path}: the column {job[what]!r} is {kind.lower()}, without a time zone.",
                hint="Use seconds since 1970, or times with a zone.",
            )
    return job, record, counters


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _read_runs(con: duckdb.DuckDBPyConnection, path: Path, file: str) -> Iterator[list[DarshanLog]]:
    """The runs of a file, some at a time; rows of one run need not be adjacent."""
    types = {row[0]: str(row[1]) for row in con.sql(f"DESCRIBE SELECT * FROM {file}").fetchall()}
    job, record, counters = _find_columns(path, types)
    keys = ", ".join(map(_quote, job.values()))
    moments = {what for what in ("start", "end") if types[job[what]].startswith("TIMESTAMP")}
    shown = [f"epoch_ns({_quote(name)})" if what in moments else _quote(name) for what, name in job.items()]
    # Null is -1 in a counter and NaN in a time, as in Darshan's own logs where it did not measure.
    wanted = [f"CAST({_quote(column)} AS {_RECORD_TYPES[what]}) AS {what}_" for what, column in record.items()]
    for columns in counters.values():
        for name, column in columns.items():
            kind, missing = ("DOUBLE", "'NaN'") if "_F_" in name else ("BIGINT", "-1")
            wanted.append(f"coalesce(CAST({_quote(column)} AS {kind}), {missing}) AS {name}")
    (records,) = con.sql(f"SELECT count(*) FROM {file}").fetchall()[0]
    if not records:
        raise EmptyInput(f"{path} has no rows.")
    parts = 1 + records // _CHUNK_RECORDS
    for part in range(parts):
        # All rows of a run have the same hash.
        chosen = f"FROM {file} WHERE hash({keys}) % {parts} = {part}"
        runs = con.sql(f"SELECT DISTINCT {', '.join(shown)}, {keys} {chosen} ORDER BY {keys}").fetchall()
        about = [_make_job(path, dict(zip(job, run, strict=False)), moments) for run in runs]
        run_number = f"dense_rank() OVER (ORDER BY {keys}) - 1 AS run"
        table: Any = con.sql(f"SELECT {run_number}, {', '.join(wanted)} {chosen}").fetchnumpy()
        for what in ("id", "rank") if "id" in record else ():
            if np.ma.getmaskarray(table[f"{what}_"]).any():
                raise CorruptInput(f"{path} has a record without its {record[what]}.", hint=_HOW)
        if about:
            yield list(_make_logs(path, table, record, counters, about))


def _make_logs(
    path: Path,
    table: Mapping[str, NDArray[Any]],
    record: _Names,
    counters: Mapping[str, _Names],
    about: list[tuple[DarshanJob, str, str]],
) -> Iterator[DarshanLog]:
    """A log for each run in `table`, whose column `run` is a position in `about` (job, log version, digest)."""
    whole_runs = "id" not in record
    order = np.argsort(table["run"], kind="stable")
    starts = np.flatnonzero(np.diff(table["run"][order], prepend=-1))
    for rows in np.split(order, starts[1:]):
        job, version, digest = about[int(table["run"][rows[0]])]
        modules: dict[str, Module] = {}
        for name, columns in counters.items():
            read, written = (table[f"{_MODULES[name]}{needed}"][rows] for needed in _NEEDED)
            here = rows[(read >= 0) | (written >= 0)]
            if not len(here):
                continue
            if whole_runs and len(here) > 1:
                raise CorruptInput(
                    f"{path} has {len(rows)} rows of job {job.job_id} without id and rank of a file.",
                    hint="Use one row per record with columns id and rank, or one row per run.",
                )
            stored = [column for column in columns if not whole_runs or not _NO_SUM.search(column)]
            kinds = [(column, "f8" if "_F_" in column else "i8") for column in stored]
            records = np.zeros(len(here), [("id", "u8"), ("rank", "i8"), *kinds])
            records["id"] = _ALL_FILES if whole_runs else table["id_"][here]
            records["rank"] = -1 if whole_runs else table["rank_"][here]
            for column in stored:
                records[column] = table[column][here]
            modules[name] = Module(name, 0, False, records)
            check_ranks(modules[name], job.nprocs)
        names: dict[int, str] = {}
        if "path" in record and not whole_runs:
            named = zip(table["id_"][rows].tolist(), table["path_"][rows].tolist(), strict=True)
            names = {int(number): str(name) for number, name in named if isinstance(name, str)}
        form = "totals" if whole_runs else "export"
        yield DarshanLog(version, NATIVE, "none", job, modules, names, (), (), digest, form=form)  # type: ignore[arg-type]


def _make_job(path: Path, job: Mapping[str, Any], moments: set[str]) -> tuple[DarshanJob, str, str]:
    """The job of a run, the version of its log, and a digest."""

    def moment_ns(what: str) -> int:
        value, nanoseconds = job[what], job.get(f"{what}_nanoseconds")
        whole = int(value)
        if what in moments:
            return whole
        return whole * NS + (round((float(value) - whole) * 1e6) * 1000 if nanoseconds is None else int(nanoseconds))

    try:
        start, end = moment_ns("start"), moment_ns("end")
        job_id, nprocs = (int(job[name]) if job[name] is not None else -1 for name in ("job_id", "nprocs"))
    except (TypeError, ValueError, OverflowError):
        raise CorruptInput(f"{path}: a run's id, processes or times are not numbers: {dict(job)!r:.200}.") from None
    check_job(start // NS, end // NS, nprocs)
    exe, uid = str(job.get("exe") or ""), _make_uid(job.get("uid"))
    made = DarshanJob(uid, job_id, nprocs, start, end, (end - start) / NS, {}, exe, ())
    # Of the run, not of the file: an export that is made again next month has the same runs.
    identity = "\0".join(map(str, ("export", job_id, uid, nprocs, start, end, exe, job.get("log"))))
    return made, str(job.get("log_version") or "unknown"), hashlib.sha256(identity.encode()).hexdigest()[:32]


def _make_uid(value: Any) -> int:
    """The number of a user. Anonymous exports have a hash, as text or as 64 bits: different users keep different
    numbers."""
    try:
        uid = -1 if value is None else int(value)
    except (TypeError, ValueError, OverflowError):
        uid = int.from_bytes(hashlib.sha256(str(value).encode()).digest()[:7], "big")
    return uid if -(1 << 63) <= uid < 1 << 63 else (uid & (1 << 64) - 1) - (1 << 63)
