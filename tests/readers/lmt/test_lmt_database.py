"""An LMT database: right-stamped local times, cumulative counters, restarts, late rows, topology."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from lmt_files import LOCAL_MIDNIGHT, OSTS, Read, lmt_tables, write_sqlite

from error_kinds import source_error
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput
from ioweather.core.tables import Quality
from ioweather.readers.lmt_database import LMT

LATE, RESET, PARTIAL = int(Quality.LATE), int(Quality.RESET), int(Quality.PARTIAL)
ZONE = ZoneInfo("America/Los_Angeles")
T0 = LOCAL_MIDNIGHT


def stamps(count: int, step: int = 5, hour: int = 0) -> list[tuple[int, str]]:
    def text(seconds: int) -> str:
        return f"2018-01-28 {hour + seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"

    return [(100 + i, text(i * step)) for i in range(count)]


def steady(count: int, rate: int = 10) -> dict[int, tuple[Any, Any]]:
    return {100 + i: (1000 + rate * i, 5000 + 2 * rate * i) for i in range(count)}


def read(path: Path, zone: ZoneInfo | None = ZONE, **context: Any) -> Read:
    return Read(LMT.read(path, ReadContext(zone=zone, **context)))


def database(path: Path, counters: dict[int, dict[int, tuple[Any, Any]]], count: int = 25, **more: Any) -> Path:
    tables = lmt_tables(stamps(count), counters)
    tables.update(more)
    return write_sqlite(path / "x.sqlite3", tables)


def test_a_late_row_keeps_its_slot_and_the_minute_is_right(tmp_path: Path):
    late = steady(25)
    for ts in (103, 104, 105):
        del late[ts]
    found = read(database(tmp_path, {1: late, 2: steady(25)}), keep_raw=True)
    raw = found.rows("read_bytes", interval_s=5)
    assert (T0 + 10, OSTS[0]) not in raw
    assert raw[T0 + 25, OSTS[0]] == (40.0, LATE)  # stamp 106 closes [T0 + 25, T0 + 30)
    assert found.rows("read_bytes")[T0, OSTS[0]] == (120.0, LATE)
    assert found.rows("read_bytes")[T0, OSTS[1]] == (120.0, 0)


def test_a_restart_is_no_negative_amount(tmp_path: Path):
    counters = steady(25)
    for i, ts in enumerate(range(110, 125)):
        counters[ts] = (3 + 10 * i, 20 * i)
    found = read(database(tmp_path, {1: counters, 2: steady(25)}), keep_raw=True)
    raw = found.rows("read_bytes", interval_s=5)
    assert raw[T0 + 45, OSTS[0]] == (3.0, RESET)
    assert found.rows("write_bytes", interval_s=5)[T0 + 45, OSTS[0]] == (0.0, RESET)
    assert found.rows("read_bytes")[T0, OSTS[0]] == (9 * 10 + 3 + 2 * 10, RESET)


def test_operations_and_servers(tmp_path: Path):
    operations = [(1, 100 + i, 1, 50 + 3 * i) for i in range(25)]
    operations += [(1, 100 + i, 2, 5 * (i - 4)) for i in range(5, 25)]  # first close after 25 s
    operations += [(1, 100 + i, op, i) for i in range(25) for op in (3, 5)]
    found = read(
        database(
            tmp_path, {1: steady(25), 2: steady(25)},
            MDS_OPS_DATA=operations,
            OST_OPS_DATA=[(1, 100 + i, op, 7 * i) for i in range(25) for op in (3, 4)],
            OSS_DATA=[(1, 100 + i, 50.0, 25.0) for i in range(25)],
            MDS_DATA=[(1, 100 + i, 10.0, 1, 3, 1, 1) for i in range(25)],
        )
    )  # fmt: skip
    mdt = (T0, "fs1-MDT0000")
    assert found.rows("open_ops", "mdt")[mdt] == (36.0, 0)
    assert found.rows("close_ops", "mdt")[mdt] == (40.0, 0)  # absent until first used: zero, not missing
    assert found.rows("other_ops", "mdt")[mdt] == (24.0, 0)
    assert found.rows("read_ops", "ost")[T0, OSTS[0]] == (84.0, 0)
    assert ("ost", "other_ops") not in found.metrics()  # pings are no work of a storage target
    assert found.rows("cpu_ratio", "oss") == {(T0, "oss0"): (0.5, 0), (T0 + 60, "oss0"): (0.5, 0)}
    assert found.rows("memory_ratio", "oss")[T0, "oss0"] == (0.25, 0)
    assert found.rows("cpu_ratio", "mds")[T0, "mds0"] == (pytest.approx(0.1), 0)
    assert found.rows("capacity_bytes", "mdt")[mdt] == (4096.0, 0)


def test_clocks_that_go_back(tmp_path: Path):
    """The hour from 1:00 to 2:00 comes twice; the order of rows tells which is which."""
    wall = [f"2018-11-04 {hour:02}:{minute:02}:00" for hour in (0, 1) for minute in range(60)]
    wall += [f"2018-11-04 {hour:02}:{minute:02}:00" for hour in (1, 2) for minute in range(60)]
    counters = {ost: {100 + i: (60 * i, 0) for i in range(len(wall))} for ost in (1, 2)}
    tables = lmt_tables([(100 + i, text) for i, text in enumerate(wall)], counters)
    path = write_sqlite(tmp_path / "x.sqlite3", tables)
    rows = read(path).rows("read_bytes")
    starts = sorted({start for start, _ in rows})
    assert starts == [1_541_314_800 + 60 * i for i in range(239)]
    assert set(rows.values()) == {(60.0, 0)}


def test_damage_and_strangers(tmp_path: Path):
    path = database(tmp_path, {1: steady(25), 2: steady(25)})
    data = path.read_bytes()
    assert LMT.detect(data[:4096], path) == 1.0
    assert LMT.detect(b"x", path) == 0.0
    broken = tmp_path / "broken.sqlite3"
    broken.write_bytes(data[:5000] + b"\0" * (len(data) - 5000))
    with pytest.raises(CorruptInput, match=r"broken\.sqlite3"):
        read(broken)
    other = tmp_path / "other.sqlite3"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE x (y)")
    connection.close()
    assert LMT.detect(other.read_bytes()[:100], other) == 0.0
    with pytest.raises(CorruptInput, match="not an LMT database"):
        read(other)


def test_too_few_stamps_and_bad_ones(tmp_path: Path):
    with source_error("EmptyInput", match="at least two are needed"):
        read(write_sqlite(tmp_path / "a.sqlite3", lmt_tables(stamps(1), {1: steady(1)})))
    with source_error("EmptyInput"):
        read(write_sqlite(tmp_path / "b.sqlite3", lmt_tables([], {})))
    with pytest.raises(CorruptInput, match="an invalid time"):
        read(write_sqlite(tmp_path / "c.sqlite3", lmt_tables([(1, "yesterday"), (2, "today")], {})))
