"""Tables for pandas, polars and Arrow: the same values, nulls as nulls."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from ioweather.core.frames import Frame, Text
from ioweather.core.results import Answer, ResultColumn, ResultTable
from ioweather.lake.sandbox import SqlResult

FRAME = Frame(
    {
        "name": Text(np.array([1, -1, 0], np.int32), ("b", "ä")),
        "count": np.ma.MaskedArray(np.array([2**62 + 1, 7, 0]), mask=[False, False, True]),
        "rate": np.array([1.5, np.nan, 3.0]),
        "good": np.ma.MaskedArray(np.array([True, False, True]), mask=[False, True, False]),
        "start_ns": np.array([2**62 + 1, 2, 3]),
    }
)
ROWS = [
    {"name": "ä", "count": 2**62 + 1, "rate": 1.5, "good": True, "start_ns": 2**62 + 1},
    {"name": None, "count": 7, "rate": None, "good": None, "start_ns": 2},
    {"name": "b", "count": None, "rate": 3.0, "good": True, "start_ns": 3},
]


def test_the_same_rows_everywhere():
    assert FRAME.records() == ROWS
    assert FRAME.to_polars().to_dicts() == ROWS
    in_pandas = FRAME.to_pandas()
    assert str(in_pandas["count"].dtype) == "Int64"
    found = [{k: None if pd.isna(v) else v for k, v in row.items()} for row in in_pandas.to_dict("records")]
    assert found == ROWS
    arrow = FRAME.to_arrow()
    assert pl.DataFrame(arrow).to_dicts() == ROWS
    assert duckdb.sql("SELECT sum(start_ns), count(rate), count(name) FROM arrow").fetchall() == [(2**62 + 6, 2, 2)]


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows_keep_their_columns_and_kinds(rows):
    few = FRAME.take(slice(rows))
    assert few.to_polars().schema == FRAME.to_polars().schema
    assert list(few.to_pandas()) == list(FRAME)
    assert few.to_pandas().shape == (rows, 5)
    assert pl.DataFrame(few.to_arrow()).shape == (rows, 5)


def test_a_frame_that_is_handed_over_as_it_is():
    """It was taken for the list of its names."""
    with pytest.raises(TypeError, match="to_pandas"):
        pd.DataFrame(FRAME)
    with pytest.raises(TypeError, match="to_pandas"):
        np.asarray(FRAME)
    assert pl.DataFrame(FRAME).fill_nan(None).to_dicts() == ROWS


def test_tables_of_results_and_of_sql():
    table = ResultTable("t", tuple(map(ResultColumn, "abcd")), ((1, 1, "x", None), (None, 2.5, 3, True)))
    assert table.to_polars().to_dicts() == [
        {"a": 1, "b": 1.0, "c": "x", "d": None}, {"a": None, "b": 2.5, "c": "3", "d": True},
    ]  # fmt: skip
    assert repr(table) == "<ResultTable t: 2 rows of a, b, c, d>"
    result = SqlResult(("n", "n", "big"), ("INTEGER",) * 3, ((1, Decimal("2.5"), 2**70), (3, None, 5)), False)
    assert result.to_pandas().columns.tolist() == ["n", "n_2", "big"]
    assert result.to_polars()["n_2"].to_list() == [2.5, None]
    assert result.to_polars()["big"].to_list() == [float(2**70), 5.0]


def test_what_a_notebook_shows_is_short_and_escaped():
    many = Frame({f"<b>{i}": np.arange(10_000) for i in range(50)})
    html = many._repr_html_()
    assert "<b>0" not in html
    assert "&lt;b&gt;0" in html
    assert "10000 rows" in html
    assert len(html) < 30_000
    assert len(repr(many)) < 300
    hostile = ResultTable("t", (ResultColumn("a"),), (("\x1b]0;owned\x07",),), title="x")
    assert "\x1b" not in hostile._repr_html_()
    assert "\x1b" not in repr(Answer("?", "\x1b[31m", name="why"))
