"""A table as one file for other tools: the same rows, read by another reader."""

from __future__ import annotations

import csv
import gzip

import numpy as np
import polars
import pytest
from store_lakes import DAY, series_frame

from ioweather.core.units import MINUTE_NS
from ioweather.lake.copies import export_table
from ioweather.lake.lake import open_lake


@pytest.fixture
def lake(tmp_path):
    made = open_lake(tmp_path / "lake", create=True)
    made.append("series", series_frame(np.arange(20.0).reshape(10, 2)), source="tts")
    return made


def test_parquet_holds_the_rows(lake, tmp_path):
    with lake.snapshot() as snapshot:
        assert export_table(snapshot, "series", tmp_path / "x.parquet") == 20
    frame = polars.read_parquet(tmp_path / "x.parquet")
    assert sorted(frame["value"].to_list()) == list(range(20))
    assert frame["start_ns"].is_sorted()
    assert set(frame["source"]) == {"tts"}


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
def test_a_part_of_it_as_csv(lake, tmp_path, name):
    with lake.snapshot() as snapshot:
        rows = export_table(snapshot, "series", tmp_path / name, where="component = 'OST0001' -- the second",
                            period_ns=(DAY + 2 * MINUTE_NS, DAY + 5 * MINUTE_NS))  # fmt: skip
    assert rows == 3
    data = (tmp_path / name).read_bytes()
    text = (gzip.decompress(data) if name.endswith("gz") else data).decode()
    found = list(csv.DictReader(text.splitlines()))
    assert [(int(row["start_ns"]), float(row["value"])) for row in found] == [
        (DAY + minute * MINUTE_NS, 2.0 * minute + 1) for minute in (2, 3, 4)
    ]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
