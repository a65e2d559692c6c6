"""A dump of an LMT database (SQLite): cumulative counters at local arrival times, with late packets, lost rows and a
restart of a server that sets its counters to zero."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.simulate.flows import OPERATIONS
from ioweather.simulate.observed import Observed
from ioweather.simulate.resources import Calendar, Resources, stream

_LATE_RATIO = 0.001
_LATE_STEPS = (2, 9)
_STEP = 5
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
    put("INSERT INTO OST_INFO VALUES (?, ?, ?, ?, ?, ?)",
        [(i + 1, int(resources.server_of[i]) + 1, name, resources.oss_name(int(resources.server_of[i])), 0, f"sd{i}")
         for i, name in enumerate(resources.ost_names)])  # fmt: skip
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
    oss = [(column + 1, place + 2, round(value, 3), 40.0)
           for column in range(observed.oss_cpu_percent.shape[1])
           for place, value in enumerate(observed.oss_cpu_percent[:steps, column].tolist())]  # fmt: skip
    connection.executemany("INSERT INTO OSS_DATA VALUES (?, ?, ?, ?)", oss)
    mds = [(1, place + 2, round(value, 3), _FREE_KIB, _USED_KIB, 10**9, 10**8)
           for place, value in enumerate(observed.mds_cpu_percent[:steps, 0].tolist())]  # fmt: skip
    connection.executemany("INSERT INTO MDS_DATA VALUES (?, ?, ?, ?, ?, ?, ?)", mds)
    counts = np.zeros((steps + 1, observed.operations.shape[1]), np.int64)
    counts[1:] = np.cumsum(observed.operations[:steps].astype(np.int64), axis=0)
    rows = [(1, column + 1, place + 1, value, 0, 0)
            for column in range(counts.shape[1])
            for place, value in enumerate(counts[:, column].tolist())]  # fmt: skip
    connection.executemany("INSERT INTO MDS_OPS_DATA VALUES (?, ?, ?, ?, ?, ?)", rows)
