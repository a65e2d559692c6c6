"""Darshan logs of any version: read one log, and make rows of `applications` and `files` of many.

Hundreds of small logs cost their fixed price once: the records of all logs are joined per module and record version,
and each column is then one array operation. A column is a sum of counters; a counter that a record version lacks adds
nothing, and a column without any counter is null. Darshan marks what it did not measure with a negative number, which
becomes null too.
"""

from __future__ import annotations

import bz2
import json
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.contracts import Content, PathPolicy, ReadContext
from ioweather.core.errors import SourceError
from ioweather.core.frames import Bools, Floats, Frame, Ints, Text
from ioweather.core.tables import APPLICATIONS, FILE_MODULES, FILES, READ_BINS, SIZE_BINS, WRITE_BINS, encode_text
from ioweather.core.units import names_of, path_hash, shown_command
from ioweather.readers.darshan.binary import (
    BZIP2_MAGIC,
    FIRST_VERSION,
    GZIP_MAGIC,
    MAGIC_BYTES,
    NO_JOB_ID,
    read_version_2,
    read_version_3,
)
from ioweather.readers.darshan.format import DATA, LAYOUTS
from ioweather.readers.darshan.log import DarshanJob, DarshanLog, Module, Ragged, column
from ioweather.readers.darshan.text import is_parser_text, read_parser_text
from ioweather.readers.reader_catalogue import FileReader

# 'user_program_id178062_12-31-64877_1.darshan.gz'
_ID_IN_NAME = re.compile(r"_id([0-9]{1,18})_")

__all__ = ["DarshanJob", "DarshanLog", "Module", "Ragged", "column", "read_darshan", "read_log"]


def read_darshan(path: Path | str) -> DarshanLog:
    """Everything one Darshan log (2.00 to 3.41) says: `.job`, `.modules['POSIX'].records`, `.names`.

    `.to_pandas("POSIX")` or `.to_polars("POSIX")` gives the records of a module with the paths of their files, where
    that library is installed; so does `.modules["POSIX"].to_pandas()`, without paths.

    >>> import ioweather
    >>> log = ioweather.read_darshan("job.darshan")
    >>> log.job.nprocs
    4
    >>> list(log.to_polars("POSIX").columns[:3])
    ['path', 'id', 'rank']
    """
    return read_log(Path(path))


def read_log(
    path: Path | str | bytes, *, modules: Collection[str] | None = None, content: Content | None = None
) -> DarshanLog:
    """The log at `path`, or the log whose bytes are given. With `modules` only these are decompressed and returned.
    `content` (bytes and digest) saves reading the file a second time."""
    if isinstance(path, bytes):
        return _read(path, None, modules)
    path = Path(path) if isinstance(path, str) else path
    try:
        log = _read(path.read_bytes(), None, modules) if content is None else _read(*content, modules)
        if log.job.job_id == NO_JOB_ID and (named := _ID_IN_NAME.search(path.name)):
            log = replace(log, job=log.job._replace(job_id=int(named[1])))
        return log
    except SourceError as error:
        raise error.reworded(f"{path}: {error.message}") from error


def _read(data: bytes, digest: str | None, modules: Collection[str] | None) -> DarshanLog:
    """The log in these bytes: of 3.x, of 1.x or 2.x (compressed as a whole), or text of darshan-parser."""
    if not data:
        raise SourceError(
            "The file is empty.", hint="The run may have been killed before Darshan wrote its log.", kind="EmptyInput"
        )
    if data.startswith((GZIP_MAGIC, BZIP2_MAGIC)):
        return read_version_2(data, modules)
    if data[8:16] not in MAGIC_BYTES and is_parser_text(data):
        return read_parser_text(data, modules)
    return read_version_3(data, modules, digest)


_STREAMS: Final = frozenset({"<STDIN>", "<STDOUT>", "<STDERR>"})
# Files that MPI makes for itself: sessions, shared file pointers and lock tests of Open MPI, segments of shared memory.
# Other files in memory are the job's.
_OF_MPI: Final = re.compile(
    r".*/(?:ompi\.|openmpi-sessions-|prte\.|pmix-)[^/]*/.*|.*_cid-\d+-\d+\.sm|.*\.locktest\.\d+"
    r"|/dev/shm/(?:vader_segment|sm_segment|mpich_|psm[23]?_shm|Intel_MPI_|cray-shared-mem|ucx_shm)[^/]*"
)
# What follows from the id of a record.
_PLACE_COLUMNS: Final = names_of("path mount library standard_stream stripe_count stripe_bytes osts")
_NO_PLACE: Final = (None, None, None, False, None, None, None)


