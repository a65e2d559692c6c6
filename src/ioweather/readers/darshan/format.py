"""The format of Darshan logs by version: headers, module numbers, names of counters, and record dtypes.

Counters have the names of the format itself (`POSIX_OPENS`, `POSIX_F_READ_TIME`), in record order. They are built from
the words that repeat, because 700 literal names hide their own structure.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from ioweather.core.errors import UnsupportedVersion
from ioweather.core.units import names_of

_SIZES: Final = "0_100 100_1K 1K_10K 10K_100K 100K_1M 1M_4M 4M_10M 10M_100M 100M_1G 1G_PLUS"
_RANKS: Final = "FASTEST_RANK FASTEST_RANK_BYTES SLOWEST_RANK SLOWEST_RANK_BYTES"
_MAX_TIME_SIZES: Final = "MAX_READ_TIME_SIZE MAX_WRITE_TIME_SIZE"


def _each(pattern: str, values: Iterable[object]) -> str:
    return " ".join(pattern.format(value) for value in values)


def _sized(stem: str) -> str:
    return _each(f"{stem}_{{}}", _SIZES.split())


def _four(pattern: str) -> str:
    return _each(pattern, range(1, 5))


def _dimensions(stem: str) -> str:
    return _each(f"{stem}_D{{}}", range(1, 6))


_ACCESS_SHAPES: Final = " ".join(
    f"ACCESS{i}_ACCESS {_dimensions(f'ACCESS{i}_LENGTH')} {_dimensions(f'ACCESS{i}_STRIDE')}" for i in range(1, 5)
)


def _prefixed(prefix: str, words: str) -> tuple[str, ...]:
    return tuple(f"{prefix}_{word}" for word in words.split())


@dataclass(frozen=True)
class _RecordNames:
    """Integer and float counters of one module version, and the other fields of its record.

    `links`: a word after the rank is the id of the file of the dataset or variable. `gap_bytes`: bytes after
    the rank that mean nothing. `tail`: fields behind the counters.
    """

    counters: tuple[str, ...]
    fcounters: tuple[str, ...]
    links: bool = False
    tail: tuple[tuple[str, str], ...] = ()
    gap_bytes: int = 0


_ACCESS: Final = f"{_four('ACCESS{}_ACCESS')} {_four('ACCESS{}_COUNT')}"
_STRIDE: Final = f"{_four('STRIDE{}_STRIDE')} {_four('STRIDE{}_COUNT')}"
_SIZE_BOTH: Final = f"{_sized('SIZE_READ')} {_sized('SIZE_WRITE')}"
_SIZE_AGG_BOTH: Final = f"{_sized('SIZE_READ_AGG')} {_sized('SIZE_WRITE_AGG')}"

_TIMES_WITHOUT_VARIANCE: Final = (
    "OPEN_START_TIMESTAMP READ_START_TIMESTAMP WRITE_START_TIMESTAMP CLOSE_START_TIMESTAMP "
    "OPEN_END_TIMESTAMP READ_END_TIMESTAMP WRITE_END_TIMESTAMP CLOSE_END_TIMESTAMP "
    "READ_TIME WRITE_TIME META_TIME MAX_READ_TIME MAX_WRITE_TIME FASTEST_RANK_TIME SLOWEST_RANK_TIME"
)
_TIMES: Final = f"{_TIMES_WITHOUT_VARIANCE} VARIANCE_RANK_TIME VARIANCE_RANK_BYTES"
# Before POSIX v3 and MPI-IO v3 only the first open and the last close were stamped.
_LATER_TIMES: Final = ("CLOSE_START_TIMESTAMP", "OPEN_END_TIMESTAMP")

_POSIX_MIDDLE: Final = (
    "MODE BYTES_READ BYTES_WRITTEN MAX_BYTE_READ MAX_BYTE_WRITTEN CONSEC_READS CONSEC_WRITES SEQ_READS SEQ_WRITES "
    "RW_SWITCHES MEM_NOT_ALIGNED MEM_ALIGNMENT FILE_NOT_ALIGNED FILE_ALIGNMENT "
    f"{_MAX_TIME_SIZES} {_SIZE_BOTH} {_STRIDE} {_ACCESS} {_RANKS}"
)
_POSIX_V4: Final = (
    "OPENS FILENOS DUPS READS WRITES SEEKS STATS MMAPS FSYNCS FDSYNCS RENAME_SOURCES RENAME_TARGETS RENAMED_FROM "
    + _POSIX_MIDDLE
)
_POSIX_V2: Final = "OPENS READS WRITES SEEKS STATS MMAPS FSYNCS FDSYNCS " + _POSIX_MIDDLE
# Darshan 3.0 counted stdio calls inside the POSIX module.
_POSIX_V1: Final = "OPENS READS WRITES SEEKS STATS MMAPS FOPENS FREADS FWRITES FSEEKS FSYNCS FDSYNCS " + _POSIX_MIDDLE
_MPIIO: Final = (
    "INDEP_OPENS COLL_OPENS INDEP_READS INDEP_WRITES COLL_READS COLL_WRITES SPLIT_READS SPLIT_WRITES NB_READS "
    "NB_WRITES SYNCS HINTS VIEWS MODE BYTES_READ BYTES_WRITTEN RW_SWITCHES "
    f"{_MAX_TIME_SIZES} {_SIZE_AGG_BOTH} {_ACCESS} {_RANKS}"
)
_STDIO: Final = (
    "OPENS FDOPENS READS WRITES SEEKS FLUSHES BYTES_WRITTEN BYTES_READ MAX_BYTE_READ MAX_BYTE_WRITTEN " + _RANKS
)
_STDIO_TIMES: Final = (
    "META_TIME WRITE_TIME READ_TIME "
    "OPEN_START_TIMESTAMP CLOSE_START_TIMESTAMP WRITE_START_TIMESTAMP READ_START_TIMESTAMP "
    "OPEN_END_TIMESTAMP CLOSE_END_TIMESTAMP WRITE_END_TIMESTAMP READ_END_TIMESTAMP "
    "FASTEST_RANK_TIME SLOWEST_RANK_TIME VARIANCE_RANK_TIME VARIANCE_RANK_BYTES"
)
_H5D: Final = (
    "OPENS READS WRITES FLUSHES BYTES_READ BYTES_WRITTEN RW_SWITCHES REGULAR_HYPERSLAB_SELECTS "
    f"IRREGULAR_HYPERSLAB_SELECTS POINT_SELECTS {_MAX_TIME_SIZES} {_SIZE_AGG_BOTH} {_ACCESS_SHAPES} "
    f"{_four('ACCESS{}_COUNT')} DATASPACE_NDIMS DATASPACE_NPOINTS DATATYPE_SIZE {_dimensions('CHUNK_SIZE')} "
    f"USE_MPIIO_COLLECTIVE USE_DEPRECATED {_RANKS}"
)
_OPEN_CLOSE: Final = "OPEN_START_TIMESTAMP CLOSE_START_TIMESTAMP OPEN_END_TIMESTAMP CLOSE_END_TIMESTAMP"
# The first versions stamped one open and one close; Darshan's own tools read them as first open and last close.
_OPEN_CLOSE_V1: Final = "OPEN_START_TIMESTAMP CLOSE_END_TIMESTAMP"
_PNETCDF_CALLS: Final = " ".join(
    f"{verb}_{kind}"
    for verb, kinds in (
        ("PUT", "VAR VAR1 VARA VARS VARM VARN VARD"),
        ("GET", "VAR VAR1 VARA VARS VARM VARN VARD"),
        ("IPUT", "VAR VAR1 VARA VARS VARM VARN"),
        ("IGET", "VAR VAR1 VARA VARS VARM VARN"),
        ("BPUT", "VAR VAR1 VARA VARS VARM VARN"),
    )
    for kind in kinds.split()
)
_PNETCDF_VAR: Final = (
    "OPENS INDEP_READS INDEP_WRITES COLL_READS COLL_WRITES NB_READS NB_WRITES BYTES_READ BYTES_WRITTEN RW_SWITCHES "
    f"{_PNETCDF_CALLS} {_MAX_TIME_SIZES} {_SIZE_AGG_BOTH} {_ACCESS_SHAPES} {_four('ACCESS{}_COUNT')} "
    f"NDIMS NPOINTS DATATYPE_SIZE IS_RECORD_VAR {_RANKS}"
)
_PNETCDF_FILE: Final = "CREATES OPENS REDEFS INDEP_WAITS COLL_WAITS SYNCS BYTES_READ BYTES_WRITTEN WAIT_FAILURES"
_PNETCDF_FILE_TIMES: Final = (
    "OPEN_START_TIMESTAMP CLOSE_START_TIMESTAMP WAIT_START_TIMESTAMP OPEN_END_TIMESTAMP CLOSE_END_TIMESTAMP "
    "WAIT_END_TIMESTAMP META_TIME WAIT_TIME"
)
_BGQ: Final = "CSJOBID NNODES RANKSPERNODE DDRPERNODE INODES ANODES BNODES CNODES DNODES ENODES TORUSENABLED"
_DFS: Final = (
    "OPENS GLOBAL_OPENS LOOKUPS DUPS READS READXS WRITES WRITEXS NB_READS NB_WRITES GET_SIZES PUNCHES REMOVES STATS "
    f"BYTES_READ BYTES_WRITTEN RW_SWITCHES {_MAX_TIME_SIZES} {_SIZE_BOTH} {_ACCESS} CHUNK_SIZE {_RANKS}"
)
_DAOS: Final = (
    "OBJ_OPENS OBJ_FETCHES OBJ_UPDATES OBJ_PUNCHES OBJ_DKEY_PUNCHES OBJ_AKEY_PUNCHES OBJ_DKEY_LISTS OBJ_AKEY_LISTS "
    "OBJ_RECX_LISTS ARRAY_OPENS ARRAY_READS ARRAY_WRITES ARRAY_GET_SIZES ARRAY_SET_SIZES ARRAY_STATS ARRAY_PUNCHES "
    "ARRAY_DESTROYS KV_OPENS KV_GETS KV_PUTS KV_REMOVES KV_LISTS KV_DESTROYS NB_OPS BYTES_READ BYTES_WRITTEN "
    f"RW_SWITCHES {_MAX_TIME_SIZES} {_SIZE_BOTH} {_ACCESS} OBJ_OTYPE ARRAY_CELL_SIZE ARRAY_CHUNK_SIZE {_RANKS}"
)
_UUIDS: Final = (("pool_uuid", "V16"), ("container_uuid", "V16"))


def _record(
    prefix: str, counters: str, times: str, *, without: Iterable[str] = (), **other_fields: Any
) -> _RecordNames:
    names, time_names = ([word for word in words.split() if word not in without] for words in (counters, times))
    return _RecordNames(
        _prefixed(prefix, " ".join(names)), _prefixed(f"{prefix}_F", " ".join(time_names)), **other_fields
    )


_DAOS_TAIL: Final = (*_UUIDS, ("object_id_high", "u8"), ("object_id_low", "u8"))
FIXED: Final[dict[tuple[str, int], _RecordNames]] = {
    ("POSIX", 4): _record("POSIX", _POSIX_V4, _TIMES),
    ("POSIX", 3): _record("POSIX", _POSIX_V2, _TIMES),
    ("POSIX", 2): _record("POSIX", _POSIX_V2, _TIMES, without=_LATER_TIMES),
    ("POSIX", 1): _record("POSIX", _POSIX_V1, _TIMES, without=_LATER_TIMES),
    ("MPI-IO", 3): _record("MPIIO", _MPIIO, _TIMES),
    ("MPI-IO", 2): _record("MPIIO", _MPIIO, _TIMES, without=_LATER_TIMES),
    ("MPI-IO", 1): _record("MPIIO", _MPIIO, _TIMES, without=_LATER_TIMES),
    ("STDIO", 2): _record("STDIO", _STDIO, _STDIO_TIMES),
    ("STDIO", 1): _record("STDIO", _STDIO, _STDIO_TIMES, without=["FDOPENS"]),
    ("H5F", 3): _record("H5F", "OPENS FLUSHES USE_MPIIO", f"{_OPEN_CLOSE} META_TIME"),
    ("H5F", 2): _record("H5F", "OPENS", _OPEN_CLOSE),
    ("H5F", 1): _record("H5F", "OPENS", _OPEN_CLOSE_V1),
    ("H5D", 2): _record("H5D", _H5D, _TIMES, links=True),
    ("H5D", 1): _record("H5D", _H5D, _TIMES),
    ("PNETCDF_FILE", 3): _record("PNETCDF_FILE", _PNETCDF_FILE, _PNETCDF_FILE_TIMES),
    ("PNETCDF_FILE", 2): _record("PNETCDF_FILE", "INDEP_OPENS COLL_OPENS", _OPEN_CLOSE),
    ("PNETCDF_FILE", 1): _record("PNETCDF_FILE", "INDEP_OPENS COLL_OPENS", _OPEN_CLOSE_V1),
    ("PNETCDF_VAR", 1): _record("PNETCDF_VAR", _PNETCDF_VAR, _TIMES, links=True),
    ("BG/Q", 2): _record("BGQ", _BGQ, "TIMESTAMP"),
    # v1 has a word between rank and counters that Darshan's own reader skips.
    ("BG/Q", 1): _record("BGQ", _BGQ, "TIMESTAMP", gap_bytes=8),
    ("DFS", 1): _record("DFS", _DFS, _TIMES_WITHOUT_VARIANCE, tail=_UUIDS),
    ("DAOS", 1): _record("DAOS", _DAOS, _TIMES_WITHOUT_VARIANCE, tail=_DAOS_TAIL),
}


def printed_version(module: str, said: int, printed: Collection[str]) -> int:
    """The version whose counters a text has: newer tools print records of old versions with the names of new ones."""
    newest_first = sorted((version for name, version in FIXED if name == module), reverse=True)
    for version in (said, *newest_first):
        names = FIXED[module, version]
        if all(counter in printed for counter in (*names.counters, *names.fcounters)):
            return version
    return said


LUSTRE_V1: Final = _prefixed("LUSTRE", "OSTS MDTS STRIPE_OFFSET STRIPE_SIZE STRIPE_WIDTH")
LUSTRE_COMPONENT: Final = _prefixed(
    "LUSTRE_COMP", "STRIPE_SIZE STRIPE_COUNT STRIPE_PATTERN FLAGS EXT_START EXT_END MIRROR_ID"
)

_COMBINERS: Final = (
    "NAMED DUP CONTIGUOUS VECTOR HVECTOR_INTEGER HVECTOR INDEXED HINDEXED_INTEGER HINDEXED INDEXED_BLOCK "
    "STRUCT_INTEGER STRUCT SUBARRAY DARRAY F90_REAL F90_COMPLEX F90_INTEGER RESIZED"
)
CP: Final = _prefixed(
    "CP",
    "INDEP_OPENS COLL_OPENS INDEP_READS INDEP_WRITES COLL_READS COLL_WRITES SPLIT_READS SPLIT_WRITES NB_READS "
    "NB_WRITES SYNCS POSIX_READS POSIX_WRITES POSIX_OPENS POSIX_SEEKS POSIX_STATS POSIX_MMAPS POSIX_FREADS "
    "POSIX_FWRITES POSIX_FOPENS POSIX_FSEEKS POSIX_FSYNCS POSIX_FDSYNCS INDEP_NC_OPENS COLL_NC_OPENS HDF5_OPENS "
    + " ".join(f"COMBINER_{kind}" for kind in _COMBINERS.split())
    + " HINTS VIEWS MODE BYTES_READ BYTES_WRITTEN MAX_BYTE_READ MAX_BYTE_WRITTEN CONSEC_READS CONSEC_WRITES SEQ_READS "
    "SEQ_WRITES RW_SWITCHES MEM_NOT_ALIGNED MEM_ALIGNMENT FILE_NOT_ALIGNED FILE_ALIGNMENT "
    f"{_MAX_TIME_SIZES} {_SIZE_BOTH} {_SIZE_AGG_BOTH} {_sized('EXTENT_READ')} {_sized('EXTENT_WRITE')} "
    f"{_STRIDE} {_ACCESS} DEVICE SIZE_AT_OPEN {_RANKS}",
)
CP_F: Final = _prefixed(
    "CP_F",
    "OPEN_TIMESTAMP READ_START_TIMESTAMP WRITE_START_TIMESTAMP CLOSE_TIMESTAMP READ_END_TIMESTAMP WRITE_END_TIMESTAMP "
    "POSIX_READ_TIME POSIX_WRITE_TIME POSIX_META_TIME MPI_META_TIME MPI_READ_TIME MPI_WRITE_TIME "
    "MAX_READ_TIME MAX_WRITE_TIME FASTEST_RANK_TIME SLOWEST_RANK_TIME VARIANCE_RANK_TIME VARIANCE_RANK_BYTES",
)

# What records of 1.x lack. Their fields are otherwise in the order of 2.x.
_RANK_COUNTERS: Final = frozenset(
    _prefixed("CP", _RANKS)
    + _prefixed("CP_F", "FASTEST_RANK_TIME SLOWEST_RANK_TIME VARIANCE_RANK_TIME VARIANCE_RANK_BYTES")
)
_PLACE_COUNTERS: Final = frozenset(_prefixed("CP", "DEVICE SIZE_AT_OPEN"))
_FIRST_LACKS: Final = frozenset(
    _prefixed("CP", f"INDEP_NC_OPENS COLL_NC_OPENS HDF5_OPENS {_MAX_TIME_SIZES}")
    + _prefixed("CP_F", "MAX_READ_TIME MAX_WRITE_TIME")
)
CP_LATER: Final = {
    "1.21": _RANK_COUNTERS | _PLACE_COUNTERS | _FIRST_LACKS,
    "1.22": _RANK_COUNTERS | _PLACE_COUNTERS,
    "1.23": _RANK_COUNTERS,
    "1.24": _RANK_COUNTERS,
}


ByteOrder: TypeAlias = Literal["little", "big"]
Compression: TypeAlias = Literal["zlib", "bzip2", "none"]

MAGIC: Final = 6567223
NATIVE: Final[ByteOrder] = "little" if sys.byteorder == "little" else "big"
ORDER_CHARACTER: Final[dict[ByteOrder, str]] = {"little": "<", "big": ">"}
COMPRESSIONS: Final[tuple[Compression, ...]] = ("zlib", "bzip2", "none")
METADATA_BYTES: Final = 1024

# Module numbers of log version 3.41; older versions lack some, and everything behind them moves down.
_MODULES_341: Final = names_of("""
    NULL POSIX MPI-IO H5F H5D PNETCDF_FILE PNETCDF_VAR BG/Q LUSTRE STDIO DXT_POSIX DXT_MPIIO MDHIM APXC APMPI HEATMAP
    DFS DAOS
