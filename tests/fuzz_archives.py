"""Damage inside binary formats, put together again so that it gets past checksums and signatures."""

from __future__ import annotations

import bz2
import gzip
import io
import sqlite3
import struct
import tempfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import h5py
import numpy as np

INTEGERS = (0, 1, -1, 2, 7, 255, 2**31 - 1, 2**31, 2**32, 2**40, 2**53, 2**62, 2**63 - 1, -(2**63), -2, 4_581_964_800)
FLOATS = (0.0, -0.0, -1.0, 0.5, 1e-320, 1e18, 1e32, 1e308, -1e308, float("inf"), float("-inf"), float("nan"), 4.6e9)

# ------------------------------------------------------------------------------------------------------------- Darshan

_HEADER_OF = {True: (1328, 64, 32), False: (360, 16, 24)}  # long (3.41 on): length, modules, where the map begins


def darshan(rng: Random, data: bytes) -> bytes:
    """A field of the header, or what lies in a region, compressed again and with the map set right."""
    if data[:2] == b"\x1f\x8b":  # version 2: one gzip stream
        try:
            plain = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            return data
        return gzip.compress(_record(rng, plain, rng.choice("<>")), 1, mtime=0)
    size, count, start = _HEADER_OF[data[:4] >= b"3.41"]
    if len(data) < size or data[:2] != b"3.":
        return data
    order = "<" if data[8:10] == struct.pack("<H", 6567223 & 0xFFFF) else ">"
    if rng.random() < 0.25:
        return _header(rng, data, size, start, count, order)
    places = [struct.unpack_from(f"{order}QQ", data, start + 16 * i) for i in range(count + 1)]
    regions: list[bytes] = [data[at : at + length] for at, length in places]
    first = min((at for at, length in places if length), default=len(data))
    job = data[size:first]
    packed = [index for index, region in enumerate(regions) if region] + [-1] * 2
    for _ in range(rng.choice((1, 1, 2, 3))):
        index = rng.choice(packed)
        streams = _unpacked(job if index < 0 else regions[index], data[16])
        if not streams:
            continue
        number = rng.randrange(len(streams))
        streams[number] = _record(rng, streams[number], order)
        if rng.random() < 0.05:
            streams.insert(number, streams[number])
        changed = b"".join(_packed(stream, data[16]) for stream in streams)
        if index < 0:
            job = changed
        else:
            regions[index] = changed
    head = bytearray(data[:size])
    position = size + len(job)
    for index, region in enumerate(regions):
        struct.pack_into(f"{order}QQ", head, start + 16 * index, position if region else 0, len(region))
        position += len(region)
    return bytes(head) + job + b"".join(regions)


def _unpacked(region: bytes, compression: int) -> list[bytes]:
    """The streams of a region."""
    if compression not in (0, 1):
        return [region]
    streams = []
    while region:
        stream: Any = zlib.decompressobj() if compression == 0 else bz2.BZ2Decompressor()
        try:
            streams.append(stream.decompress(region))
        except (zlib.error, OSError, EOFError):
            break
        if not stream.eof:
            break
        region = stream.unused_data
    return streams


def _packed(stream: bytes, compression: int) -> bytes:
    return (zlib.compress(stream, 1), bz2.compress(stream, 1), stream)[compression if compression in (0, 1) else 2]


def _record(rng: Random, raw: bytes, order: str) -> bytes:
    """Words set to what they must not be, pieces lost and doubled."""
    changed = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 4, 12))):
        how = rng.randrange(10)
        at = rng.randrange(max(len(changed), 1)) & ~7
        if how < 5 and len(changed) >= at + 8:
            struct.pack_into(f"{order}q", changed, at, rng.choice(INTEGERS))
        elif how < 7 and len(changed) >= at + 8:
            struct.pack_into(f"{order}d", changed, at, rng.choice(FLOATS))
        elif how == 7:
            del changed[at : at + rng.choice((1, 8, 64, 512))]
        elif how == 8:
            changed[at:at] = changed[at : at + rng.choice((8, 64, 700))] * rng.choice((1, 1, 20))
        elif changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _header(rng: Random, data: bytes, size: int, start: int, count: int, order: str) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2))):
        if rng.random() < 0.6:
            used = [i for i in range(2 * count + 2) if any(data[start + 8 * i : start + 8 * i + 8])] or [0]
            at = start + 8 * rng.choice([*used, rng.randrange(2 * count + 2)])
            (value,) = struct.unpack_from(f"{order}Q", changed, at)
            choices = (value + 1, value - 1, value * 2, value // 2, 0, 2**31, 2**63, 2**64 - 1, len(data),
                       rng.randrange(len(data)), value + rng.randint(-700, 700))  # fmt: skip
            struct.pack_into(f"{order}Q", changed, at, rng.choice(choices) % 2**64)
        elif rng.random() < 0.5:
            at = size - 4 * count + 4 * rng.randrange(count)
            struct.pack_into(f"{order}I", changed, at, rng.choice((0, 1, 2, 3, 4, 5, 99, 2**32 - 1)))
        else:
            changed[rng.randrange(32)] = rng.randrange(256)
    return bytes(changed)