def _find_places(log: DarshanLog, paths: PathPolicy) -> dict[int, tuple[Any, ...]]:
    """The values of `_PLACE_COLUMNS` by record id, for records with a name or a Lustre layout."""
    mounts = {path.rstrip("/") or "/" for path, _ in log.job.mounts}
    libraries, layouts = _find_libraries(log), _find_layouts(log.modules.get("LUSTRE"))
    mount_of: dict[str, str | None] = {}
    found = {record_id: (*_NO_PLACE[:4], *layout) for record_id, layout in layouts.items()}
    for record_id, name in log.names.items():
        mount = None
        if name.startswith("/"):
            folder = name.rpartition("/")[0]
            if folder not in mount_of:
                above = (mount for mount in mounts if f"{folder}/".startswith(f"{mount.rstrip('/')}/"))
                mount_of[folder] = max(above, key=len, default=None)
            mount = name if name in mounts else mount_of[folder]
        path = None if paths == "drop" else path_hash(name) if paths == "hash" else name
        not_of_job = name in _STREAMS or _OF_MPI.fullmatch(name) is not None
        about = (path, mount, libraries.get(record_id), not_of_job)
        found[record_id] = (*about, *layouts.get(record_id, _NO_PLACE[4:]))
    return found


def _find_layouts(module: Module | None) -> dict[int, tuple[int, int, str]]:
    """Stripe count, bytes of a stripe and OSTs by record. Of several components in use the widest shows. [ours]"""
    if module is None:
        return {}
    found: dict[int, tuple[int, int, str]] = {}
    ids, osts = module.records["id"].tolist(), module.ragged["ost_ids"].tolist()
    if "components" not in module.ragged:
        widths, sizes = (module.records[f"LUSTRE_STRIPE_{word}"].tolist() for word in ("WIDTH", "SIZE"))
    for place, (record_id, targets) in enumerate(zip(ids, osts, strict=True)):
        width = size = 0
        if "components" not in module.ragged:
            width, size = widths[place], sizes[place]
        elif len(components := module.ragged["components"][place]):
            # LCME_FL_INIT of lustre_idl.h: a component without objects is a plan for a larger file. Plain ones have no
            # flags.
            in_use = components[(components["LUSTRE_COMP_FLAGS"] & 0x10) > 0]
            components = in_use if len(in_use) else components
            widest = components[np.argmax(components["LUSTRE_COMP_STRIPE_COUNT"])]
            width, size = int(widest["LUSTRE_COMP_STRIPE_COUNT"]), int(widest["LUSTRE_COMP_STRIPE_SIZE"])
        found[record_id] = width, size, ",".join(map(str, targets))
    return found


def _find_libraries(log: DarshanLog) -> dict[int, str]:
    """Library that a file was opened through; HDF5 first where both have it (NetCDF-4)."""
    found: dict[int, str] = {}
    for library, opened, linked in (("PnetCDF", "PNETCDF_FILE", "PNETCDF_VAR"), ("HDF5", "H5F", "H5D")):
        if opened in log.modules:
            found.update(dict.fromkeys(log.modules[opened].records["id"].tolist(), library))
        if linked in log.modules and (files := column(log.modules[linked], "file_id")) is not None:
            found.update(dict.fromkeys(files.tolist(), library))
    raw = log.modules.get("CP")  # Darshan 2.x counts library opens in the file's one record
    if raw is not None and "CP_HDF5_OPENS" in (raw.records.dtype.names or ()):  # 1.21 does not
        opens = raw.records["CP_INDEP_NC_OPENS"] + raw.records["CP_COLL_NC_OPENS"]
        found.update(dict.fromkeys(raw.records["id"][opens > 0].tolist(), "PnetCDF"))
        found.update(dict.fromkeys(raw.records["id"][raw.records["CP_HDF5_OPENS"] > 0].tolist(), "HDF5"))
    return found


# (module, its records), end to end.
Pieces: TypeAlias = Sequence[tuple[str, NDArray[Any]]]
_PREFIX: Final = {"MPI-IO": "MPIIO_", "POSIX": "POSIX_", "STDIO": "STDIO_"}
_NS: Final = 1e9
# No run lasts longer (30 years): what a damaged timestamp would say.
_LONGEST_SECONDS: Final = 1e9