""")


def _without(*missing: str) -> tuple[str, ...]:
    return tuple(name for name in _MODULES_341 if name not in missing)


@dataclass(frozen=True, eq=False)  # one per version: compared by identity, which also makes caching cheap
class HeaderLayout:
    """One log version's uncompressed header: field offsets, module names by number, and the job record."""

    version: str
    bytes: int
    module_count: int
    partial_format: str
    partial_offset: int
    map_offset: int
    versions_offset: int
    modules: tuple[str, ...]
    job_words: int
    name_lengths: bool

    def module_name(self, number: int) -> str:
        return self.modules[number] if number < len(self.modules) else f"module {number}"


def _short(version: str, modules: tuple[str, ...], *, name_lengths: bool = False) -> HeaderLayout:
    return HeaderLayout(version, 360, 16, "I", 20, 24, 296, modules, 5, name_lengths)


LAYOUTS: Final[dict[bytes, HeaderLayout]] = {
    b"3.00": _short("3.00", _without("H5D", "PNETCDF_VAR"), name_lengths=True),
    b"3.10": _short("3.10", _without("H5D", "PNETCDF_VAR")),
    b"3.20": _short("3.20", _without("PNETCDF_VAR")),
    b"3.21": _short("3.21", _without("PNETCDF_VAR")),
    b"3.41": HeaderLayout("3.41", 1328, 64, "Q", 24, 32, 1072, _MODULES_341, 7, False),
}


