"""Parquet files of the result of a query."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np

from ioweather.core.frames import Frame, Text
from ioweather.core.tables import TABLES
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.lake.appends import written
from ioweather.lake.database import SQL_TYPES, register_frame

SERIES = TABLES["series"]
DAYS = ("2024-10-04", "2024-10-05")
FIRST = 20_000 * DAY_NS


def frame() -> Frame:
    """Two days with every kind of null, numbers that are none, and names that are not UTF-8."""
    rows = 6
    plain = SERIES.frame(
        start_ns=FIRST + np.arange(rows) * DAY_NS // 3, interval_ns=MINUTE_NS, system="host", component_kind="device",
        component=Text(np.array([0, 1, 2, 1, 0, 2], np.int32), ("x", "zé", "b\udcff", "not used")),
        metric="read_bytes", value=np.array([1.5, np.nan, np.inf, -np.inf, 0.0, 2.0]), quality=0, rows=rows,
    )  # fmt: skip
    quality = np.ma.MaskedArray(np.arange(rows), mask=[0, 1, 0, 0, 0, 1])
    system = Text(np.array([0, -1, 0, 0, -1, 0], np.int32), ("s" * 80,))
    return plain.with_columns(quality=quality, system=system)


def test_files_have_the_rows_and_their_statistics(tmp_path):
    days = ("2024-10-03", *DAYS)  # a day without rows has no file
    with duckdb.connect() as con:
        query = f"SELECT *, 'block' AS source, '1-x' AS ingest_id FROM ({register_frame(con, 'rows', frame())})"
        with written(con, tmp_path, SERIES, query, days) as made:
            files = [str(tmp_path / file.path) for file in made]
    assert [file.day for file in made] == [*DAYS]
    assert sorted(files) == sorted(map(str, tmp_path.rglob("*.parquet")))
    assert [file.size for file in made] == [Path(file).stat().st_size for file in files]
    found = duckdb.sql(f"SELECT * EXCLUDE (day) FROM read_parquet({files})")
    assert [*zip(found.columns, map(str, found.types), strict=True)] == [
        *((column.name, SQL_TYPES[column.type]) for column in SERIES.columns),
        ("source", "VARCHAR"),
        ("ingest_id", "VARCHAR"),
    ]
    rows = found.fetchall()
    assert [row[SERIES.names.index("value")] for row in rows] == [1.5, None, None, None, 0.0, 2.0]
    assert [row[SERIES.names.index("component")] for row in rows] == ["x", "zé", "b\\udcff", "zé", "x", "b\\udcff"]
    statistics = [json.loads(file.statistics) for file in made]
    assert [each["numRecords"] for each in statistics] == [3, 3]
    assert [each["nullCount"]["value"] for each in statistics] == [2, 1]
    assert statistics[0]["minValues"]["start_ns"] == FIRST
    assert statistics[1]["maxValues"]["component"] == "zé"
    assert "system" not in statistics[0]["maxValues"], "longer than 64 characters"
