"""Anybody's CSV and Parquet: rules, exact times, and errors that name line and column."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, EmptyInput, SourceError, TruncatedInput, UndatedInput, UsageError
from ioweather.sources.mapped.source import read_mapped
from ioweather.tables import TABLES, concat

WIDE = """
[columns]
start_ns = {from = "time", unit = "s", shift = "-60s"}
interval_ns = {value = "60s"}
system = {value = "scratch"}
component_kind = {value = "ost"}
component = {from = "ost"}
[[rows]]
metric = {value = "read_bytes"}
value = {from = "read_kb", factor = 1024}
[[rows]]
metric = {value = "write_bytes"}
value = {from = "write_kb", factor = 1024}
"""


def read(path: Path, table: str, mapping: str, **context: Any) -> list[dict[str, Any]]:
    frames = [frame for _, frame in read_mapped(path, table, tomllib.loads(mapping), ReadContext(**context))]
    assert all(tuple(frame) == TABLES[table].names for frame in frames)
    return concat(frames).records()


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    return write(tmp_path / "ost.csv", "time,ost,read_kb,write_kb\n1794724380,OST0,2,4\n1794724440.5,OST1,,1.5\n")


def test_one_line_can_make_several_rows(wide: Path) -> None:
    rows = read(wide, "series", WIDE)
    assert [(row["start_ns"], row["component"], row["metric"], row["value"]) for row in rows] == [
        (1794724320_000_000_000, "OST0", "read_bytes", 2048.0),
        (1794724380_500_000_000, "OST1", "read_bytes", None),
        (1794724320_000_000_000, "OST0", "write_bytes", 4096.0),
        (1794724380_500_000_000, "OST1", "write_bytes", 1536.0),
    ]
    assert {(row["interval_ns"], row["system"], row["component_kind"], row["quality"]) for row in rows} == {
        (60 * 10**9, "scratch", "ost", 0)
    }


JOBS = """
[csv]
delimiter = ";"
nulls = ["", "Unknown"]
[columns]
cluster = {value = "edison"}
raw_job_id = {from = "id"}
job_id = {from = "id"}
user = {from = "user"}
uid = {from = "uid"}
state = {from = "state", map = {CD = "COMPLETED", F = "FAILED"}}
submit_ns = {from = "submit", unit = "iso"}
start_ns = {from = "start", unit = "local"}
end_ns = {from = "end", unit = "local", format = "%d.%m.%Y %H:%M"}
node_count = {from = "nodes"}
[where]
step = ["alloc"]
"""
JOB_LINES = (
    "id;user;uid;state;submit;start;end;nodes;step\n"
    "7;ann;1000;CD;2026-11-15T06:00:00+01:00;2026-11-15 06:01:00.25;15.11.2026 08:00;4;alloc\n"
    "7;ann;1000;CD;2026-11-15T06:00:00+01:00;2026-11-15 06:01:00;15.11.2026 08:00;4;batch\n"
    "8;bob;;F;2026-11-15T05:00:00Z;Unknown;Unknown;2.0;alloc\n"
)


def test_jobs_with_filters_maps_and_local_times(tmp_path: Path) -> None:
    path = write(tmp_path / "jobs.csv", JOB_LINES)
    rows = read(path, "jobs", JOBS, zone=ZoneInfo("Europe/Berlin"))
    five = int(dt.datetime(2026, 11, 15, 5, tzinfo=dt.UTC).timestamp()) * 10**9
    first, second = rows
    assert first["submit_ns"] == second["submit_ns"] == five
    assert first["start_ns"] == five + 60_250_000_000
    assert first["end_ns"] == five + 2 * 3600 * 10**9
    assert second["start_ns"] is None
    assert second["uid"] is None
    assert (second["state"], second["node_count"], second["step"], second["restart"]) == ("FAILED", 2, "", 0)
    with pytest.raises(UndatedInput, match=r"line 2, column 'start': .*no zone.*--zone"):
        read(path, "jobs", JOBS)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 2**62),
            st.floats(allow_nan=False, allow_infinity=False) | st.none(),
            st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), min_size=1),
        ),
        min_size=1,
        max_size=30,
    ),
    zipped=st.booleans(),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
)
def test_what_is_written_comes_back(
    tmp_path: Path, rows: list[tuple[int, float | None, str]], zipped: bool, delimiter: str
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow(["t", "v", "name"])
    writer.writerows([(t, "" if v is None else repr(v), name) for t, v, name in rows])
    data = text.getvalue().encode()
    path = tmp_path / "any"
    path.write_bytes(gzip.compress(data) if zipped else data)
    mapping = {
        "csv": {"delimiter": delimiter, "nulls": [""]},
        "columns": {
            "start_ns": {"from": "t", "unit": "ns"},
            "interval_ns": {"value": 1},
            "system": {"text": "host:{name}"},
            "component": {"from": "name"},
            "component_kind": {"value": "device"},
            "metric": {"value": "free_bytes"},
            "value": {"from": "v"},
        },
    }
    frames = [frame for _, frame in read_mapped(path, "series", mapping, ReadContext())]
    back = concat(frames).records()
    assert [(row["start_ns"], row["value"], row["component"]) for row in back] == rows
    assert [row["system"] for row in back] == [f"host:{name}" for _, _, name in rows]


def test_long_files_come_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(
        tmp_path / "ost.csv",
        "# made by hand\n\ntime,ost,read_kb,write_kb\n" + "".join(f"{i},O,{i},1\n\n# x\n" for i in range(100, 130)),
    )
    mapping = '[csv]\ncomment = "#"\n' + WIDE
    whole = read(path, "series", mapping)
    monkeypatch.setattr("ioweather.sources.mapped.rules.BATCH_ROWS", 4)
    assert sorted(read(path, "series", mapping), key=str) == sorted(whole, key=str)
    assert len(whole) == 60


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("soon,O,1,1", r"line 3, column 'time': 'soon' is not a whole number"),
        ("1e40,O,1,1", "line 3, column 'time'"),
        ("1e999999999,O,1,1", "line 3, column 'time'"),
        ("NaN,O,1,1", "line 3: column 'time' is empty, and start_ns must not be"),
        ("1794724440,,1,1", "line 3: column 'ost' is empty, and component must not be"),
        ("1794724440,O,much,1", "line 3, column 'read_kb': 'much' is not a number"),
        ("1794724440,O,inf,1", "line 3, column 'read_kb'"),
        ("1794724440,O,1", "line 3: expected 4 fields, found 3"),
        ("1794724440,O,1,1,1", "line 3: expected 4 fields, found 5.*unnamed_index"),
        ('1794724440,"O,1,1', "not a CSV file"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, cell: str, message: str) -> None:
    path = write(tmp_path / "ost.csv", f"time,ost,read_kb,write_kb\n1794724380,OST0,2,4\n{cell}\n")
    with pytest.raises(CorruptInput, match=message):
        read(path, "series", WIDE)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (WIDE.replace("component = ", "compnent = "), "series has no column 'compnent'.*component"),
        (WIDE.replace('component = {from = "ost"}', ""), "does not say where component of series"),
        (WIDE.replace(', unit = "s"', ""), "'start_ns' needs a `unit`"),
        (WIDE.replace('unit = "s"', 'unit = "fortnight"'), "'start_ns' needs a `unit`"),
        (WIDE.replace('value = "60s"', 'value = "a while"'), "'interval_ns': the value 'a while' does not fit"),
        (WIDE.replace('value = "60s"', 'from = "x", unit = "iso"'), "length of time"),
        (WIDE.replace("factor = 1024", 'factor = "k"'), "`factor` should be a number"),
        (WIDE.replace("factor = 1024", 'unit = "s"'), "only times have one"),
        (WIDE.replace("factor = 1024", 'shift = "1s"'), "only times have one"),
        (WIDE.replace("factor = 1024", "fctor = 1024"), "unknown entry 'fctor'"),
        (WIDE.replace("-60s", "back"), "`shift`"),
        (WIDE.replace('{from = "ost"}', '{from = "ost", value = "x"}'), "exactly one"),
        (WIDE.replace('{from = "ost"}', '"ost"'), "should be a table"),
        (WIDE.replace('{from = "ost"}', '{from = "ost", map = "x"}'), "`map` should be"),
        (WIDE.replace('{from = "ost"}', "{from = 3}"), "`from` should be text"),
        ("[colums]\n", r"unknown part \[colums\]"),
        ("csv = 1\n" + WIDE, r"\[csv\] of the mapping should be a table"),
        ("rows = 3\n[columns]\n", r"\[\[rows\]\]"),
        ("[csv]\nsep = ','\n" + WIDE, "unknown entry 'sep' under"),
        ("[csv]\ndelimiter = ', '\n" + WIDE, "one character"),
        ("[csv]\nskip = 'x'\n" + WIDE, "should be a int"),
        ("[csv]\nencoding = 'runes'\n" + WIDE, "no known encoding"),
    ],
)
def test_a_wrong_mapping_is_a_usage_error_before_anything_is_read(mapping: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        read_mapped(tmp_path / "absent.csv", "series", tomllib.loads(mapping), ReadContext())


def test_unknown_tables(tmp_path: Path) -> None:
    for table in ("serie", "ingests"):
        with pytest.raises(UsageError, match="no table"):
            read_mapped(tmp_path / "x", table, {}, ReadContext())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"read_bytes"', '"reads"'), "'reads' is no metric of series.*read_bytes"),
        (('"ost"}\ncomponent', '"disk"}\ncomponent'), "'disk' is no component_kind"),
    ],
)
def test_closed_lists(wide: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in WIDE
    with pytest.raises(CorruptInput, match=message):
        read(wide, "series", WIDE.replace(*change))


def test_columns_that_are_not_there_or_twice(wide: Path, tmp_path: Path) -> None:
    with pytest.raises(CorruptInput, match=r"no column 'server'.*'read_kb'"):
        read(wide, "series", WIDE.replace('"ost"}\n[[', '"server"}\n[['))
    twice = write(tmp_path / "twice.csv", "time,ost,ost,read_kb,write_kb\n1,a,b,2,3\n")
    with pytest.raises(CorruptInput, match="'ost' more than once"):
        read(twice, "series", WIDE)


def test_map_and_default(tmp_path: Path) -> None:
    mapping = """
    [columns]
    start_ns = {from = "t", unit = "ms"}
    interval_ns = {from = "dt", unit = "ms", default = 1000}
    component_kind = {value = "device"}
    component = {from = "dev"}
    metric = {from = "op", map = {R = "read_ops", W = "write_ops"}, default = "flush_ops"}
    value = {from = "n"}
    """
    path = write(tmp_path / "a.csv", "t,dt,dev,op,n\n1500,250,sda,R,1\n1750,,sda,,2\n")
    rows = read(path, "series", mapping, system="oss1:sda")
    assert [(row["start_ns"], row["interval_ns"], row["metric"], row["system"]) for row in rows] == [
        (1_500_000_000, 250_000_000, "read_ops", "oss1:sda"), (1_750_000_000, 10**9, "flush_ops", "oss1:sda")
    ]  # fmt: skip
    write(path, "t,dt,dev,op,n\n1500,250,sda,X,1\n")
    with pytest.raises(CorruptInput, match="line 2, column 'op': 'X' is not in `map`, which has 'R', 'W'"):
        read(path, "series", mapping, system="s")


def test_files_without_names_and_decimal_commas(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "title of the sheet\n1,5;OST0;2,25;4\n")
    mapping = """
    [csv]
    delimiter = ";"
    decimal = ","
    skip = 1
    columns = ["time", "ost", "read_kb", "write_kb"]
    """
    rows = read(path, "series", mapping + WIDE)
    assert rows[0]["start_ns"] == 1_500_000_000 - 60 * 10**9
    assert rows[0]["value"] == 2.25 * 1024
    write(path, "title\n1,5;OST0\n")
    with pytest.raises(CorruptInput, match="line 2: expected 4 fields, found 2"):
        read(path, "series", mapping + WIDE)


def test_autumn_by_order(tmp_path: Path) -> None:
    times = ["01:30", "02:00", "02:30", "02:00", "02:30", "03:00"]
    path = write(tmp_path / "a.csv", "time,ost,read_kb,write_kb\n" + "".join(f"2026-10-25 {t},O,1,1\n" for t in times))
    rows = read(path, "series", WIDE.replace('unit = "s"', 'unit = "local"'), zone=ZoneInfo("Europe/Berlin"))
    starts = [row["start_ns"] for row in rows if row["metric"] == "read_bytes"]
    assert [b - a for a, b in pairwise(starts)] == [1800 * 10**9] * 5
    utc = read(path, "series", WIDE.replace('unit = "s"', 'unit = "utc"'))
    assert utc[0]["start_ns"] == int(dt.datetime(2026, 10, 25, 1, 29, tzinfo=dt.UTC).timestamp()) * 10**9


def test_damaged_files(wide: Path, tmp_path: Path) -> None:
    data = wide.read_bytes()
    for content, error in [
        (b"", EmptyInput),
        (b"\n\n", EmptyInput),
        (b"time,ost,read_kb,write_kb\n", EmptyInput),
        (data.replace(b"OST0", b"\xff\xfe"), CorruptInput),
        (gzip.compress(data * 50)[:-20], TruncatedInput),
        (b"\x1f\x8b\x08garbage", SourceError),
        (b"PAR1 and no more", CorruptInput),
    ]:
        path = tmp_path / "damaged"
        path.write_bytes(content)
        with pytest.raises(error):
            read(path, "series", WIDE)
    latin = tmp_path / "latin.csv"
    latin.write_bytes("time,ost,read_kb,write_kb\n1,Größe,1,1\n".encode("latin-1"))
    assert read(latin, "series", '[csv]\nencoding = "latin-1"\n' + WIDE)[0]["component"] == "Größe"
    with pytest.raises(CorruptInput, match="encoding"):
        read(latin, "series", WIDE)


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "it's a file.parquet"
    target = str(path).replace("'", "''")
    duckdb.sql(f"""COPY (
        SELECT * FROM (VALUES
            (TIMESTAMPTZ '2026-11-15 06:00:00.123456+01', 5::BIGINT, 1.5::DOUBLE, 'OST0', 12.25::DECIMAL(10,2)),
            (TIMESTAMPTZ '2026-11-15 06:01:00+01', 9007199254740993::BIGINT, NULL, 'OST1', NULL)
        ) t("when", n, v, ost, d)) TO '{target}' (FORMAT parquet)""")
    mapping = """
    [columns]
    start_ns = {from = "when", unit = "iso"}
    interval_ns = {from = "n", unit = "ns"}
    system = {text = "fs-{ost}"}
    component_kind = {value = "ost"}
    component = {from = "ost"}
    [[rows]]
    metric = {value = "read_bytes"}
    value = {from = "v", factor = 1000}
    [[rows]]
    metric = {value = "write_bytes"}
    value = {from = "d"}
    """
    rows = read(path, "series", mapping)
    five = int(dt.datetime(2026, 11, 15, 5, tzinfo=dt.UTC).timestamp()) * 10**9
    assert [row["start_ns"] - five for row in rows[:2]] == [123_456_000, 60 * 10**9]
    assert rows[1]["interval_ns"] == 9007199254740993  # more digits than a float has
    assert [row["value"] for row in rows] == [1500.0, None, 12.25, None]
    assert rows[0]["system"] == "fs-OST0"
    with pytest.raises(CorruptInput, match=r"no column 'w'.*'when'"):
        read(path, "series", mapping.replace('"v"', '"w"'))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(CorruptInput, match="Parquet"):
        read(path, "series", mapping)


@pytest.mark.shared
def test_a_year_of_benchmark_jobs(shared_data: Path) -> None:
    """Lines with one more field than the header: refused with the remedy, and read with it."""
    (path,) = (shared_data / "tokio-abc").glob("*.csv.gz")
    mapping = """
    [columns]
    cluster = {value = "edison"}
    raw_job_id = {from = "_jobid"}
    job_id = {from = "_jobid"}
    state = {value = "COMPLETED"}
    name = {from = "darshan_app"}
    start_ns = {from = "_datetime_start", unit = "s"}
    submit_ns = {from = "_datetime_start", unit = "s"}
    end_ns = {from = "_datetime_end", unit = "s"}
    """
    with pytest.raises(CorruptInput, match=r"line 2: expected 186 fields, found 187.*unnamed_index = true"):
        read(path, "jobs", mapping)
    rows = read(path, "jobs", "[csv]\nunnamed_index = true\n" + mapping)
    assert (rows[0]["raw_job_id"], rows[0]["start_ns"], rows[0]["end_ns"]) == (
        3902162, 1487065296 * 10**9, 1487065394 * 10**9
    )  # fmt: skip
    with gzip.open(path, "rt") as file:
        assert len(rows) == sum(1 for _ in file) - 1
    assert all(row["end_ns"] is None or row["end_ns"] >= row["start_ns"] for row in rows)


def test_the_examples_of_the_documentation_work(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/how-to/any-csv.md").read_text()
    csvs, tomls = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("csv", "toml"))
    series = read(write(tmp_path / "ost.csv", csvs[0]), "series", tomls[0])
    assert [row["value"] for row in series] == [
        2048 * 1024.0, 0.0, 1024 * 1024.0, 4096 * 1024.0, 512 * 1024.0, None, 0.125, 0.03, 0.08
    ]  # fmt: skip
    jobs = read(write(tmp_path / "jobs.csv", csvs[1]), "jobs", tomls[1], zone=ZoneInfo("UTC"))
    assert [(job["raw_job_id"], job["state"], job["node_count"]) for job in jobs] == [
        (4711, "COMPLETED", 16), (4712, "CANCELLED", 4)
    ]  # fmt: skip
    assert jobs[0]["end_ns"] - jobs[0]["start_ns"] == 3510 * 10**9