# Modules whose absence would turn the log's story into another one: their unknown versions are refused, not skipped.
_ESSENTIAL: Final = frozenset({"POSIX", "MPI-IO", "STDIO"})


@functools.cache
def fixed_dtype(module: str, version: int, order: ByteOrder) -> np.dtype[Any] | None:
    """Record dtype of a module of fixed-size records; None where the module or the version is not known."""
    names = FIXED.get((module, version))
    if names is None:
        if module in _ESSENTIAL:
            known = ", ".join(str(v) for m, v in sorted(FIXED) if m == module)
            raise UnsupportedVersion(
                f"The {module} module is of version {version}; versions {known} are read.",
                hint="The log was written by a newer Darshan: a newer ioweather may read it.",
            )
        return None
    mark = ORDER_CHARACTER[order]
    fields = [("id", f"{mark}u8"), ("rank", f"{mark}i8"), *([("file_id", f"{mark}u8")] if names.links else ())]
    if names.gap_bytes:
        fields.append(("", f"V{names.gap_bytes}"))
    fields += [(name, f"{mark}i8") for name in names.counters] + [(name, f"{mark}f8") for name in names.fcounters]
    fields += [(name, kind if kind.startswith("V") else mark + kind) for name, kind in names.tail]
    return np.dtype(fields)


