"""Every type of DuckDB in an answer: in this process and in another, as text, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from ioweather.core.errors import UsageError
from ioweather.core.tabular import csv_text, plain
from ioweather.core.units import format_value
from ioweather.lake.lake import open_lake
from ioweather.lake.sandbox import run_user_sql

# expression -> the cell as JSON has it
CELLS: dict[str, Any] = {
    "to_timestamp(1)": "1970-01-01 00:00:01+00",
    "timestamptz '294247-01-01 00:00:00+00'": "294247-01-01 00:00:00+00",
    "[to_timestamp(1), NULL]": ["1970-01-01 00:00:01+00", None],
    "{'a \"b': to_timestamp(1), 'INTERVAL': 1}": {'a "b': "1970-01-01 00:00:01+00", "INTERVAL": 1},
    "map([to_timestamp(1)], [2])": "{'1970-01-01 00:00:01+00'=2}",
    "map([{'a': 1}], [2])": "{{'a': 1}=2}",
    "interval 13 months": "1 year 1 month",
    "timestamp 'infinity'": "infinity",
    "timestamp '2026-11-15 01:02:03.5'": "2026-11-15 01:02:03.5",
    "timestamp_ns '2026-11-15 00:00:00.123456789'": "2026-11-15 00:00:00.123456789",
    "date '2026-11-15'": "2026-11-15",
    "date '-infinity'": "-infinity",
    "time '10:20:30'": "10:20:30",
    "timetz '10:20:30+01'": "10:20:30+01",
    "1.10::DECIMAL(5, 2)": 1.1,
    "170141183460469231731687303715884105727::HUGEINT": 170141183460469231731687303715884105727,
    "'00000000-0000-0000-0000-000000000001'::UUID": "00000000-0000-0000-0000-000000000001",
    r"'\xAA\x00'::BLOB": r"\xAA\x00",
    "'1010'::BIT": "1010",
    "'a'::ENUM('a', 'b')": "a",
    "[1, 2]::INTEGER[2]": [1, 2],
    "union_value(k := 1)": "1",
    "'{\"a\": 1}'::JSON": '{"a": 1}',
    "NULL": None,
    "'nan'::DOUBLE": None,
    "1e308::DOUBLE": 1e308,
    "true": True,
    "'x'": "x",
}


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory):
    folder: Path = tmp_path_factory.mktemp("types") / "lake"
    with open_lake(folder, create=True).snapshot() as opened:
        yield opened


def test_every_type_has_a_form(snapshot) -> None:
    result = run_user_sql(snapshot, f"SELECT {', '.join(CELLS)} ; -- the end")
    assert dict(zip(CELLS, map(plain, result.rows[0]), strict=True)) == CELLS
    json.dumps([plain(cell) for cell in result.rows[0]], allow_nan=False)
    [_, row] = csv.reader(io.StringIO(csv_text(result.columns, result.rows, for_spreadsheets=False)))
    assert row[0] == "1970-01-01 00:00:01+00"
    assert [format_value(cell) for cell in result.rows[0]]


def test_names_twice_and_the_order_of_rows(snapshot) -> None:
    query = "SELECT i AS a, to_timestamp(i) AS a FROM range(50000) t(i) ORDER BY hash(i) -- as asked"
    result = run_user_sql(snapshot, query)
    assert result.columns == ("a", "a")
    assert result.types == ("BIGINT", "TIMESTAMP WITH TIME ZONE")
    plain_order = run_user_sql(snapshot, "SELECT i FROM range(50000) t(i) ORDER BY hash(i)")
    assert [row[0] for row in result.rows] == [row[0] for row in plain_order.rows]
    assert result.truncated


@pytest.mark.parametrize(
    "query",
    [
        "DESCRIBE jobs;",
        "SHOW TABLES",
        "EXPLAIN SELECT 1;",
        "SELECT 'é;' ; -- ö ;",
        "FROM range(2)",
    ],
)
def test_other_forms_of_a_question(snapshot, query: str) -> None:
    assert run_user_sql(snapshot, query).rows


@pytest.mark.parametrize(
    "query",
    [
        "SELECT current_setting('temp_directory')",
        "WITH a AS (SELECT * FROM duckdb_settings()) SELECT name, value FROM a",
        "WITH RECURSIVE a AS MATERIALIZED (SELECT * FROM query('SELECT 1')) SELECT * FROM a",
        "SELECT * REPLACE (current_setting('temp_directory') AS source) FROM jobs",
        "SELECT COLUMNS(* REPLACE (current_setting('temp_directory') AS source)) FROM jobs",
        "EXPLAIN ANALYZE WITH a AS (SELECT * FROM duckdb_external_file_cache()) SELECT * FROM a",
    ],
)
def test_functions_that_show_the_place_of_the_lake_are_refused_anywhere(snapshot, query: str) -> None:
    with pytest.raises(UsageError, match="is not available here"):
        run_user_sql(snapshot, query)
