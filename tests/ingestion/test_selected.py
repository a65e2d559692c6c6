"""Any CSV, JSON or Parquet by a SELECT: rows, exact times, and errors that name what the file has."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import re
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pytest

from error_kinds import source_error
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.tables import TABLES, concat
from ioweather.ingestion.mappings import read_selected
from ioweather.readers.text_files import take_cuts

NS = 10**9
WIDE = """
SELECT ns(time) - 60000000000 AS start_ns, 60000000000 AS interval_ns, 'scratch' AS system, 'ost' AS component_kind,
       ost AS component, metric, value
FROM (SELECT time, ost, read_kb::DOUBLE * 1024 AS read_bytes, write_kb::DOUBLE * 1024 AS write_bytes FROM input)
UNPIVOT INCLUDE NULLS (value FOR metric IN (read_bytes, write_bytes))
"""
EVENT = (
    "SELECT 'e' || row_number() OVER () AS event_id, 'annotation' AS kind, '' AS label, ns(t) AS start_ns FROM input"
)


def read(path: Path, table: str, sql: str, rows: int = 10**6, seconds: float = 20.0, **context: Any) -> list[Any]:
    take_cuts()
    limits = {"seconds": seconds, "memory_bytes": 512 << 20, "rows": rows}
    frames = [frame for _, frame in read_selected(path, table, sql, ReadContext(**context), **limits)]
    assert all(tuple(frame) == TABLES[table].names for frame in frames)
    return concat(frames).records()


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    return write(tmp_path / "ost.csv", "time,ost,read_kb,write_kb\n1794724380,OST0,2,4\n1794724440.5,OST1,,1.5\n")


def times(path: Path, *texts: str, **context: Any) -> list[int]:
    write(path, "t\n" + "".join(f'"{text}"\n' for text in texts))
    return [row["start_ns"] for row in read(path, "events", EVENT, **context)]


def test_one_line_can_make_several_rows(wide: Path) -> None:
    rows = read(wide, "series", WIDE)
    assert sorted((row["start_ns"], row["component"], row["metric"], row["value"]) for row in rows[:2]) == [
        (1794724320 * NS, "OST0", "read_bytes", 2048.0), (1794724320 * NS, "OST0", "write_bytes", 4096.0),
    ]  # fmt: skip
    assert [(row["start_ns"], row["value"]) for row in rows[2:]] == [
        (1794724380_500_000_000, None), (1794724380_500_000_000, 1536.0)
    ]  # fmt: skip
    assert {(row["interval_ns"], row["system"], row["quality"]) for row in rows} == {(60 * NS, "scratch", 0)}


def test_json_lines_and_documents_and_zipped_files(wide: Path, tmp_path: Path) -> None:
    expected = read(wide, "series", WIDE)
    columns, *lines = (line.split(",") for line in wide.read_text().splitlines())
    records = [{k: v or None for k, v in zip(columns, line, strict=True)} for line in lines]
    for name, data in (
        ("lines.json", "".join(json.dumps(record) + "\n" for record in records).encode()),
        ("document.json", json.dumps(records).encode()),
        ("a.csv.gz", gzip.compress(wide.read_bytes())),
        ("semicolons", wide.read_bytes().replace(b",", b";")),
        ("marked.csv", b"\xef\xbb\xbf" + wide.read_bytes()),
    ):
        (tmp_path / name).write_bytes(data)
        assert read(tmp_path / name, "series", WIDE) == expected, name


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "it's a file.parquet"
    target = str(path).replace("'", "''")
    duckdb.sql(f"""COPY (
        SELECT * FROM (VALUES
            (TIMESTAMPTZ '2026-11-15 06:00:00.123456+01', 5::BIGINT, 1.5::DOUBLE, 'OST0'),
            (TIMESTAMPTZ '2026-11-15 06:01:00+01', 9007199254740993::BIGINT, NULL, 'OST1')
        ) t("when", n, v, ost)) TO '{target}' (FORMAT parquet)""")
    sql = """SELECT ns("when") AS start_ns, n AS interval_ns, 'fs-' || ost AS system, 'ost' AS component_kind,
             ost AS component, 'read_bytes' AS metric, v * 1000 AS value FROM input"""
    rows = read(path, "series", sql)
    five = int(dt.datetime(2026, 11, 15, 5, tzinfo=dt.UTC).timestamp()) * NS
    assert [row["start_ns"] - five for row in rows] == [123_456_000, 60 * NS]
    assert rows[1]["interval_ns"] == 9007199254740993  # more digits than a float has
    assert [(row["value"], row["system"]) for row in rows] == [(1500.0, "fs-OST0"), (None, "fs-OST1")]
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(CorruptInput, match="DuckDB:"):
        read(path, "series", sql)


def test_times(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    noon = int(dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC).timestamp()) * NS
    zoned = ("2026-11-15T13:00:00+01:00", "2026-11-15 12:00:00Z", "2026-11-15T12:00:00.123456789+00", str(noon // NS))
    assert times(path, *zoned) == [noon, noon, noon + 123456789, noon]
    assert times(path, "2026-11-15 13:00:00.25", zone=ZoneInfo("Europe/Berlin")) == [noon + 250_000_000]
    for text, zone, reason in (
        ("2026-11-15 13:00", None, "has no time zone. Use --zone"),
        ("2026-10-25 02:30:00", "Europe/Berlin", "occurs twice"),
        ("2026-03-29 02:30:00", "Europe/Berlin", "does not exist"),
        ("soon", "Europe/Berlin", "soon"),
        ("1794724380000", None, "1794724380000"),  # thousandths: not to be taken for seconds
    ):
        with pytest.raises(CorruptInput, match=reason):
            times(path, text, zone=ZoneInfo(zone) if zone else None)
    assert times(path, "2026-10-25 01:59:00", "2026-10-25 03:00:00", zone=ZoneInfo("Europe/Berlin"))


def test_columns_that_the_select_leaves_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "t,dev,n\n1794724380,sda,1\n")
    sql = "SELECT ns(t) AS start_ns, 1 AS interval_ns, 'device' AS component_kind, dev AS component, "
    sql += "'read_ops' AS metric, n AS value FROM input"
    assert read(path, "series", sql, system="oss1:sda")[0]["system"] == "oss1:sda"
    with pytest.raises(CorruptInput, match=r"lacks system, which series requires.*has: t, dev, n"):
        read(path, "series", sql)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (WIDE.replace("ost AS component", "server AS component"), '"server".*has: time, ost, read_kb, write_kb'),
        (WIDE.replace("AS component,", "AS compnent,"), "series has no column compnent.*start_ns.*has: time, ost"),
        (WIDE.replace("ost AS component,", "NULL AS component,"), "component is null in a row"),
        (WIDE.replace("read_kb::", "ost::"), "OST0"),
        ("SELECT * FROM read_text('/etc/passwd')", "Permission Error"),
        ("SELECT * FROM glob('/etc/*')", "DuckDB:|lacks"),
        ("EXPLAIN SELECT 1", "series has no column"),
    ],
)
def test_what_is_refused(wide: Path, sql: str, message: str) -> None:
    with pytest.raises(CorruptInput, match=message):
        read(wide, "series", sql)


def test_limits_of_one_file(wide: Path) -> None:
    many = WIDE.replace("FROM input", "FROM input, range(3000)")
    assert len(read(wide, "series", many, rows=1000)) == 1001  # one more than may be: ingest refuses the file
    endless = "FROM input, range(100000) a, range(1000000) b WHERE a.range + b.range < 0"
    with pytest.raises(SourceError):
        read(wide, "series", WIDE.replace("FROM input", endless), seconds=1)
    with pytest.raises((SourceError, CorruptInput), match="memory"):
        read(wide, "series", WIDE.replace("ost AS component", "repeat('x', 2000000000)[:1] AS component"))


def test_damaged_files(wide: Path, tmp_path: Path) -> None:
    data = wide.read_bytes()
    for content, kind in [
        (b"", "EmptyInput"),
        (b"time,ost,read_kb,write_kb\n", "EmptyInput"),
        (data + b"1794724440,O,1\n", "CorruptInput"),
        (data.replace(b"OST0", b"\xff\xfe"), "CorruptInput"),
        (b"\x1f\x8b\x08garbage", "CorruptInput"),
        (b"PAR1 and no more", "CorruptInput"),
    ]:
        path = tmp_path / "damaged"
        path.write_bytes(content)
        with source_error(kind):
            read(path, "series", WIDE)


def test_a_file_that_ends_early_is_read_to_its_last_whole_line(wide: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.csv"
    whole = read(wide, "series", WIDE)
    path.write_bytes(wide.read_bytes() + b"1794724500,OST1,12")
    assert read(path, "series", WIDE) == whole
    assert "line 4" in take_cuts()
    path.write_bytes(wide.read_bytes() + b'1794724500,OST1,12,"12"')
    assert len(read(path, "series", WIDE)) == len(whole) + 2
    assert take_cuts() == ""
    lines = "".join(f"{1794724380 + n},OST{n},{n * 7919 % 1000},1\n" for n in range(5000))
    path.write_bytes(gzip.compress(b"time,ost,read_kb,write_kb\n" + lines.encode())[:-2000])
    assert 0 < len(read(path, "series", WIDE)) < 10_000
    assert "gzip" in take_cuts()


def test_the_examples_of_the_documentation_work(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/how-to/any-csv.md").read_text()
    files, queries = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("csv", "sql"))
    queries = [query for query in queries if "FROM input" in query]  # the others ask the lake
    series = read(write(tmp_path / "ost.csv", files[0]), "series", queries[0])
    assert sorted((row["metric"], row["value"]) for row in series if row["value"] is not None) == [
        ("busy_ratio", 0.03), ("busy_ratio", 0.08), ("busy_ratio", 0.125), ("read_bytes", 0.0),
        ("read_bytes", 1024 * 1024.0), ("read_bytes", 2048 * 1024.0), ("write_bytes", 512 * 1024.0),
        ("write_bytes", 4096 * 1024.0),
    ]  # fmt: skip
    jobs = read(write(tmp_path / "jobs.csv", files[1]), "jobs", queries[1], zone=ZoneInfo("UTC"))
    assert [(job["raw_job_id"], job["state"], job["node_count"]) for job in jobs] == [
        (4711, "COMPLETED", 16), (4712, "CANCELLED", 4)
    ]  # fmt: skip
    assert jobs[0]["end_ns"] - jobs[0]["start_ns"] == 3510 * NS
    counters = read(write(tmp_path / "counters.csv", files[2]), "series", queries[2])
    assert [(row["value"], row["quality"]) for row in counters] == [(512.0, 0), (100.0, 2)]
