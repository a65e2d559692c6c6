"""What each interface did in one job: POSIX, MPI-IO and STDIO from file rows, the libraries above and beside them from
their own records. One form for all of them, so that one layout shows each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.tables.applications import FILE_MODULES, READ_BINS, SIZE_BINS, WRITE_BINS
from ioweather.core.words import names_of
from ioweather.facts.file_records import NEVER_LAST, FileRecords, maximum
from ioweather.facts.times import times
from ioweather.job_io.view import LogFacts

Arrays: TypeAlias = Mapping[str, NDArray[Any]]
KINDS: Final = ("all", "only read", "only written", "read and written", "no data moved")

# Columns of `files` behind each operation; a list is a sum, '-' takes away.
_FILE_OPERATIONS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "POSIX": (
        ("reads", "read_count"), ("writes", "write_count"), ("opens", "open_count"), ("stats", "stat_count"),
        ("seeks", "seek_count"), ("syncs", "sync_count"),
    ),
    "MPI-IO": (
        ("independent reads", "read_count - collective_read_count"),
        ("independent writes", "write_count - collective_write_count"),
        ("independent opens", "open_count - collective_open_count"),
        ("collective reads", "collective_read_count"), ("collective writes", "collective_write_count"),
        ("collective opens", "collective_open_count"), ("of these non-blocking", "nonblocking_count"),
        ("syncs", "sync_count"),
    ),
    "STDIO": (
        ("reads", "read_count"), ("writes", "write_count"), ("opens", "open_count"), ("seeks", "seek_count"),
        ("flushes", "sync_count"),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Library:
    """Which counters of which modules tell about a library. `files` is the module with a record per file, `data` the
    one with bytes and times."""

    name: str
    noun: str
    files: str
    data: str
    sizes: str  # what stands between the module's prefix and an access-size bin
    operations: tuple[tuple[str, str], ...]
    meta: tuple[str, ...]
    wait: str = ""


LIBRARIES: Final = (
    Library(
        "HDF5",
        "files",
        "H5F",
        "H5D",
        "_AGG",
        (
            ("file opens", "H5F_OPENS"),
            ("file flushes", "H5F_FLUSHES"),
            ("dataset opens", "H5D_OPENS"),
            ("dataset reads", "H5D_READS"),
            ("dataset writes", "H5D_WRITES"),
            ("dataset flushes", "H5D_FLUSHES"),
        ),
        ("H5F_F_META_TIME", "H5D_F_META_TIME"),
    ),
    Library(
        "PnetCDF",
        "files",
        "PNETCDF_FILE",
        "PNETCDF_VAR",
        "_AGG",
        (
            ("file opens", "PNETCDF_FILE_OPENS"),
            ("file creates", "PNETCDF_FILE_CREATES"),
            ("independent file opens", "PNETCDF_FILE_INDEP_OPENS"),
            ("collective file opens", "PNETCDF_FILE_COLL_OPENS"),
            ("file syncs", "PNETCDF_FILE_SYNCS"),
            ("independent waits", "PNETCDF_FILE_INDEP_WAITS"),
            ("collective waits", "PNETCDF_FILE_COLL_WAITS"),
            ("variable opens", "PNETCDF_VAR_OPENS"),
            ("independent reads", "PNETCDF_VAR_INDEP_READS"),
            ("independent writes", "PNETCDF_VAR_INDEP_WRITES"),
            ("collective reads", "PNETCDF_VAR_COLL_READS"),
            ("collective writes", "PNETCDF_VAR_COLL_WRITES"),
            ("non-blocking reads", "PNETCDF_VAR_NB_READS"),
            ("non-blocking writes", "PNETCDF_VAR_NB_WRITES"),
        ),
        ("PNETCDF_FILE_F_META_TIME", "PNETCDF_VAR_F_META_TIME"),
        "PNETCDF_FILE_F_WAIT_TIME",
    ),
    Library(
        "DFS",
        "files",
        "DFS",
        "DFS",
        "",
        tuple(
            (word.lower().replace("_", " "), f"DFS_{word}")
            for word in names_of("""
            READS READXS WRITES WRITEXS NB_READS NB_WRITES OPENS GLOBAL_OPENS LOOKUPS DUPS GET_SIZES PUNCHES REMOVES
            STATS
        """)
        ),
        ("DFS_F_META_TIME",),
    ),
    Library(
        "DAOS",
        "objects",
        "DAOS",
        "DAOS",
        "",
        tuple(
            (word.lower().replace("_", " "), f"DAOS_{word}")
            for word in names_of("""
            OBJ_FETCHES OBJ_UPDATES OBJ_OPENS OBJ_PUNCHES OBJ_DKEY_PUNCHES OBJ_AKEY_PUNCHES OBJ_DKEY_LISTS
            OBJ_AKEY_LISTS OBJ_RECX_LISTS ARRAY_READS ARRAY_WRITES ARRAY_OPENS ARRAY_GET_SIZES ARRAY_SET_SIZES
            ARRAY_STATS ARRAY_PUNCHES ARRAY_DESTROYS KV_GETS KV_PUTS KV_OPENS KV_REMOVES KV_LISTS KV_DESTROYS NB_OPS
        """)
        ),
        ("DAOS_F_META_TIME",),
    ),
)


@dataclass(frozen=True)
class FileKind:
    """Files of one kind of use; sizes are the highest byte touched, None where it is not recorded."""

    kind: str
    count: int
    mean_bytes: float | None
    largest_bytes: int | None


@dataclass(frozen=True)
class Usage:
    """What one interface did. `io_seconds` is D of its records alone; `bytes_per_s` follows from it. `pattern` has
    reads and writes: all, sequential, consecutive. Seconds are of all processes together."""

    name: str
    noun: str
    files: int
    read_bytes: int
    write_bytes: int
    io_seconds: float | None
    read_seconds: float
    write_seconds: float
    meta_seconds: float
    wait_seconds: float
    kinds: tuple[FileKind, ...]
    read_sizes: tuple[int, ...]
    write_sizes: tuple[int, ...]
    common_sizes: tuple[tuple[int, int], ...]
    operations: tuple[tuple[str, int], ...]
    pattern: tuple[tuple[str, int, int, int], ...] = ()

    @property
    def bytes_per_s(self) -> float | None:
        return (self.read_bytes + self.write_bytes) / self.io_seconds if self.io_seconds else None

    @property
    def accesses(self) -> int:
        return sum(self.read_sizes) + sum(self.write_sizes)


def usages(records: FileRecords, log: LogFacts | None) -> list[Usage]:
    """Every interface with records, the one nearest to the application first."""
    found = [] if log is None else [_library(library, log) for library in LIBRARIES]
    masks = {"MPI-IO": records.mpiio, "POSIX": records.posix, "STDIO": records.stdio}
    found += [_file_module(records, name, masks[name]) for name in FILE_MODULES]
    return [usage for usage in found if usage is not None]


def _file_module(records: FileRecords, name: str, rows: Bools) -> Usage | None:
    if not rows.any():
        return None

    def total(column: str) -> int:
        return int(records.ints(column)[rows].sum())

    def seconds(column: str) -> float:
        return float(records.seconds(column)[rows].sum())

    spent = times(records, rows).total
    return Usage(
        name, "files", int((records.per_file(rows.astype(np.int64)) > 0).sum()),
        total("read_bytes"), total("write_bytes"), _known_sum(spent),
        seconds("read_seconds"), seconds("write_seconds"), seconds("meta_seconds"), 0.0,
        _file_kinds(records, rows),
        tuple(total(column) for column in READ_BINS), tuple(total(column) for column in WRITE_BINS),
        common_sizes(
            [(records.ints(f"access{i}_bytes")[rows], records.ints(f"access{i}_count")[rows]) for i in range(1, 5)]
        ),
        tuple((label, _difference(total, columns)) for label, columns in _FILE_OPERATIONS[name]),
        _pattern(total) if name == "POSIX" else (),
    )  # fmt: skip


def _known_sum(spent: Floats) -> float | None:
    known = spent[np.isfinite(spent)]
    return float(known.sum()) if len(known) else None


def _difference(total: Any, columns: str) -> int:
    first, *others = columns.split(" - ")
    return int(total(first) - sum(total(name) for name in others))


def _pattern(total: Any) -> tuple[tuple[str, int, int, int], ...]:
    return tuple(
        (f"{verb}s", total(f"{verb}_count"), total(f"sequential_{verb}_count"), total(f"consecutive_{verb}_count"))
        for verb in ("read", "write")
    )


def _file_kinds(records: FileRecords, rows: Bools) -> tuple[FileKind, ...]:
    """Sizes are those that any module saw of a file: MPI-IO itself records none."""
    there = records.per_file(rows.astype(np.int64)) > 0
    read = records.per_file(records.ints("read_count") + records.ints("read_bytes"), rows) > 0
    written = records.per_file(records.ints("write_count") + records.ints("write_bytes"), rows) > 0
    size = file_sizes(records)
    masks = (there, read & ~written, written & ~read, read & written, there & ~read & ~written)
    return tuple(_file_kind(kind, there & mask, size) for kind, mask in zip(KINDS, masks, strict=True))


def file_sizes(records: FileRecords) -> Ints:
    """Highest byte read or written, plus one, of each file; NEVER_LAST where none is recorded."""
    extents = [
        maximum(records.ints(name), records.file, records.files, records.known(name))
        for name in ("read_extent_bytes", "write_extent_bytes")
    ]
    highest: Ints = np.maximum(extents[0], extents[1])
    return highest


def _file_kind(kind: str, mask: Bools, size: Ints) -> FileKind:
    known = size[mask & (size != NEVER_LAST)]
    if not len(known):
        return FileKind(kind, int(mask.sum()), None, None)
    return FileKind(kind, int(mask.sum()), float(known.mean()), int(known.max()))


def common_sizes(pairs: Sequence[tuple[NDArray[Any], NDArray[Any]]], most: int = 4) -> tuple[tuple[int, int], ...]:
    """(size, accesses) of the most common sizes over all records, from the four that each record keeps."""
    size = np.concatenate([sizes for sizes, _ in pairs]).astype(np.int64)
    count = np.concatenate([counts for _, counts in pairs]).astype(np.int64)
    size, count = size[count > 0], count[count > 0]
    distinct, place = np.unique(size, return_inverse=True)
    totals = np.zeros(len(distinct), np.int64)
    np.add.at(totals, place, count)
    order = np.lexsort((-distinct, -totals))[:most]
    return tuple((int(distinct[i]), int(totals[i])) for i in order)


def _library(library: Library, log: LogFacts) -> Usage | None:
    arrays = {name: log.records(name) for name in (library.files, library.data)}
    there = {name: records for name, records in arrays.items() if records is not None and len(records)}
    if not there:
        return None
    data = there.get(library.data)
    prefix = library.data
    files = there.get(library.files)
    sizes = {
        verb: tuple(_total(there, f"{prefix}_SIZE_{verb}{library.sizes}_{size.upper()}") for size in SIZE_BINS)
        for verb in ("READ", "WRITE")
    }
    return Usage(
        library.name, library.noun,
        len(np.unique(files["id"])) if files is not None else _linked_files(data),
        _total(there, f"{prefix}_BYTES_READ"), _total(there, f"{prefix}_BYTES_WRITTEN"),
        None if data is None else _slowest(data, prefix),
        _seconds(there, f"{prefix}_F_READ_TIME"), _seconds(there, f"{prefix}_F_WRITE_TIME"),
        sum(_seconds(there, name) for name in library.meta), _seconds(there, library.wait),
        (),
        sizes["READ"], sizes["WRITE"],
        () if data is None else common_sizes(
            [(data[f"{prefix}_ACCESS{i}_ACCESS"], data[f"{prefix}_ACCESS{i}_COUNT"]) for i in range(1, 5)]
        ),
        tuple((label, count) for label, name in library.operations if (count := _total(there, name))),
    )  # fmt: skip


def _linked_files(data: NDArray[Any] | None) -> int:
    """Datasets name the file they lie in where the version has it; else nothing tells how many files there are."""
    if data is None or "file_id" not in (data.dtype.names or ()):
        return 0
    return len(np.unique(data["file_id"]))


def _column(arrays: Arrays, name: str) -> NDArray[Any] | None:
    return next((records[name] for records in arrays.values() if name in (records.dtype.names or ())), None)


def _total(arrays: Arrays, name: str) -> int:
    column = _column(arrays, name)
    return 0 if column is None else int(np.maximum(column, 0).sum())


def _seconds(arrays: Arrays, name: str) -> float:
    column = _column(arrays, name)
    return 0.0 if column is None else float(np.maximum(np.nan_to_num(column), 0.0).sum())


def _slowest(data: NDArray[Any], prefix: str) -> float | None:
    """D of a library's records: the slowest rank on what is its own, and the slowest rank's time of each shared one."""
    own = data["rank"] >= 0
    spent = sum(np.maximum(np.nan_to_num(data[f"{prefix}_F_{part}_TIME"]), 0.0) for part in ("READ", "WRITE", "META"))
    _, place = np.unique(data["rank"][own], return_inverse=True)
    by_rank = np.bincount(place, weights=np.asarray(spent)[own])
    shared = float(np.maximum(data[f"{prefix}_F_SLOWEST_RANK_TIME"][~own], 0.0).sum())
    return (float(by_rank.max(initial=0.0)) + shared) or None
