"""Small archives with planted values, written here byte by byte: nothing of the readers is used."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

LOCAL_MIDNIGHT = 1_517_126_400  # 2018-01-28 00:00 in Los Angeles
OSTS = ("fs1-OST0000", "fs1-OST0001")
SERVERS = ("oss0", "oss1")


def write_tts(
    path: Path,
    amounts: dict[str, np.ndarray[Any, Any]],
    *,
    start: int = LOCAL_MIDNIGHT,
    step: int = 5,
    columns: Sequence[str] = OSTS,
    group: str = "datatargets",
    units: str = "bytes/sec",
    version: str = "1",
    source: str = "lmt",
) -> Path:
    with h5py.File(path, "a") as file:
        file.attrs["version"] = np.bytes_(version)  # of fixed length: HDF5 can crash on a damaged heap of strings
        where = file.create_group(group)
        where.attrs["source"] = np.bytes_(source)
        rows = len(next(iter(amounts.values())))
        where.create_dataset("timestamps", data=start + step * np.arange(rows), dtype="i8")
        for name, values in amounts.items():
            dataset = where.create_dataset(name, data=np.asarray(values, np.float64), compression="gzip")
            dataset.attrs["columns"] = np.array([c.encode() for c in columns])
            dataset.attrs["units"] = np.bytes_(units)
    return path


def write_h5lmt(
    path: Path,
    read: np.ndarray[Any, Any],
    write: np.ndarray[Any, Any],
    *,
    stamps: np.ndarray[Any, Any] | None = None,
    cpu: np.ndarray[Any, Any] | None = None,
    missing: np.ndarray[Any, Any] | None = None,
    operations: dict[str, np.ndarray[Any, Any]] | None = None,
    osts: Sequence[str] = OSTS,
    step: int = 5,
) -> Path:
    """`read` and `write` are amounts per step (target, time); the file holds rates."""
    width = read.shape[1]
    if stamps is None:
        stamps = LOCAL_MIDNIGHT + step * np.arange(width)
    with h5py.File(path, "w") as file:
        file["FSStepsGroup/FSStepsDataSet"] = stamps.astype("i4")
        for name, values in (("OSTReadGroup/OSTBulkReadDataSet", read), ("OSTWriteGroup/OSTBulkWriteDataSet", write)):
            file[name] = values / step
            file[name].attrs["OSTNames"] = np.array([c.encode() for c in osts])
        if cpu is not None:
            file["OSSCPUGroup/OSSCPUDataSet"] = cpu
            file["OSSCPUGroup/OSSCPUDataSet"].attrs["OSSNames"] = np.array([b"oss%d" % i for i in range(len(cpu))])
        if missing is not None:
            file["FSMissingGroup/FSMissingDataSet"] = missing.astype("i4")
        if operations is not None:
            file["MDSOpsGroup/MDSOpsDataSet"] = np.array(list(operations.values())) / step
            file["MDSOpsGroup/MDSOpsDataSet"].attrs["OpNames"] = np.array([name.encode() for name in operations])
    return path


def loop_hdf5(path: Path) -> Path:
    """Damage a file of `write_h5lmt` so that HDF5 (1.14, 2.0) never returns from reading the names of its targets.

    A global heap collection ends in an object of number 0, whose size is what is left; where that is 0, the library
    goes on to where it is (HDF5 File Format Specification, III.E: object index 2 bytes, count 2, reserved 4, size 8).
    """
    with h5py.File(path, "a") as file:
        for name in ("OSTReadGroup/OSTBulkReadDataSet", "OSTWriteGroup/OSTBulkWriteDataSet"):
            file[name].attrs["OSTNames"] = list(OSTS)  # of variable length: they lie in a global heap
    data = bytearray(path.read_bytes())
    place = data.index(b"GCOL") + 16
    while int.from_bytes(data[place : place + 2], "little"):
        size = int.from_bytes(data[place + 8 : place + 16], "little")
        place += 16 + -(-size // 8) * 8
    data[place + 8 : place + 16] = bytes(8)
    path.write_bytes(data)
    return path


# The layout of an LMT database, only as far as a reader needs it.
LAYOUT = {
    "FILESYSTEM_INFO": "FILESYSTEM_ID INT, FILESYSTEM_NAME VARCHAR(64)",
    "OSS_INFO": "OSS_ID INT, FILESYSTEM_ID INT, HOSTNAME VARCHAR(64)",
    "OST_INFO": "OST_ID INT, OSS_ID INT, OST_NAME VARCHAR(64), HOSTNAME VARCHAR(64)",
    "MDS_INFO": "MDS_ID INT, FILESYSTEM_ID INT, MDS_NAME VARCHAR(64), HOSTNAME VARCHAR(64)",
    "OPERATION_INFO": "OPERATION_ID INT, OPERATION_NAME VARCHAR(64)",
    "TIMESTAMP_INFO": "TS_ID BIGINT PRIMARY KEY, TIMESTAMP DATETIME",
    "OST_DATA": "OST_ID INT, TS_ID BIGINT, READ_BYTES BIGINT, WRITE_BYTES BIGINT, KBYTES_FREE BIGINT,"
    " KBYTES_USED BIGINT, INODES_FREE BIGINT, INODES_USED BIGINT",
    "OSS_DATA": "OSS_ID INT, TS_ID BIGINT, PCT_CPU FLOAT, PCT_MEMORY FLOAT",
    "MDS_DATA": "MDS_ID INT, TS_ID BIGINT, PCT_CPU FLOAT, KBYTES_FREE BIGINT, KBYTES_USED BIGINT,"
    " INODES_FREE BIGINT, INODES_USED BIGINT",
    "MDS_OPS_DATA": "MDS_ID INT, TS_ID BIGINT, OPERATION_ID INT, SAMPLES BIGINT",
    "OST_OPS_DATA": "OST_ID INT, TS_ID BIGINT, OPERATION_ID INT, SAMPLES BIGINT",
}
Table = dict[str, list[tuple[Any, ...]]]


def lmt_tables(stamps: Sequence[tuple[int, str]], counters: dict[int, dict[int, tuple[Any, Any]]]) -> Table:
    """`counters[ost][ts_id]` = (read, written) so far."""
    return {
        "FILESYSTEM_INFO": [(1, "fs1")],
        "OSS_INFO": [(1, 1, "oss0"), (2, 1, "oss1")],
        "OST_INFO": [(1, 1, OSTS[0], "oss0"), (2, 2, OSTS[1], "oss1")],
        "MDS_INFO": [(1, 1, "fs1-MDT0000", "mds0")],
        "OPERATION_INFO": [(1, "open"), (2, "close"), (3, "ping"), (4, "read_bytes"), (5, "notify")],
        "TIMESTAMP_INFO": list(stamps),
        "OST_DATA": [
            (ost, ts, read, written, 100, 300, 10, 30)
            for ost, samples in counters.items()
            for ts, (read, written) in samples.items()
        ],
    }


def write_sqlite(path: Path, tables: Table) -> Path:
    with sqlite3.connect(path) as connection:
        for name, rows in tables.items():
            connection.execute(f"CREATE TABLE {name} ({LAYOUT[name]})")
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    connection.close()
    return path


class Read:
    """Everything a source yielded, to be asked for by metric."""

    def __init__(self, pairs: Any) -> None:
        self.frames: dict[str, list[Any]] = {}
        for table, frame in pairs:
            self.frames.setdefault(table, []).append(frame)

    def rows(
        self, metric: str, kind: str | None = None, interval_s: int = 60
    ) -> dict[tuple[int, str], tuple[float, int]]:
        """(start in seconds, component) -> (value, quality)."""
        found: dict[tuple[int, str], tuple[float, int]] = {}
        for frame in self.frames.get("series", []):
            chosen = frame.text("metric").equals(metric) & (frame.array("interval_ns") == interval_s * 10**9)
            if kind is not None:
                chosen &= frame.text("component_kind").equals(kind)
            if not chosen.any():
                continue
            part = frame.take(chosen)
            for start, name, value, quality in zip(
                part.array("start_ns").tolist(), part.text("component").tolist(),
                part.array("value").tolist(), part.array("quality").tolist(), strict=True,
            ):  # fmt: skip
                assert start % 10**9 == 0
                assert (start // 10**9, name) not in found, "the same row twice"
                found[start // 10**9, name] = value, quality
        return found

    def total(self, metric: str, interval_s: int = 60) -> float:
        return sum(value for value, _ in self.rows(metric, interval_s=interval_s).values())

    def metrics(self) -> set[tuple[str, str]]:
        return {
            (kind, metric)
            for frame in self.frames.get("series", [])
            for kind, metric in zip(frame.text("component_kind").tolist(), frame.text("metric").tolist(), strict=True)
        }