def _counters_by_module(given: str | dict[str, str]) -> dict[str, list[str]]:
    """The counters that a column of `files` sums, by module."""
    words = given if isinstance(given, dict) else dict.fromkeys(_PREFIX, given)
    return {module: [_PREFIX[module] + word for word in counters.split()] for module, counters in words.items()}


_COUNTS: Final[dict[str, dict[str, list[str]]]] = {
    **{column: _counters_by_module(given) for column, given in DATA["files"]["counts"].items()},
    **{
        column: _counters_by_module(
            {"POSIX": f"SIZE_{verb}_{size.upper()}", "MPI-IO": f"SIZE_{verb}_AGG_{size.upper()}"}
        )
        for verb, columns in (("READ", READ_BINS), ("WRITE", WRITE_BINS))
        for column, size in zip(columns, SIZE_BINS, strict=True)
    },
}
_TIMES: Final[dict[str, str]] = DATA["files"]["times"]
_MOMENTS: Final[dict[str, str]] = DATA["files"]["moments"]
_REQUIRED: Final = frozenset({"read_count", "write_count", "read_bytes", "write_bytes"})
_EXTENT_BYTES: Final = {"read_extent_bytes": "read_bytes", "write_extent_bytes": "write_bytes"}
_TESTED_BY: Final = dict.fromkeys(
    ("file_not_aligned_count", "file_alignment_bytes"), _counters_by_module("FILE_ALIGNMENT")
)


def _count_column(name: str, pieces: Pieces) -> Ints:
    """A count or a size; masked where it was not measured."""
    parts = [_sum_counters(records, _COUNTS[name].get(module, [])) for module, records in pieces]
    values = np.concatenate([part for part, _ in parts])
    missing = np.concatenate([absent for _, absent in parts])
    if name in _EXTENT_BYTES:
        # The counter is the offset of the last byte, and 0 where there was none: the bytes moved tell which.
        missing |= np.ma.getmaskarray(moved := _count_column(_EXTENT_BYTES[name], pieces)) | (moved == 0)
        values = values + 1
    if name in _TESTED_BY:
        missing |= np.concatenate(
            [_sum_counters(records, _TESTED_BY[name][module])[0] <= 0 for module, records in pieces]
        )
    if name in _REQUIRED:
        return np.where(missing, 0, values)
    return np.ma.MaskedArray(np.where(missing, 0, values), mask=missing) if missing.any() else values


def _time_column(name: str, pieces: Pieces) -> Floats:
    """Seconds; NaN where the record version does not have them."""
    return np.concatenate([_read_seconds(module, records, _TIMES[name]) for module, records in pieces])


def _moment_column(name: str, pieces: Pieces, start_ns: Ints) -> Ints:
    """UTC nanoseconds: the run's start plus Darshan's seconds since then. 0 there means that it did not happen."""
    seconds = np.concatenate([_read_seconds(module, records, _MOMENTS[name]) for module, records in pieces])
    there = (seconds > 0) & (seconds < _LONGEST_SECONDS)
    since = np.rint(np.where(there, seconds, 0.0) * _NS).astype(np.int64)
    return np.ma.MaskedArray(np.where(there, start_ns + since, 0), mask=~there)


def _sum_counters(records: NDArray[Any], counters: Sequence[str]) -> tuple[Ints, Bools]:
    """The sum of those counters that the records have, and where it was not measured."""
    names = [name for name in counters if name in (records.dtype.names or ())]
    if not names:
        return np.zeros(len(records), np.int64), np.ones(len(records), np.bool_)
    total = np.array(records[names[0]], np.int64)
    negative = total < 0
    for name in names[1:]:
        values = records[name]
        negative |= values < 0
        total += values
    return total, negative


def _read_seconds(module: str, records: NDArray[Any], word: str) -> Floats:
    """A time counter in seconds; NaN where it is missing or negative."""
    name = _PREFIX[module] + word
    if name not in (records.dtype.names or ()):
        return np.full(len(records), np.nan)
    values = np.array(records[name], np.float64)
    return np.where(np.isfinite(values) & (values >= 0), values, np.nan)


