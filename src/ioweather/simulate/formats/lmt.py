"""What servers count, as LMT, its database and pyTOKIO keep it, with the faults that such archives have."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.simulate.flows import OPERATIONS
from ioweather.simulate.formats.texts import IostatWriter
from ioweather.simulate.observed import Observed, coarser
from ioweather.simulate.presets import Preset
from ioweather.simulate.resources import Calendar, Resources, stream

_STEP = 5
_HOUR_STEPS = 720


def write_h5lmt(path: Path, observed: Observed, resources: Resources, calendar: Calendar) -> None:
    """pyLMT's daily HDF5: arrays (component, time), rates, stamps at the end of the step, and its own losses. The first
    step of every hour is lost (zero for all targets); step 0 repeats the day before; a sample that a server did not
    send is zero and marked."""
    steps = observed.readings.steps
    stamps = calendar.start + round(observed.readings.start) + _STEP * np.arange(steps + 1)
    # pyLMT has no place for a single target: a server sent everything or nothing.
    silent = np.zeros((steps, resources.servers), bool)
    np.logical_or.at(silent.T, resources.server_of, observed.missing.T)
    gone = silent[:, resources.server_of]
    with h5py.File(path, "w", libver="earliest") as file:
        file.create_dataset("FSStepsGroup/FSStepsDataSet", data=stamps.astype("i4"))
        file["FSStepsGroup/FSStepsDataSet"].attrs["fs"] = np.bytes_(resources.fsname)
        for name, values in (
            ("OSTReadGroup/OSTBulkReadDataSet", observed.read_bytes),
            ("OSTWriteGroup/OSTBulkWriteDataSet", observed.write_bytes),
        ):
            made = _put(file, name, np.where(gone, 0.0, values) / _STEP)
            made.attrs["OSTNames"] = np.array([n.encode() for n in resources.ost_names])
        made = _put(file, "MDSOpsGroup/MDSOpsDataSet", observed.operations / _STEP)
        made.attrs["OpNames"] = np.array([name.encode() for name in OPERATIONS])
        made = _put(file, "OSSCPUGroup/OSSCPUDataSet", np.where(silent, 0.0, observed.oss_cpu_percent), lost=False)
        made.attrs["OSSNames"] = np.array([n.encode() for n in resources.oss_names])
        cpu = np.concatenate([observed.mds_cpu_percent[:1, 0], observed.mds_cpu_percent[:, 0]])
        file.create_dataset("MDSCPUGroup/MDSCPUDataSet", data=cpu)
        _put(file, "FSMissingGroup/FSMissingDataSet", silent.astype("i4"), lost=False)


def _put(file: h5py.File, name: str, values: Floats, *, lost: bool = True) -> h5py.Dataset:
    """(time, component) to (component, time), with a step before the first and without the first of each hour."""
    turned = np.concatenate([values[:1], values]).T.copy()
    if lost:
        turned[:, _HOUR_STEPS::_HOUR_STEPS] = 0
    return file.create_dataset(name, data=turned, compression="gzip", compression_opts=1, shuffle=True)


_LATE_RATIO = 0.001
_LATE_STEPS = (2, 9)
_TABLES = """
CREATE TABLE FILESYSTEM_INFO (FILESYSTEM_ID INTEGER PRIMARY KEY, FILESYSTEM_NAME VARCHAR(128), FILESYSTEM_MOUNT_NAME VARCHAR(64), SCHEMA_VERSION FLOAT);
CREATE TABLE OSS_INFO (OSS_ID INTEGER PRIMARY KEY, FILESYSTEM_ID INTEGER, HOSTNAME VARCHAR(128), FAILOVERHOST VARCHAR(128));
CREATE TABLE OST_INFO (OST_ID INTEGER PRIMARY KEY, OSS_ID INTEGER, OST_NAME VARCHAR(128), HOSTNAME VARCHAR(128), OFFLINE BOOLEAN, DEVICE_NAME VARCHAR(128));
CREATE TABLE MDS_INFO (MDS_ID INTEGER PRIMARY KEY, FILESYSTEM_ID INTEGER, MDS_NAME VARCHAR(128), HOSTNAME VARCHAR(128), DEVICE_NAME VARCHAR(128));
CREATE TABLE OPERATION_INFO (OPERATION_ID INTEGER PRIMARY KEY, OPERATION_NAME VARCHAR(64), UNITS VARCHAR(64));
CREATE TABLE TIMESTAMP_INFO (TS_ID INTEGER PRIMARY KEY, TIMESTAMP DATETIME);
CREATE TABLE OST_DATA (OST_ID INTEGER, TS_ID INTEGER, READ_BYTES BIGINT, WRITE_BYTES BIGINT, PCT_CPU FLOAT, KBYTES_FREE BIGINT, KBYTES_USED BIGINT, INODES_FREE BIGINT, INODES_USED BIGINT);
CREATE TABLE OSS_DATA (OSS_ID INTEGER, TS_ID INTEGER, PCT_CPU FLOAT, PCT_MEMORY FLOAT);
CREATE TABLE MDS_DATA (MDS_ID INTEGER, TS_ID INTEGER, PCT_CPU FLOAT, KBYTES_FREE BIGINT, KBYTES_USED BIGINT, INODES_FREE BIGINT, INODES_USED BIGINT);
CREATE TABLE MDS_OPS_DATA (MDS_ID INTEGER, OPERATION_ID INTEGER, TS_ID INTEGER, SAMPLES BIGINT, SUM BIGINT, SUMSQUARES BIGINT);
"""  # noqa: E501 - one table, one line, as a dump prints them
_FREE_KIB, _USED_KIB = 30_000_000_000, 20_000_000_000


def write_database(
    path: Path, observed: Observed, steps: int, resources: Resources, calendar: Calendar, seed: int
) -> None:
    """A dump of an LMT database (SQLite): cumulative counters at local arrival times, with late packets, lost rows and
    a restart of a server that sets its counters to zero."""
    rng = stream(seed, "lmt")
    start = observed.readings.start
    # The row at the very start only opens the first interval.
    stamps = [calendar.local(start + _STEP * place).strftime("%Y-%m-%d %H:%M:%S") for place in range(steps + 1)]
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    try:
        connection.executescript(_TABLES)
        _who_is_who(connection, resources)
        connection.executemany("INSERT INTO TIMESTAMP_INFO VALUES (?, ?)", list(enumerate(stamps, start=1)))
        lost = _lost(steps, resources, rng)
        restart = (int(rng.integers(steps // 4, steps // 2)), int(rng.integers(resources.servers)))
        read, write = (
            _counters(values[:steps], resources, restart) for values in (observed.read_bytes, observed.write_bytes)
        )
        for ost in range(resources.osts):
            rows = [
                (ost + 1, place + 1, r, w, 0.0, _FREE_KIB, _USED_KIB, 10**9, 10**8)
                for place, (r, w, gone) in enumerate(
                    zip(read[:, ost].tolist(), write[:, ost].tolist(), lost[:, ost].tolist(), strict=True)
                )
                if not gone
            ]
            connection.executemany("INSERT INTO OST_DATA VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        _states(connection, observed, steps)
        connection.commit()
    finally:
        connection.close()


def _who_is_who(connection: sqlite3.Connection, resources: Resources) -> None:
    put = connection.executemany
    put("INSERT INTO FILESYSTEM_INFO VALUES (?, ?, ?, ?)", [(1, resources.fsname, f"/{resources.fsname}", 1.1)])
    put(
        "INSERT INTO OSS_INFO VALUES (?, ?, ?, ?)",
        [(i + 1, 1, name, resources.oss_name(resources.partner(i))) for i, name in enumerate(resources.oss_names)],
    )
    servers = [int(server) for server in resources.server_of]
    osts = enumerate(zip(resources.ost_names, servers, strict=True), 1)
    rows = [(i, server + 1, name, resources.oss_name(server), 0, f"sd{i - 1}") for i, (name, server) in osts]
    put("INSERT INTO OST_INFO VALUES (?, ?, ?, ?, ?, ?)", rows)
    put("INSERT INTO MDS_INFO VALUES (?, ?, ?, ?, ?)", [(1, 1, f"{resources.fsname}-MDT0000", "mds001", "sda")])
    put("INSERT INTO OPERATION_INFO VALUES (?, ?, ?)", [(i + 1, name, "reqs") for i, name in enumerate(OPERATIONS)])


def _lost(steps: int, resources: Resources, rng: np.random.Generator) -> Bools:
    """(row, target): packets of a server that came too late for some steps; the next row carries their sum."""
    servers = np.zeros((steps + 1, resources.servers), np.bool_)
    for place, server in zip(*np.nonzero(rng.random((steps, resources.servers)) < _LATE_RATIO), strict=True):
        servers[place + 1 : place + 1 + int(rng.integers(*_LATE_STEPS)), server] = True
    servers[[0, -1]] = False
    return servers[:, resources.server_of]


def _counters(amounts: Floats, resources: Resources, restart: tuple[int, int]) -> Ints:
    """Running totals, one row more than amounts; a restart sets those of one server to zero."""
    total = np.zeros((len(amounts) + 1, amounts.shape[1]), np.int64)
    total[0] = 10**12
    total[1:] = 10**12 + np.cumsum(amounts.astype(np.int64), axis=0)
    place, server = restart
    mine = resources.server_of == server
    total[place:, mine] -= total[place, mine]
    return total


def _states(connection: sqlite3.Connection, observed: Observed, steps: int) -> None:
    oss = [
        (column + 1, place + 2, round(value, 3), 40.0)
        for column in range(observed.oss_cpu_percent.shape[1])
        for place, value in enumerate(observed.oss_cpu_percent[:steps, column].tolist())
    ]
    connection.executemany("INSERT INTO OSS_DATA VALUES (?, ?, ?, ?)", oss)
    mds = [
        (1, place + 2, round(value, 3), _FREE_KIB, _USED_KIB, 10**9, 10**8)
        for place, value in enumerate(observed.mds_cpu_percent[:steps, 0].tolist())
    ]
    connection.executemany("INSERT INTO MDS_DATA VALUES (?, ?, ?, ?, ?, ?, ?)", mds)
    counts = np.zeros((steps + 1, observed.operations.shape[1]), np.int64)
    counts[1:] = np.cumsum(observed.operations[:steps].astype(np.int64), axis=0)
    rows = [
        (1, column + 1, place + 1, value, 0, 0)
        for column in range(counts.shape[1])
        for place, value in enumerate(counts[:, column].tolist())
    ]
    connection.executemany("INSERT INTO MDS_OPS_DATA VALUES (?, ?, ?, ?, ?, ?)", rows)


_CHUNK_ROWS = 1440
_HOUR = 3600
_TARGET_BYTES = 50 * 10**12


# TOKIO time series (HDF5): arrays (time, column), stamps at the start of the step, -0.0 where nothing was recorded.
class TokioWriter:
    """One file a day; windows of a day are appended to it."""

    def __init__(self, folder: Path, resources: Resources, calendar: Calendar) -> None:
        self._folder, self._resources, self._calendar = folder, resources, calendar
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, observed: Observed, used_bytes: float) -> None:
        start = self._calendar.start + round(observed.readings.start)
        step = observed.readings.step_seconds
        date = self._calendar.local(observed.readings.day * 86400.0).strftime("%Y-%m-%d")
        names = self._resources.ost_names
        stamps = start + step * np.arange(observed.readings.steps)
        hourly = stamps[:: max(1, _HOUR // step)]
        with h5py.File(self._folder / f"{self._resources.fsname}_{date}.hdf5", "a", libver="earliest") as file:
            file.attrs["version"] = np.bytes_("1")
            targets = {"readbytes": observed.read_bytes, "writebytes": observed.write_bytes}
            targets |= {"readops": observed.read_requests, "writeops": observed.write_requests}
            self._group(file, "datatargets", stamps, {
                name: (np.where(observed.missing, -0.0, values), names, "bytes" if "bytes" in name else "operations")
                for name, values in targets.items()
            })  # fmt: skip
            mdt = (f"{self._resources.fsname}-MDT0000",)
            operations = enumerate(OPERATIONS)
            metadata = {f"{name}s": (observed.operations[:, [i]], mdt, "operations") for i, name in operations}
            self._group(file, "mdtargets", stamps, metadata)
            self._group(
                file, "dataservers", stamps, {"cpuload": (observed.oss_cpu_percent, self._resources.oss_names, "%")}
            )
            self._group(file, "mdservers", stamps, {"cpuload": (observed.mds_cpu_percent, ("mds001",), "%")})
            full = np.full((len(hourly), len(names)), float(round(used_bytes / len(names))))
            total = np.full_like(full, float(_TARGET_BYTES))
            self._group(
                file, "fullness", hourly, {"bytes": (full, names, "bytes"), "bytestotal": (total, names, "bytes")}
            )

    def _group(
        self, file: Any, name: str, stamps: Any, datasets: Mapping[str, tuple[Floats, tuple[str, ...], str]]
    ) -> None:
        group = file.require_group(name)
        group.attrs["source"] = np.bytes_("simulated")
        _append(group, "timestamps", stamps.astype("i8"))
        for dataset, (values, columns, unit) in datasets.items():
            made = _append(group, dataset, values)
            made.attrs["columns"] = np.array([column.encode() for column in columns])
            made.attrs["units"] = np.bytes_(unit)


def _append(group: Any, name: str, values: Any) -> Any:
    if name in group:
        dataset = group[name]
        before = len(dataset)
        dataset.resize(before + len(values), axis=0)
        dataset[before:] = values
        return dataset
    chunks = (min(_CHUNK_ROWS, max(1, len(values))), *values.shape[1:])
    packed = {"compression": "gzip", "compression_opts": 1, "shuffle": True}
    return group.create_dataset(name, data=values, maxshape=(None, *values.shape[1:]), chunks=chunks, **packed)


# An archive of 248 targets and 17,280 steps as SQL rows would be gigabytes; the database holds its first hours.
_DATABASE_ROWS = 1_500_000


def write_detail(
    folder: Path, observed: Observed, preset: Preset, resources: Resources, calendar: Calendar, seed: int
) -> None:
    """One day of 5 s samples as other tools keep it."""
    folder.mkdir(parents=True, exist_ok=True)
    date = calendar.local(observed.readings.start).strftime("%Y-%m-%d")
    write_h5lmt(folder / f"{resources.fsname}_{date}.h5lmt", observed, resources, calendar)
    steps = min(observed.readings.steps, _DATABASE_ROWS // resources.osts)
    write_database(folder / f"{resources.fsname}_{date}.sqlite3", observed, steps, resources, calendar, seed)
    writer = IostatWriter(folder, resources, calendar)
    writer.add(coarser(observed, 60))
    writer.close()
