"""Cells as JSON and CSV, against the standard readers."""

from __future__ import annotations

import csv
import io
import math
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from ioweather.core.tabular import as_text, csv_text, inert, plain

NAME = 'job\nforged,"x" \x1b[31m'


def read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def test_csv_is_read_back_as_it_was() -> None:
    rows = [(NAME, 1, 2.5), (None, math.nan, math.inf), ("=1+1", True, "-x")]
    made = read(csv_text(("a", "b", "c"), rows, for_spreadsheets=False))
    assert made == [["a", "b", "c"], [NAME, "1", "2.5"], ["", "", "inf"], ["=1+1", "True", "-x"]]


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1", "-1+2", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_cell_and_no_heading_is_a_formula_for_spreadsheets(text: str) -> None:
    made = read(csv_text((text,), [(text,), (-1,), (-1.5,)], for_spreadsheets=True))
    assert made == [[f"'{text}"], [f"'{text}"], ["-1"], ["-1.5"]]
    assert inert("a=b") == "a=b"
    assert [inert(cell) for cell in ("-0.5", "+3 points", "-31%", "-0.2 – 0.6")] == [
        "-0.5",
        "+3 points",
        "-31%",
        "-0.2 – 0.6",
    ]
    assert inert("-1+cmd") == "'-1+cmd"


@pytest.mark.parametrize(
    ("value", "json_form", "text_form"),
    [
        (Decimal("1.10"), "1.10", "1.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000001"),
        (b"\x00\xff", "00ff", "00ff"),
        (date(2026, 11, 15), "2026-11-15", "2026-11-15"),
        (timedelta(hours=1), "1:00:00", "1:00:00"),
        ([1, None, b"\x01"], [1, None, "01"], '[1, null, "01"]'),
        ({"a": [Decimal(2)], 3: math.inf}, {"a": ["2"], "3": None}, '{"a": ["2"], "3": null}'),
        (2**100, 2**100, 2**100),
    ],
)
def test_every_kind_of_cell(value: Any, json_form: Any, text_form: Any) -> None:
    assert plain(value) == json_form
    assert as_text(value) == text_form
