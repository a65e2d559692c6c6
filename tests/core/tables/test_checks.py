"""What a row must be: every table refuses what cannot be, keeps what can, and says which and why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.core.frames import Frame
from ioweather.core.tables import TABLES, ColumnSpec, Complaints, Quality, TableSpec, build_column, concat
from ioweather.core.units import DAY_NS, NS

INT64_MOST = (1 << 63) - 1
NOW = 1_800_000_000 * NS
# Of numbers alone: what cannot be in any column that counts, measures or dates.
FLOATS = st.floats(allow_nan=True, allow_infinity=True)
INTS = st.one_of(
    st.integers(-INT64_MOST - 1, INT64_MOST), st.sampled_from([-1, 0, 1, NOW, NOW + DAY_NS, NOW + DAY_NS + 1])
)


def good(spec: TableSpec, rows: int = 3) -> Frame:
    """Rows that can be; times in the order of their columns."""
    columns: dict[str, Any] = {}
    for place, column in enumerate(spec.columns):
        if column.type == "text":
            columns[column.name] = sorted(column.choices)[0] if column.choices else good_text(column)
        elif column.type == "bool":
            columns[column.name] = [False] * rows
        elif column.name.endswith("_ns") and column.name not in ("interval_ns", "duration_ns"):
            columns[column.name] = [NOW - DAY_NS + place + row for row in range(rows)]
        else:
            columns[column.name] = [1 if column.type == "int64" else 1.0] * rows
    return spec.frame(columns, rows=rows)


def check(spec: TableSpec, frame: Frame) -> tuple[Frame, Complaints]:
    complaints = Complaints()
    rows, _ = complaints.check(spec, frame, NOW)
    return rows, complaints


def good_text(column: ColumnSpec) -> str:
    return next(text for text in (column.name, "{}", "") if column.reads is None or column.reads(text))


PARSED = [(spec, column) for spec in TABLES.values() for column in spec.columns if column.reads is not None]


@pytest.mark.parametrize(("spec", "column"), PARSED, ids=[f"{spec.name}.{column.name}" for spec, column in PARSED])
@pytest.mark.parametrize("text", ["{", "nonsense", "[" * 100_000, '{"through": 1, "1e9": {}, "x": 1e400}', "1,2,,x"])
def test_a_text_that_no_reader_can_parse_is_refused_and_named(spec, column, text):
    if column.reads(text):
        pytest.skip("it can be parsed here")
    frame = good(spec).with_columns(**{column.name: build_column(column, [text, *[good_text(column)] * 2], 3)})
    rows, complaints = check(spec, frame)
    assert rows.rows == 2
    assert list(complaints.by_rule) == [(False, f"{column.name} is not a valid {column.name}")]


def with_value(frame: Frame, column: ColumnSpec, place: int, value: Any) -> Frame:
    values = frame.array(column.name).tolist()
    values[place] = value
    return frame.with_columns(**{column.name: build_column(column, np.array(values, column.type), frame.rows)})


def numbers(spec: TableSpec) -> list[ColumnSpec]:
    return [column for column in spec.columns if column.range is not None]


@pytest.mark.parametrize("spec", TABLES.values(), ids=TABLES)
def test_rows_that_can_be_pass_as_they_are(spec):
    frame = good(spec)
    rows, complaints = check(spec, frame)
    assert not complaints.by_rule
    assert rows is frame
    empty = frame.take(slice(0))
    assert check(spec, empty)[0] is empty


@pytest.mark.parametrize("spec", TABLES.values(), ids=TABLES)
@settings(max_examples=25)
@given(data=st.data())
def test_what_passes_keeps_every_promise_and_parts_are_the_whole(spec, data):
    frame = good(spec, 4)
    for column in data.draw(st.lists(st.sampled_from(numbers(spec)), max_size=4)):
        value = data.draw(FLOATS if column.type == "float64" else INTS)
        frame = with_value(frame, column, data.draw(st.integers(0, 3)), value)
    whole, together = check(spec, frame)
    for column in numbers(spec):
        values = np.ma.masked_array(whole.array(column.name)).compressed()
        if column.type == "float64":
            assert column.nullable or not np.isnan(values).any()
            values = values[~np.isnan(values)]
        assert np.isfinite(values).all()
        assert (values >= column.range.least).all()
        assert (values <= column.range.most_at(NOW)).all()
    for first, last in (("start_ns", "end_ns"), ("valid_from_ns", "valid_to_ns")):
        if first in whole and last in whole:
            assert (whole.array(first) <= whole.array(last)).all()
    assert check(spec, whole)[0].rows == whole.rows
    told = Complaints()
    parts = [told.check(spec, frame.take(slice(at, at + 2)), NOW)[0] for at in (0, 2)]
    assert concat(parts).records() == whole.records()
    assert (told.refused, told.flagged) == (together.refused, together.flagged)


def samples(**columns: Any) -> Frame:
    given = {"start_ns": NOW - DAY_NS, "interval_ns": 10 * NS, "system": "s", "component_kind": "ost", "component": "c",
             "metric": "read_bytes", "value": 1.0, "quality": 0, **columns}  # fmt: skip
    return TABLES["series"].frame(given, rows=len(columns["value"]))


@pytest.mark.parametrize(
    ("metric", "value", "kept", "flag"),
    [
        ("read_bytes", -9e11, np.nan, Quality.RESET),
        ("read_bytes", 1e15, 1e15, Quality.OK),  # in ten seconds
        ("read_bytes", 1.01e15, np.nan, Quality.OVER_LIMIT),
        ("write_ops", 1e32, np.nan, Quality.OVER_LIMIT),
        ("cpu_ratio", 1.004, 1.0, Quality.OK),
        ("cpu_ratio", -1e-12, 0.0, Quality.OK),
        ("busy_ratio", 1.06, np.nan, Quality.OVER_LIMIT),
        ("cpu_ratio", 37.0, np.nan, Quality.OVER_LIMIT),  # percent
        ("capacity_bytes", 1e18, 1e18, Quality.OK),
        ("read_bytes", np.nan, np.nan, Quality.OK),
    ],
)
def test_samples_that_cannot_be_stay_without_their_value(metric, value, kept, flag):
    rows, complaints = check(TABLES["series"], samples(metric=metric, value=[value, 0.5], quality=8))
    assert rows.array("value").tolist() == pytest.approx([kept, 0.5], nan_ok=True)
    assert rows.array("quality").tolist() == [8 | flag, 8]
    changed = not (value == kept or np.isnan(value))
    assert [stays for stays, _ in complaints.by_rule] == [True] * changed


@pytest.mark.parametrize(("metric", "value"), [("queue_length", -1.0), ("cpu_ratio", -0.06), ("read_bytes", np.inf)])
def test_other_samples_are_refused(metric, value):
    rows, _ = check(TABLES["series"], samples(metric=metric, value=[value, 0.5]))
    assert rows.array("value").tolist() == [0.5]


@pytest.mark.parametrize(
    ("kind", "rate", "flag"), [("device", 2e12, 0), ("device", 4e12, 4), ("ost", 4e12, 0), ("ost", 2e14, 4)]
)
def test_a_rate_is_judged_by_what_its_component_can_do(kind, rate, flag):
    frame = samples(component_kind=kind, metric="read_bytes", value=[rate * 60], interval_ns=60 * NS, quality=0)
    rows, _ = check(TABLES["series"], frame)
    assert rows.array("quality").tolist() == [flag]
    assert np.isnan(rows.array("value")[0]) == bool(flag)


def test_a_row_of_more_than_a_day_or_from_before_2000_has_a_flag():
    frame = samples(value=[1.0, 1.0, 1.0], metric="read_bytes", start_ns=[0, NOW - 9 * DAY_NS, NOW - 2 * DAY_NS],
                    interval_ns=[60 * NS, 8 * DAY_NS, DAY_NS], quality=0)  # fmt: skip
    rows, _ = check(TABLES["series"], frame)
    assert rows.array("quality").tolist() == [128, 128, 0]


def test_a_job_cannot_do_more_than_a_target_can():
    frame = good(TABLES["job_operations"])
    most = 10**14 * 60
    frame = frame.with_columns(
        interval_ns=np.full(frame.rows, 60 * NS), bytes=np.full(frame.rows, most), count=np.full(frame.rows, 5)
    )
    kinds = {"component_kind": "ost"}
    frame = TABLES["job_operations"].frame({name: frame[name] for name in frame} | kinds, rows=frame.rows)
    assert check(TABLES["job_operations"], frame)[0].rows == frame.rows
    above = frame.with_columns(bytes=np.full(frame.rows, most + 10**6))
    assert check(TABLES["job_operations"], above)[0].rows == 0


def test_an_end_before_its_start_is_refused_and_an_open_end_is_not():
    jobs = TABLES["jobs"].frame(
        cluster="c", job_id=["1", "2", "3"], step="", state="X", submit_ns=NOW - 9, start_ns=[NOW - 5, NOW - 5, None],
        end_ns=[NOW - 6, None, NOW - 7],
    )  # fmt: skip
    assert check(TABLES["jobs"], jobs)[0].text("job_id").tolist() == ["2", "3"]


def test_a_clock_that_was_never_set_is_said_and_the_row_kept():
    rows, told = check(TABLES["series"], samples(start_ns=[79 * NS, NOW], value=[1.0, 2.0]))
    assert rows.rows == 2
    assert (told.refused_rows, told.flagged_rows) == (0, 1)
    assert "1 row of series flagged: start_ns is before the year 2000" in str(told)
    assert "start_ns = 1970-01-01 00:01:19Z" in str(told)