# What rows are made of; the rest of a log (traces, heat maps) stays compressed.
MODULES: Final = (*FILE_MODULES, "CP", "H5D", "H5F", "LUSTRE", "PNETCDF_FILE", "PNETCDF_VAR")
_HOST_MODULES: Final = ("DXT_MPIIO", "DXT_POSIX")


@dataclass(frozen=True)
class _DarshanReader(FileReader):
    """Reader of Darshan logs of every version; hundreds of small logs are read together (`BatchSource`)."""

    is_of_one_person: bool = True  # the user who ran the job

    def parse(self, path: Path, context: ReadContext, content: Content | None = None) -> DarshanLog:
        """The log at a path, with the modules that rows need. Raises SourceError, also for a log of another user."""
        log = read_log(path, modules=MODULES, content=content)
        owner = context.doubted_owner(path)
        if owner not in (None, log.job.uid):
            raise SourceError(
                f"{path} is a log of user {log.job.uid}, but the file belongs to user {owner}.",
                hint="If it is a copy, use `ioweather ingest`, or set check_owner = false in [watch].",
                kind="ForeignRows",
            )
        return log

    def rows(
        self, parsed: Sequence[DarshanLog], context: ReadContext
    ) -> Iterator[tuple[str, Frame, NDArray[np.integer[Any]]]]:
        """Rows of `applications` and `files`, with the position of the log that each is of."""
        applications, files = rows_of_logs(parsed, context.paths)
        yield "applications", applications, np.arange(applications.rows)
        if files.rows:
            yield "files", files, files.text("log_digest").codes


def _detect_darshan(head: bytes, path: Path) -> float:
    """A 3.x log begins with its version and a magic number; older ones are compressed as a whole, and 1.x has no
    magic number."""
    start = head[:16]
    if start[8:] not in MAGIC_BYTES and is_parser_text(head):
        return 0.95
    is_compressed = head.startswith((GZIP_MAGIC, BZIP2_MAGIC))
    if is_compressed:
        stream: Any = zlib.decompressobj(31) if head.startswith(GZIP_MAGIC) else bz2.BZ2Decompressor()
        try:
            start = stream.decompress(head, 16)
        except (zlib.error, OSError, EOFError):
            start = b""
    if start[8:16] in MAGIC_BYTES and start[:2] in (b"2.", b"3."):
        return 1.0
    if is_compressed and FIRST_VERSION.match(start):
        return 0.9
    # A 3.x log whose magic number is damaged is still a Darshan log, and is refused as one.
    return 0.5 if start[:8].rstrip(b"\0") in LAYOUTS else 0.0


