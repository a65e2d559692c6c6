"""Darshan 2.x logs: one gzip file of a job region and records of one size."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ioweather.core.errors import UnknownFormat, UnsupportedVersion
from ioweather.core.units import NS
from ioweather.sources.darshan.equivalents import DERIVED_VERSION, derived_modules
from ioweather.sources.darshan.errors import cut_short, damaged
from ioweather.sources.darshan.job import check_job, longest_first, parse_metadata
from ioweather.sources.darshan.layout import NATIVE, ByteOrder, Compression, cp_dtype, job_struct
from ioweather.sources.darshan.model import DarshanJob, DarshanLog, Module
from ioweather.sources.darshan.names import text
from ioweather.sources.darshan.reader3 import MAGIC_BYTES, check_ranks, digest_of
from ioweather.sources.darshan.regions import Budget, expand

GZIP_MAGIC: Final = b"\x1f\x8b"
BZIP2_MAGIC: Final = b"BZh"
_HEAD_BYTES: Final = 56
_MOUNT: Final = re.compile(r"^(-?\d+)\t(\S+)\t(\S+)$", re.MULTILINE)


class _JobLayout(NamedTuple):
    region_bytes: int
    metadata_bytes: int


_JOB_LAYOUTS: Final = {
    "2.00": _JobLayout(1024, 0),
    "2.01": _JobLayout(1024, 64),
    "2.02": _JobLayout(1024, 64),
    "2.03": _JobLayout(1024, 64),
    "2.04": _JobLayout(4096, 1024),
    "2.05": _JobLayout(4096, 1024),
    "2.06": _JobLayout(4096, 1024),
}


def read_version_2(data: bytes, wanted: Collection[str] | None) -> DarshanLog:
    compression: Compression = "zlib" if data.startswith(GZIP_MAGIC) else "bzip2"
    raw = bytes(expand(memoryview(data), "gzip" if compression == "zlib" else "bzip2", Budget(len(data)), "file"))
    version, layout, order = _identify(raw)
    job, devices = _parse_job(raw[: layout.region_bytes], layout, order)
    records = _parse_records(raw[layout.region_bytes :], order)
    check_ranks(Module("CP", DERIVED_VERSION, False, records), job.nprocs)
    modules = {"CP": Module("CP", DERIVED_VERSION, False, records)} if len(records) else {}
    modules |= derived_modules(records, version, job)
    if wanted is not None:
        modules = {name: module for name, module in modules.items() if name in wanted}
    return DarshanLog(version, order, compression, job, modules, _names(records, devices), (), (), digest_of(data))


def _identify(raw: bytes) -> tuple[str, _JobLayout, ByteOrder]:
    order = MAGIC_BYTES.get(raw[8:16])
    version = raw[:8].rstrip(b"\0").decode("ascii", "backslashreplace")
    if order is None:
        raise UnknownFormat(
            "This compressed file is not a Darshan log.", hint="Only logs of Darshan 2 are compressed as a whole."
        )
    layout = _JOB_LAYOUTS.get(version)
    if layout is None:
        raise UnsupportedVersion(
            f"The log has version {version}; of the compressed ones {', '.join(_JOB_LAYOUTS)} are read.",
            hint="A log of version 3 must be unpacked first; one of version 1 can be converted by darshan-convert 2.3.",
        )
    if len(raw) < layout.region_bytes:
        raise cut_short(f"The log has {len(raw)} bytes; its job region alone has {layout.region_bytes}.")
    return version, layout, order


def _parse_job(region: bytes, layout: _JobLayout, order: ByteOrder) -> tuple[DarshanJob, dict[int, str]]:
    uid, start, end, nprocs, job_id = job_struct(5, order).unpack_from(region, 16)
    check_job(start, end, nprocs)
    text_start = _HEAD_BYTES + layout.metadata_bytes
    exe, _, mount_lines = text(region[text_start:].partition(b"\0")[0]).partition("\n")
    mounts = _MOUNT.findall(mount_lines)
    job = DarshanJob(
        uid=uid,
        job_id=job_id,
        nprocs=nprocs,
        start_ns=start * NS,
        end_ns=end * NS,
        run_seconds=float(end - start + 1),
        metadata=parse_metadata(region[_HEAD_BYTES:text_start]),
        exe=exe,
        mounts=longest_first([(path, kind) for _, kind, path in mounts]),
    )
    return job, {int(device): path for device, _, path in mounts}


def _parse_records(region: bytes, order: ByteOrder) -> NDArray[Any]:
    dtype = cp_dtype(order)
    if len(region) % dtype.itemsize:
        raise damaged(f"The records have {len(region)} bytes, which is no multiple of their size of {dtype.itemsize}.")
    records = np.frombuffer(region, dtype)
    if order != NATIVE:
        records = records.byteswap().view(dtype.newbyteorder(NATIVE))
        records.flags.writeable = False
    return records


def _names(records: NDArray[Any], devices: dict[int, str]) -> dict[int, str]:
    """Darshan 2 keeps only the last 15 characters of a path, and the device it lies on: `/mount/…end/of/path`."""
    names: dict[int, str] = {}
    for record_id, suffix, device in zip(
        records["id"].tolist(), records["name_suffix"].tolist(), records["CP_DEVICE"].tolist(), strict=True
    ):
        mount = devices.get(device, "")
        names.setdefault(record_id, f"{mount.rstrip('/')}/…{text(suffix)}" if mount else f"…{text(suffix)}")
    return names
