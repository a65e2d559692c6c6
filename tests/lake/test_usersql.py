"""User SQL: what is refused, what is stopped, and that the lake stays as it was."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from store_lakes import series_frame

from ioweather.core.errors import UsageError
from ioweather.lake.lake import open_lake
from ioweather.lake.sandbox import run_user_sql


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    lake = open_lake(tmp_path_factory.mktemp("sql") / "lake", create=True)
    lake.append("series", series_frame(np.ones((50, 4))), source="tts")
    (lake.root / "token").write_text("secret")
    return lake


def fingerprint(root: Path) -> dict[str, str]:
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(root.rglob("*")) if p.is_file()}


def file_of(lake) -> str:
    return next(iter(lake.snapshot().pinned["series"].uris))


@pytest.mark.parametrize(
    "sql",
    [
        "COPY series TO '{out}'",
        "COPY (SELECT 1) TO '{file}'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{file}'",
        "ATTACH '{out}' AS x",
        "INSERT INTO series SELECT * FROM series",
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW series",
        "SET enable_external_access = true",
        "SET memory_limit = '10GB'",
        "RESET lock_configuration",
        "PRAGMA database_list",
        "INSTALL httpfs",
        "LOAD httpfs",
        "CALL pragma_version()",
        "EXPORT DATABASE '{out}'",
        "SELECT 1; SELECT 2",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('{lake}/token')",
        "SELECT * FROM read_text('{lake}/tables/../token')",
        "SELECT * FROM read_parquet('{lake}/tables/series/*/*.parquet')",
        "SELECT * FROM glob('{lake}/*')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT getenv('HOME')",
        "SELECT nonsense FROM series",
        "not sql at all",
        "",
    ],
)
def test_everything_else_is_refused(lake, tmp_path, sql):
    before = fingerprint(lake.root)
    out = tmp_path / "out.db"
    with pytest.raises(UsageError):
        run_user_sql(lake.snapshot(), sql.format(out=out, file=file_of(lake), lake=lake.root))
    assert not out.exists()
    assert fingerprint(lake.root) == before


def test_a_query_that_runs_away_is_stopped(lake):
    with pytest.raises(UsageError, match="longer than"):
        run_user_sql(
            lake.snapshot(),
            "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE (a.range * b.range) % 7 = 3",
            seconds=0.5,
        )


def test_a_query_that_eats_memory_is_stopped(lake):
    with pytest.raises(UsageError, match="memory"):
        run_user_sql(lake.snapshot(), "SELECT list(range) FROM range(50000000)", memory="50MB", seconds=60)