def _read_darshan(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    for table, frame, _ in DARSHAN.rows([DARSHAN.parse(path, context)], context):
        yield table, frame


DARSHAN = _DarshanReader(
    "darshan",
    "Darshan logs (1.21 to 3.41, including forks) and darshan-parser text",
    ("applications", "files"),
    _detect_darshan,
    _read_darshan,
)


def rows_of_logs(logs: Sequence[DarshanLog], paths: PathPolicy = "keep") -> tuple[Frame, Frame]:
    """`applications` and `files` of many logs: one frame each, logs in order in the first."""
    return _make_applications(logs, paths), _make_files(logs, paths)


def _make_applications(logs: Sequence[DarshanLog], paths: PathPolicy) -> Frame:
    """Rows of `applications`, one for each log."""
    jobs = [log.job for log in logs]
    mounts: dict[tuple[tuple[str, str], ...], str | None] = {(): None}
    for job in jobs:
        if job.mounts not in mounts:
            mounts[job.mounts] = json.dumps(dict(job.mounts))
    return APPLICATIONS.frame(
        rows=len(logs),
        log_digest=encode_text([log.digest for log in logs]),
        job_id=[job.job_id for job in jobs],
        uid=[job.uid for job in jobs],
        exe=encode_text([shown_command(job.exe, paths) for job in jobs]),
        nprocs=[job.nprocs for job in jobs],
        start_ns=[job.start_ns for job in jobs],
        end_ns=[job.end_ns for job in jobs],
        log_version=encode_text([log.version for log in logs]),
        partial_modules=encode_text([",".join(log.partial_modules) for log in logs]),
        mounts=encode_text([mounts[job.mounts] for job in jobs]),
        modules=encode_text([",".join((*log.modules, *log.skipped_modules, *log.unknown_modules)) for log in logs]),
        longer_records=encode_text([",".join(log.longer_records) or None for log in logs]),
        hosts=[_host_count(log) for log in logs],
        form=encode_text([log.form for log in logs]),
    )


def _host_count(log: DarshanLog) -> int | None:
    """The number of hosts, from DXT traces; None without traces."""
    traces = [log.modules[name].records for name in _HOST_MODULES if name in log.modules]
    return len(set().union(*(records["hostname"].tolist() for records in traces))) if traces else None


def _make_files(logs: Sequence[DarshanLog], paths: PathPolicy) -> Frame:
    """Rows of `files`, one for each record of POSIX, MPI-IO and STDIO."""
    pieces: list[tuple[str, NDArray[Any]]] = []
    numbers: list[Ints] = []
    places: list[tuple[Any, ...]] = []
    sizes: list[NDArray[Any]] = []
    known: dict[int, dict[int, tuple[Any, ...]]] = {}
    for module in FILE_MODULES:
        # One module version has one record layout, in native byte order; the size distinguishes those of 2.x.
        same: dict[tuple[int, int], list[tuple[int, NDArray[Any]]]] = {}
        for number, log in enumerate(logs):
            part = log.modules.get(module)
            # Darshan 2.x counts streams inside its one record, which is the POSIX row.
            if part is not None and len(part.records) and not (module == "STDIO" and "CP" in log.modules):
                same.setdefault((part.version, part.records.dtype.itemsize), []).append((number, part.records))
        for members in same.values():
            arrays = [records for _, records in members]
            # Joining bytes is some 30 times faster than np.concatenate of structured arrays, which promotes each field.
            joined = np.frombuffer(b"".join(a.tobytes() for a in arrays), arrays[0].dtype) if arrays[1:] else arrays[0]
            pieces.append((module, joined))
            for number, records in members:
                if number not in known:
                    known[number] = _find_places(logs[number], paths)
                places += [known[number].get(record, _NO_PLACE) for record in records["id"].tolist()]
                numbers.append(np.full(len(records), number))
                # Darshan 2.x alone records it, and its POSIX module has all raw records, in order; -1: not looked at.
                raw = logs[number].modules.get("CP") if module == "POSIX" else None
                size = column(raw, "CP_SIZE_AT_OPEN") if raw is not None else None
                sizes.append(np.full(len(records), -1) if size is None else size)
    if not pieces:
        return FILES.frame({spec.name: [] for spec in FILES.columns}, rows=0)
    log_numbers = np.concatenate(numbers)
    start_ns = np.array([each.job.start_ns for each in logs], np.int64)[log_numbers]
    rank = np.concatenate([records["rank"] for _, records in pieces])
    at_open = np.concatenate(sizes)
    lengths = [len(records) for _, records in pieces]
    modules = np.repeat([FILE_MODULES.index(module) for module, _ in pieces], lengths)
    columns: dict[str, Any] = {
        "log_digest": Text(log_numbers.astype(np.int32), tuple(each.digest for each in logs)),
        "start_ns": start_ns,
        "record_id": np.concatenate([records["id"] for _, records in pieces]).view(np.int64),
        "rank": rank,
        "module": Text(modules.astype(np.int32), FILE_MODULES),
        **{name: _count_column(name, pieces) for name in _COUNTS},
        **{name: _time_column(name, pieces) for name in _TIMES},
        **{name: _moment_column(name, pieces, start_ns) for name in _MOMENTS},
        **dict(zip(_PLACE_COLUMNS, map(list, zip(*places, strict=True)), strict=True)),
        "size_at_open_bytes": np.ma.MaskedArray(np.maximum(at_open, 0), mask=at_open < 0),
    }
    columns |= {name: encode_text(columns[name]) for name in ("path", "mount", "library", "osts")}
    own = rank >= 0  # fastest and slowest rank mean nothing in a record of one rank
    for name in ("fastest_rank", "fastest_rank_bytes", "slowest_rank", "slowest_rank_bytes"):
        columns[name] = np.ma.MaskedArray(columns[name], mask=np.ma.getmaskarray(columns[name]) | own)
    for name in ("fastest_rank_seconds", "slowest_rank_seconds"):
        columns[name] = np.where(own, np.nan, columns[name])
    for i in range(1, 5):  # Darshan 3.2.0 leaves anything in the size of a slot that it did not use
        columns[f"access{i}_bytes"][np.ma.filled(columns[f"access{i}_count"] == 0, False)] = 0
    return FILES.frame(columns, rows=len(rank))
