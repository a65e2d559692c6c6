"""Files of rows in memory, and of the result of a query."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pytest

from ioweather.core.errors import LakeError
from ioweather.core.frames import Frame, Text
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.store import day_files
from ioweather.store.convert import register_frame
from ioweather.store.day_files import from_frame, from_query, written
from ioweather.store.lake import open_lake
from ioweather.store.table_files import Statistics
from ioweather.tables import TABLES

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


def rows_and_statistics(folder: Path, write: day_files.Writer) -> tuple[list[tuple], list[Statistics]]:
    with written(folder, DAYS, "part", write) as made:
        files = [str(folder / file.path) for file in made]
    assert [file.day for file in made] == [*DAYS]
    assert [file.size for file in made] == [Path(file).stat().st_size for file in files]
    found = duckdb.sql(f"SELECT * EXCLUDE (day) FROM read_parquet({files})")
    assert [*zip(found.columns, map(str, found.types), strict=True)] == [
        *((column.name, day_files.SQL_TYPES[column.type]) for column in SERIES.columns),
        ("source", "VARCHAR"),
        ("ingest_id", "VARCHAR"),
    ]
    return found.fetchall(), [file.statistics for file in made]


def test_both_writers_write_the_same_rows_and_tell_the_same_of_them(tmp_path):
    rows, told = rows_and_statistics(tmp_path / "frame", from_frame(SERIES, frame(), "block", "1-x", DAYS))
    with duckdb.connect() as con:
        query = f"SELECT *, 'block' AS source, '1-x' AS ingest_id FROM ({register_frame(con, 'rows', frame())})"
        expected, also_told = rows_and_statistics(tmp_path / "query", from_query(con, SERIES, query, DAYS))
    assert rows == expected
    assert [row[SERIES.names.index("value")] for row in rows] == [1.5, None, None, None, 0.0, 2.0]
    assert [row[SERIES.names.index("component")] for row in rows] == ["x", "zé", "b\\udcff", "zé", "x", "b\\udcff"]
    assert told == also_told


def test_a_day_without_rows_has_no_file(tmp_path):
    days = ("2024-10-03", *DAYS)
    with written(tmp_path, days, "part", from_frame(SERIES, frame(), "block", "1-x", days)) as made:
        assert [file.day for file in made] == list(DAYS)
    assert len(list(tmp_path.rglob("*.parquet"))) == 2


def test_a_full_disk_is_an_error_and_leaves_no_file(tmp_path, monkeypatch):
    lake = open_lake(tmp_path / "lake", create=True)

    def full(path: Path, content: memoryview) -> int:
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(LakeError, match="No space left on device while writing `series`"):
        lake.append("series", frame().take([0]), source="block")
    assert not list(lake.root.rglob("*.parquet"))