# ---------------------------------------------------------------------------------------------------------------- HDF5


def hdf5(rng: Random, data: bytes) -> bytes:
    """Values, shapes, types and attributes of datasets, by HDF5 itself."""
    buffer = io.BytesIO(data)
    try:
        with h5py.File(buffer, "r+") as file:
            for _ in range(rng.choice((1, 1, 2, 3))):
                names: list[str] = []
                file.visit(names.append)
                if names:
                    _change_item(rng, file, rng.choice(sorted(names)))
    except (OSError, RuntimeError, ValueError, TypeError, KeyError, AttributeError, IndexError):
        pass  # what HDF5 does not let itself be told is no mutation
    return buffer.getvalue()


def _change_item(rng: Random, file: Any, name: str) -> None:
    item = file[name]
    if isinstance(item, h5py.Group):
        if rng.random() < 0.3:
            del file[name]
        else:
            _change_attributes(rng, item)
        return
    how = rng.randrange(10) if (item.size or 0) < 1_000_000 else 7  # a hole of an earlier change
    if how < 5:
        _change_values(rng, item)
    elif how < 7:
        _change_attributes(rng, item)
    elif how == 7:
        del file[name]
        if rng.random() < 0.5:
            file.create_group(name)
    else:
        _replace_dataset(rng, file, name)


def _change_values(rng: Random, dataset: Any) -> None:
    values = dataset[()]
    if not np.size(values):
        return
    flat = np.atleast_1d(values).reshape(-1)
    for _ in range(rng.choice((1, 1, 3, flat.size))):
        value = rng.choice(FLOATS) if flat.dtype.kind == "f" else rng.choice(INTEGERS)
        with np.errstate(all="ignore"):
            flat[rng.randrange(flat.size)] = np.asarray(value).astype(flat.dtype)
    dataset[...] = flat.reshape(np.shape(values))


def _replace_dataset(rng: Random, file: Any, name: str) -> None:
    dataset = file[name]
    values, attributes = dataset[()], dict(dataset.attrs)
    choices: tuple[Callable[[], Any], ...] = (
        lambda: values.T, lambda: values[:1], lambda: values[:0], lambda: values.reshape(-1), lambda: values[..., None],
        lambda: values.ravel()[0], lambda: values.astype("i1"), lambda: values.astype("f4"), lambda: values.astype("S"),
        lambda: values.astype("u8"), lambda: np.concatenate([values, values]), lambda: np.zeros((1000, 1000)),
        lambda: np.array([b"text", b"more"]), lambda: values.astype("c16"), lambda: h5py.Empty("f8"),
    )  # fmt: skip
    with np.errstate(all="ignore"):
        changed = rng.choice(choices)()
    del file[name]
    if rng.random() < 0.1:  # a hole of any size costs no space in the file
        shape = rng.choice(((2**40,), (2**20, 2**20), (2**31, 2), (2, 2**31)))
        file.create_dataset(name, shape=shape, dtype="f8", chunks=True)
    else:
        file[name] = changed
    for key, value in attributes.items():
        file[name].attrs[key] = value


def _change_attributes(rng: Random, item: Any) -> None:
    keys = sorted(item.attrs)
    if not keys:
        return
    key = rng.choice(keys)
    value = item.attrs[key]
    choices: tuple[Callable[[], Any], ...] = (
        lambda: np.bytes_(b"\xff\xfe"), lambda: np.bytes_(b""), lambda: 5, lambda: -1.5, lambda: np.array([], "S4"),
        lambda: np.atleast_1d(value)[:1], lambda: np.array([b"fs1-OST0000"] * 500), lambda: "text",
        lambda: np.zeros((3, 3)), lambda: h5py.Empty("f4"), lambda: np.concatenate([np.atleast_1d(value)] * 2),
    )  # fmt: skip
    if rng.random() < 0.2:
        del item.attrs[key]
    else:
        item.attrs[key] = rng.choice(choices)()


# -------------------------------------------------------------------------------------------------------------- SQLite

_CELLS = (None, 0, -1, 1, 2**31, 2**62, 2**63 - 1, -(2**63), 1.5, 1e32, -1e308, float("inf"), float("-inf"), "", "x",
          "9" * 400, b"\xff\0", "2115-01-01 00:00:00", "1900-01-01 00:00:00", "0000-00-00 00:00:00", "fs1-OST0000",
          "2018-01-28 00:00:05", "10000-01-01 00:00:00", "x" * 70_000)  # fmt: skip