RECORD_BYTES: Final = {key: np.dtype(fixed_dtype(*key, NATIVE)).itemsize for key in FIXED}


@functools.cache
def cp_dtype(version: str, order: ByteOrder) -> np.dtype[Any]:
    """Darshan 1.x and 2.x: one record per file, all interfaces together. 1.x has a shorter rank, fewer counters, and
    the end of the name behind them."""
    mark = ORDER_CHARACTER[order]
    without = CP_LATER.get(version, frozenset())
    counters = [(name, f"{mark}i8") for name in CP if name not in without]
    counters += [(name, f"{mark}f8") for name in CP_F if name not in without]
    if without:
        return np.dtype([("id", f"{mark}u8"), ("rank", f"{mark}i4"), ("", "V4"), *counters, ("name_suffix", "S16")])
    return np.dtype([("id", f"{mark}u8"), ("rank", f"{mark}i8"), ("name_suffix", "S16"), *counters])


def _head(*names: str) -> list[tuple[str, str]]:
    return [("id", "u8"), ("rank", "i8"), *((name, "i8") for name in names)]


# Records of variable length, in native order: the part before the lists.
LUSTRE_V1_DTYPE: Final = np.dtype(_head(*LUSTRE_V1))
LUSTRE_V2_DTYPE: Final = np.dtype(_head("components", "stripes"))
LUSTRE_COMPONENT_DTYPE: Final = np.dtype([*((name, "i8") for name in LUSTRE_COMPONENT), ("pool", "S16")])
HEATMAP_DTYPE: Final = np.dtype([*_head(), ("bin_width_seconds", "f8"), ("bins", "i8")])
DXT_DTYPE: Final = np.dtype([*_head("shared"), ("hostname", "S64"), ("writes", "i8"), ("reads", "i8")])
_SEGMENT: Final = (("offset", "i8"), ("length", "i8"), ("start_seconds", "f8"), ("end_seconds", "f8"))
_THREADED_SEGMENT: Final = (*_SEGMENT, ("thread", "u8"))
SEGMENT_FIELDS: Final[dict[tuple[str, int], tuple[tuple[str, str], ...]]] = {
    ("DXT_POSIX", 1): _SEGMENT,
    ("DXT_POSIX", 2): _THREADED_SEGMENT,
    ("DXT_MPIIO", 1): (("", "i8"), *_SEGMENT[1:]),  # its offsets were never filled in
    ("DXT_MPIIO", 2): _SEGMENT,
    ("DXT_MPIIO", 3): _THREADED_SEGMENT,
}
VARIABLE: Final = frozenset({("LUSTRE", 1), ("LUSTRE", 2), ("HEATMAP", 1), *SEGMENT_FIELDS})
