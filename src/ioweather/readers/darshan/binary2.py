"""Darshan 1.x and 2.x logs: one gzip file of a job region and records of one size, given in the terms of 3.x, so that
nothing behind the reader needs to know which one wrote a log.

Darshan 2 has one record per file for all interfaces. What has an equal in a 3.x module gets its name; what has none
is left out, and `column` says so. Three things to know:
- bytes, sizes and alignment are those of the POSIX layer, stdio included, as in the POSIX module of 3.0;
- the file's bytes are also in MPI-IO, as Darshan 2's own tools count them for files opened by MPI-IO;
- timestamps are of whichever layer came first or last.
1.x has no magic number and no job id. Its records lack the ranks that were fastest and slowest, and more.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ioweather.core.errors import SourceError, UnsupportedVersion
from ioweather.core.units import NS
from ioweather.readers.darshan.binary import (
    MAGIC_BYTES,
    Budget,
    check_job,
    check_ranks,
    cut_short,
    damaged,
    decode_text,
    digest_of,
    expand,
    parse_metadata,
    sort_mounts,
)
from ioweather.readers.darshan.format import (
    CP,
    CP_F,
    CP_LATER,
    FIXED,
    NATIVE,
    ORDER_CHARACTER,
    ByteOrder,
    Compression,
    cp_dtype,
)
from ioweather.readers.darshan.log import DarshanJob, DarshanLog, Module

# Version number of modules that are made from 2.x records.
DERIVED_VERSION: Final = 0
# From 2.05 the fastest and slowest rank are judged by MPI-IO time where there is any; before by POSIX time alone.
FIRST_WITH_MPI_RANK_TIMES: Final = "2.05"
# Up to 2.02 timestamps are MPI_Wtime as it comes: seconds since 1970 on some systems, since the start on others.
LAST_WITH_RAW_CLOCK: Final = "2.02"

# The job record of 1.x has no id; Darshan put it into the name of the file alone.
NO_JOB_ID: Final = 0

# No machine that ran Darshan 2 had been up for three years.
_EPOCH_LIKE_SECONDS: Final = 100_000_000

_RENAMED: Final = {"F_OPEN_START_TIMESTAMP": "F_OPEN_TIMESTAMP", "F_CLOSE_END_TIMESTAMP": "F_CLOSE_TIMESTAMP"}
_MPI_ONLY_POSIX: Final = (
    "MODE",
    "RW_SWITCHES",
    "MAX_READ_TIME_SIZE",
    "MAX_WRITE_TIME_SIZE",
    "ACCESS",
    "F_MAX_",
    "F_VARIANCE",
)
_MPI_RANKS: Final = ("FASTEST_RANK", "SLOWEST_RANK", "F_FASTEST_RANK", "F_SLOWEST_RANK")
_STDIO: Final = {f"STDIO_{name}": f"CP_POSIX_F{name}" for name in ("OPENS", "READS", "WRITES", "SEEKS")}
_MPI_OPERATIONS: Final = tuple(
    f"CP_{layer}_{what}" for layer in ("INDEP", "COLL") for what in ("OPENS", "READS", "WRITES")
)


def derived_modules(records: NDArray[Any], version: str, job: DarshanJob) -> dict[str, Module]:
    """POSIX of every record, MPI-IO and STDIO of those that used them."""
    raw_clock = version <= LAST_WITH_RAW_CLOCK
    relative = _normalized(records, job.start_ns // NS, job.run_seconds) if raw_clock else records
    used_mpi, used_stdio = (
        np.any([records[name] > 0 for name in names], axis=0) for names in (_MPI_OPERATIONS, _STDIO.values())
    )
    tables = {
        "POSIX": _renamed(relative, _old_names("POSIX", "POSIX_", version)),
        "MPI-IO": _renamed(relative[used_mpi], _old_names("MPI-IO", "MPIIO_", version)),
        "STDIO": _renamed(relative[used_stdio], _STDIO),
    }
    return {name: Module(name, DERIVED_VERSION, False, table) for name, table in tables.items() if len(table)}


def _old_names(module: str, prefix: str, version: str) -> dict[str, str]:
    """Counters of a module of 3.x to those of Darshan 2 that count the same."""
    known = {*CP, *CP_F}
    layer = "POSIX" if module == "POSIX" else "MPI"
    no_ranks = _MPI_RANKS if version < FIRST_WITH_MPI_RANK_TIMES else ()
    pairs = {}
    for name in (*FIXED[module, 1].counters, *FIXED[module, 1].fcounters):
        stem = name.removeprefix(prefix)
        if module == "MPI-IO" and stem.startswith((*_MPI_ONLY_POSIX, *no_ranks)):
            continue
        old = _RENAMED.get(stem, stem)
        own = f"CP_F_{layer}_{old.removeprefix('F_')}" if old.startswith("F_") else f"CP_{layer}_{old}"
        pairs[name] = own if own in known else f"CP_{old}"
    return pairs


def _renamed(records: NDArray[Any], names: Mapping[str, str]) -> NDArray[Any]:
    names = {new: old for new, old in names.items() if old in (records.dtype.names or ())}
    fields = [("id", "u8"), ("rank", "i8"), *((new, records.dtype[old]) for new, old in names.items())]
    table = np.empty(len(records), dtype=fields)
    for new, old in (("id", "id"), ("rank", "rank"), *names.items()):
        table[new] = records[old]
    table.flags.writeable = False
    return table


def _normalized(records: NDArray[Any], start_seconds: int, run_seconds: float) -> NDArray[Any]:
    """Timestamps since the start of the job, as in 3.x.

    Seconds since 1970 lose the start. Any other clock began at an unknown moment, often the boot of the partition:
    where it runs beyond the end of the job, it is set back to end with it. Distances stay what they were.
    """
    names = [name for name in CP_F if name.endswith("_TIMESTAMP")]
    latest = max((float(records[name].max()) for name in names), default=0.0) if len(records) else 0.0
    since_1970 = latest > _EPOCH_LIKE_SECONDS
    shift = float(start_seconds) if since_1970 else max(0.0, latest - run_seconds)
    relative = records.copy()
    for name in names:
        stamps = relative[name]
        relative[name] = np.where(stamps > 0, stamps - shift, stamps)  # 0: never happened
    return relative


GZIP_MAGIC: Final = b"\x1f\x8b"
BZIP2_MAGIC: Final = b"BZh"
_HEAD_BYTES: Final = 56
_MOUNT: Final = re.compile(r"^(-?\d+)\t(\S+)\t(\S+)$", re.MULTILINE)


class _JobLayout(NamedTuple):
    region_bytes: int
    metadata_bytes: int


_FIRST: Final = _JobLayout(1024, 0)  # uid, then start, end and processes of four bytes, then the command
_FIRST_HEAD: Final = {"big": struct.Struct(">qiii"), "little": struct.Struct("<qiii")}
FIRST_VERSION: Final = re.compile(rb"1\.[0-9]{1,2}\0{4,5}")
# The device of ranks above 0 is unreliable there (Darshan's own notes).
_UNRELIABLE_DEVICES: Final = "1.23"
_MOST_PROCESSES: Final = 1 << 24
_JOB_LAYOUTS: Final = {
    **dict.fromkeys(CP_LATER, _FIRST),
    "2.00": _JobLayout(1024, 0),
    "2.01": _JobLayout(1024, 64),
    "2.02": _JobLayout(1024, 64),
    "2.03": _JobLayout(1024, 64),
    "2.04": _JobLayout(4096, 1024),
    "2.05": _JobLayout(4096, 1024),
    "2.06": _JobLayout(4096, 1024),
}


def read_version_2(data: bytes, wanted: Collection[str] | None) -> DarshanLog:
    """The log of version 1.x or 2.x, with the `wanted` modules (None: all)."""
    compression: Compression = "zlib" if data.startswith(GZIP_MAGIC) else "bzip2"
    raw = bytes(expand(memoryview(data), "gzip" if compression == "zlib" else "bzip2", Budget(len(data)), "file"))
    version, layout, order = _identify(raw)
    job, devices = _parse_job(raw[: layout.region_bytes], version, layout, order)
    records = _parse_records(raw[layout.region_bytes :], version, order)
    check_ranks(Module("CP", DERIVED_VERSION, False, records), job.nprocs)
    modules = {"CP": Module("CP", DERIVED_VERSION, False, records)} if len(records) else {}
    modules |= derived_modules(records, version, job)
    if wanted is not None:
        modules = {name: module for name, module in modules.items() if name in wanted}
    return DarshanLog(
        version, order, compression, job, modules, _names(records, version, devices), (), (), digest_of(data)
    )


def _identify(raw: bytes) -> tuple[str, _JobLayout, ByteOrder]:
    order = _first_order(raw) if FIRST_VERSION.fullmatch(raw[:8]) else MAGIC_BYTES.get(raw[8:16])
    version = raw[:8].rstrip(b"\0").decode("ascii", "backslashreplace")
    if order is None:
        raise SourceError(
            "This compressed file is not a Darshan log.",
            hint="Only logs of Darshan 1 and 2 are compressed as a whole.",
            kind="UnknownFormat",
        )
    layout = _JOB_LAYOUTS.get(version)
    if layout is None:
        raise UnsupportedVersion(
            f"The log has version {version}; of the compressed ones {', '.join(_JOB_LAYOUTS)} are read.",
            hint="A log of version 3 must be unpacked first; those before 1.21 were never published.",
        )
    if len(raw) < layout.region_bytes:
        raise cut_short(f"The log has {len(raw)} bytes; its job region alone has {layout.region_bytes}.")
    return version, layout, order


def _first_order(raw: bytes) -> ByteOrder:
    """1.x has no magic number: the order in which the number of processes is one."""
    if len(raw) < 28:
        raise cut_short(f"The log has {len(raw)} bytes, less than its job record.")
    fits: list[ByteOrder] = []
    for order, head in _FIRST_HEAD.items():
        uid, start, end, nprocs = head.unpack_from(raw, 8)
        if 0 < nprocs < _MOST_PROCESSES and 0 <= start <= end and -(1 << 31) <= uid < 1 << 32:
            fits.append(order)  # type: ignore[arg-type]
    return fits[0] if len(fits) == 1 else "big"  # the machines that it was made for


def _parse_job(region: bytes, version: str, layout: _JobLayout, order: ByteOrder) -> tuple[DarshanJob, dict[int, str]]:
    if version in CP_LATER:
        uid, start, end, nprocs = _FIRST_HEAD[order].unpack_from(region, 8)
        job_id, head_bytes = NO_JOB_ID, 8 + _FIRST_HEAD[order].size
    else:
        uid, start, end, nprocs, job_id = struct.unpack_from(f"{ORDER_CHARACTER[order]}5q", region, 16)
        head_bytes = _HEAD_BYTES
    check_job(start, end, nprocs)
    text_start = head_bytes + layout.metadata_bytes
    exe, _, mount_lines = decode_text(region[text_start:].partition(b"\0")[0]).partition("\n")
    mounts = _MOUNT.findall(mount_lines)
    job = DarshanJob(
        uid=uid,
        job_id=job_id,
        nprocs=nprocs,
        start_ns=start * NS,
        end_ns=end * NS,
        run_seconds=float(end - start + 1),
        metadata=parse_metadata(region[head_bytes:text_start]),
        exe=exe,
        mounts=sort_mounts([(path, kind) for _, kind, path in mounts]),
    )
    return job, {int(device): path for device, _, path in mounts}


def _parse_records(region: bytes, version: str, order: ByteOrder) -> NDArray[Any]:
    dtype = cp_dtype(version, order)
    if len(region) % dtype.itemsize:
        raise damaged(f"The records have {len(region)} bytes, which is no multiple of their size of {dtype.itemsize}.")
    records = np.frombuffer(region, dtype)
    if order != NATIVE:
        records = records.byteswap().view(dtype.newbyteorder(NATIVE))
        records.flags.writeable = False
    return records


def _names(records: NDArray[Any], version: str, devices: dict[int, str]) -> dict[int, str]:
    """Names by record id, as `/mount/…end/of/path`: a log has the last 15 characters of a path (1.x: 11)."""
    names: dict[int, str] = {}
    known = records["CP_DEVICE"] if "CP_DEVICE" in (records.dtype.names or ()) else np.full(len(records), -1)
    if version == _UNRELIABLE_DEVICES:
        known = np.where(records["rank"] > 0, -1, known)
    for record_id, suffix, device in zip(
        records["id"].tolist(), records["name_suffix"].tolist(), known.tolist(), strict=True
    ):
        mount = devices.get(device, "")
        names.setdefault(
            record_id, f"{mount.rstrip('/')}/…{decode_text(suffix)}" if mount else f"…{decode_text(suffix)}"
        )
    return names