def sqlite(rng: Random, data: bytes) -> bytes:
    """Cells, rows, columns and tables changed by SQL."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.deserialize(data)
        for _ in range(rng.choice((1, 1, 2, 4))):
            tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            if not tables:
                break
            _change_table(rng, connection, rng.choice(sorted(tables)))
        connection.commit()
        return connection.serialize()
    except sqlite3.Error:
        return data
    finally:
        connection.close()


def _change_table(rng: Random, connection: sqlite3.Connection, table: str) -> None:
    columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
    ids = [row[0] for row in connection.execute(f'SELECT rowid FROM "{table}"')]
    column, how = rng.choice(columns), rng.randrange(12)
    if how < 7 and ids:
        some = rng.sample(ids, min(len(ids), rng.choice((1, 1, 2, len(ids)))))
        connection.executemany(
            f'UPDATE OR IGNORE "{table}" SET "{column}" = ? WHERE rowid = ?', [(rng.choice(_CELLS), i) for i in some]
        )
    elif how == 7 and ids:
        some = rng.sample(ids, min(len(ids), rng.choice((1, 3, len(ids)))))
        connection.executemany(f'DELETE FROM "{table}" WHERE rowid = ?', [(i,) for i in some])
    elif how == 8:
        connection.execute(f'INSERT OR IGNORE INTO "{table}" SELECT * FROM "{table}"')
    elif how == 9:
        connection.execute(f'DROP TABLE "{table}"')
        if rng.random() < 0.5:  # a view may hide anything
            connection.execute(f'CREATE VIEW "{table}" AS SELECT 1 AS "{column}"')
    elif how == 10:
        connection.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO other')
    else:
        row = [rng.choice(_CELLS) for _ in columns]
        connection.execute(f'INSERT OR IGNORE INTO "{table}" VALUES ({", ".join("?" * len(row))})', row)


# ------------------------------------------------------------------------------------------------------------- Parquet

_LITERALS = ("NULL", "-1", "0", "1e308", "'inf'::DOUBLE", "'-inf'::DOUBLE", "'nan'::DOUBLE", "1e32", "2::HUGEINT ** 64",
             "9223372036854775807", "-9223372036854775808", "18446744073709551615::UBIGINT", "''", "'x'", "'read'",
             "'2115-01-01'::DATE", "'1900-01-01 00:00:00'::TIMESTAMP", "'infinity'::TIMESTAMP", "INTERVAL 3 MONTH",
             "'00:00:01'::TIME", "[1, 2]", "{'a': 1}", "true", "'\\xFF\\x00'::BLOB", "1.25::DECIMAL(38, 2)",
             "1::TINYINT",             "'2024-03-09 12:00:00+01'::TIMESTAMPTZ", "repeat('x', 70000)", "MAP {'a': 1}",
             "99999999999999999999999999999999999999::HUGEINT", "0.5::FLOAT")  # fmt: skip
_PARQUET: dict[bytes, tuple[list[str], list[list[str]]]] = {}


def _parquet_cells(data: bytes) -> tuple[list[str], list[list[str]]]:
    """Names and cells of a seed, as literals of SQL."""
    if data not in _PARQUET:
        with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
            Path(file.name).write_bytes(data)
            relation = duckdb.sql(f"SELECT * FROM read_parquet('{file.name}')")
            rows = relation.fetchall()
        cells = [["NULL" if v is None else f"'{v}'" if isinstance(v, str) else str(v) for v in row] for row in rows]
        _PARQUET[data] = relation.columns, cells
    return _PARQUET[data]


def parquet(rng: Random, data: bytes) -> bytes:
    """Cells and columns of other values and types, by the writer."""
    names, cells = _parquet_cells(data)
    columns = {name: [row[i] for row in cells] for i, name in enumerate(names)}
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(sorted(columns))
        how = rng.randrange(8)
        if how < 3:
            columns[name] = [rng.choice(_LITERALS)] * len(columns[name])
        elif how < 6:
            columns[name][rng.randrange(len(columns[name]))] = rng.choice(_LITERALS)
        elif how == 6 and len(columns) > 1:
            del columns[name]
        else:
            columns[f"{name}x"] = columns.pop(name)
    rows = ", ".join(f"({', '.join(row)})" for row in zip(*columns.values(), strict=True))
    head = ", ".join(f'"{name}"' for name in columns)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.parquet"
        codec = rng.choice(("snappy", "zstd", "gzip", "uncompressed"))
        try:
            _writer().execute(
                f"COPY (SELECT * FROM (VALUES {rows}) AS t({head})) TO '{path}' (FORMAT parquet, COMPRESSION {codec})"
            )
        except duckdb.Error:
            return data  # cells that have no type together
        return path.read_bytes()


@cache
def _writer() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    return connection


ARCHIVES: dict[str, Callable[[Random, bytes], bytes]] = {
    "darshan": darshan, "hdf5": hdf5, "sqlite": sqlite, "parquet": parquet,
}  # fmt: skip
