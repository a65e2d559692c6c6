"""Frames built to a table's columns; every table keeps the rules of the house."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioweather.core.frames import Frame
from ioweather.core.tables import LAKE_COLUMNS, TABLES, concat, encode_text

UNIT_SUFFIXES = ("_ns", "_bytes", "_bytes_per_s", "_seconds", "_count", "_ratio", "_id", "_s")


@pytest.mark.parametrize("spec", TABLES.values(), ids=TABLES)
def test_tables_are_documented_and_keyed(spec):
    assert spec.doc
    assert spec.key
    assert spec.order
    assert not set(spec.names) & set(LAKE_COLUMNS)
    for column in spec.columns:
        assert column.doc, f"{spec.name}.{column.name} says nothing"
        if column.type == "float64" and column.name != "value":
            assert column.name.endswith(UNIT_SUFFIXES) or "_per_" in column.name, f"{column.name} has no unit"


def test_a_frame_has_exactly_the_columns():
    with pytest.raises(ValueError, match="no column speed"):
        TABLES["series"].frame(speed=[1])
    with pytest.raises(ValueError, match="may not be null"):
        TABLES["series"].frame(start_ns=[1, None])
    with pytest.raises(TypeError, match="lose digits"):
        TABLES["series"].frame(start_ns=np.array([1.5]))


def test_left_out_nullable_columns_are_null():
    frame = TABLES["jobs"].frame(
        cluster="c", raw_job_id=[1, 2], step="", restart=0, job_id=["1", "2"], state="X", submit_ns=1, end_ns=[None, 3]
    )
    rows = frame.records()
    assert [r["end_ns"] for r in rows] == [None, 3]
    assert rows[0]["uid"] is None
    assert rows[0]["user"] is None


@given(st.lists(st.lists(st.one_of(st.none(), st.text(max_size=3)), max_size=5), min_size=1, max_size=4))
def test_text_columns_concatenate(parts):
    joined = concat([Frame({"t": encode_text(part)}) for part in parts])
    assert joined.text("t").tolist() == [value for part in parts for value in part]
