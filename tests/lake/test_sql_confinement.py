"""No statement changes a byte of the lake or of any other file: checked before it runs, and refused by the kernel."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient
from hostile_sql import fingerprint, generate_statements
from store_lakes import series_frame

from ioweather.lake.lake import Lake, open_lake
from ioweather.ui.cli.main import cli
from ioweather.ui.web.app import LOOPBACK, create_app
from ioweather.ui.web.tokens import create_token


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = open_lake(tmp_path / "lake", create=True)
    made.append("series", series_frame(np.ones((20, 3))), source="tts")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "notes.txt").write_text("mine")
    return made


def targets_of(lake: Lake) -> list[str]:
    table_file = next(iter(lake.snapshot().pinned["series"].uris))
    outside = lake.root.parent / "outside"
    relative = str(Path(table_file).relative_to(lake.root.resolve()))
    return [table_file, relative, str(lake.root / "lake.json"), str(lake.root / "new"), str(outside / "notes.txt"),
            str(outside / "new.parquet"), str(outside / "folder" / "new"), "new"]  # fmt: skip


def ask_by_command(lake: Lake, statement: str) -> None:
    result = CliRunner().invoke(cli, ["sql", statement, "--lake", str(lake.root), "--timeout", "20"])
    assert "bug in ioweather" not in result.output, statement


def check_statements(lake: Lake, count: int, seed: int, ask) -> None:
    before = fingerprint(lake.root, lake.root.parent / "outside")
    for statement in generate_statements(targets_of(lake), ["series", "jobs", "ingests"], count, seed):
        ask(statement)
    assert fingerprint(lake.root, lake.root.parent / "outside") == before


def operator_of(lake: Lake) -> dict[str, str]:
    """The headers of an operator, where people need a token or the word of a proxy, and see their own jobs only."""
    (lake.root / "facility.toml").write_text('name = "x"\n[visibility]\nmode = "own"\noperators = ["anna"]\n')
    create_token(lake.root, "n1", "n1")
    return {"X-Remote-User": "anna"}


def check_over_http(lake: Lake, count: int, seed: int, headers: dict[str, str]) -> None:
    app = create_app(lake.root, [], hosts=(*LOOPBACK, "testserver"))
    with TestClient(app, client=("127.0.0.1", 40000), raise_server_exceptions=False) as client:
        asked = client.post("/api/v1/sql", json={"query": "SELECT count(*) FROM series"}, headers=headers)
        assert asked.json()["rows"] == [[60]]

        def ask(statement: str) -> None:
            response = client.post("/api/v1/sql", json={"query": statement}, headers=headers)
            assert response.status_code < 500, (statement, response.text)

        check_statements(lake, count, seed, ask)


def test_no_statement_changes_a_file_by_command(lake: Lake) -> None:
    check_statements(lake, 12, 11, lambda statement: ask_by_command(lake, statement))


@pytest.mark.parametrize("mode", ["open", "operator"])
def test_no_statement_changes_a_file_over_http(lake: Lake, mode: str) -> None:
    check_over_http(lake, 12, 12, operator_of(lake) if mode == "operator" else {})


@pytest.mark.slow
def test_no_statement_of_a_thousand_changes_a_file_by_command(lake: Lake) -> None:
    check_statements(lake, 1000, 21, lambda statement: ask_by_command(lake, statement))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["open", "operator"])
def test_no_statement_of_a_thousand_changes_a_file_over_http(lake: Lake, mode: str) -> None:
    check_over_http(lake, 1000, 22 if mode == "open" else 23, operator_of(lake) if mode == "operator" else {})


UNCHECKED = """
import json, sys
question = json.load(sys.stdin)
import duckdb, os
from ioweather.lake import confinement
if question["only"] == "seccomp":
    confinement._limit_files = lambda *_: False
elif question["only"] == "landlock":
    confinement._refuse_writing_calls = lambda *_: False
os.chdir(question["root"])
assert confinement.confine(question["files"], ["/proc/self", "/sys/fs/cgroup"])
for statement in question["statements"]:
    print("begun", flush=True)
    con = duckdb.connect(":memory:")
    for name in ("series", "jobs", "ingests"):
        con.execute(f"CREATE TABLE {name} AS SELECT 1 AS source")
    try:
        con.execute(statement).fetchall()
        print("done", flush=True)
    except (duckdb.Error, RuntimeError, MemoryError):
        pass
    con.close()
"""


@pytest.mark.parametrize("only", ["landlock", "seccomp", "both"])
@pytest.mark.parametrize("count", [100, pytest.param(2200, marks=pytest.mark.slow)])
def test_the_kernel_refuses_what_no_check_stopped(lake: Lake, only: str, count: int) -> None:
    """The same statements, run without looking at them and with all of DuckDB's doors open."""
    before = fingerprint(lake.root, lake.root.parent / "outside")
    statements = list(generate_statements(targets_of(lake), ["series", "jobs", "ingests"], count, 31))
    question = {"root": str(lake.root), "only": only, "files": list(lake.snapshot().pinned["series"].uris)}
    completed = aborts = 0
    while statements:
        ran = subprocess.run(
            [sys.executable, "-c", UNCHECKED], input=json.dumps({**question, "statements": statements}),
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        if "AssertionError" in ran.stderr:
            pytest.skip(f"this kernel has no {only}")
        assert ran.returncode in (0, -signal.SIGABRT), ran.stderr[-2000:]
        completed += ran.stdout.count("done")
        aborts += ran.returncode != 0  # DuckDB ends the process where a log cannot be opened
        statements = statements[ran.stdout.count("begun") :]
    assert completed > count / 12  # they change memory alone
    assert aborts < count / 10
    assert fingerprint(lake.root, lake.root.parent / "outside") == before


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT current_setting('allowed_paths')",
        "SELECT system.main.\"CURRENT_SETTING\"('allowed_paths')",
        "SELECT value FROM duckdb_settings() WHERE name = 'allowed_paths'",
        "SELECT * FROM pg_catalog.pg_settings",
        "SELECT * FROM duckdb_external_file_cache()",
        "DESCRIBE SELECT current_setting('allowed_paths')",
        "SELECT sql FROM duckdb_views()",
        "SELECT * FROM information_schema.views",
        "EXPLAIN ANALYZE SELECT * FROM series",
        "SELECT file_name FROM parquet_metadata('nowhere')",
    ],
)
def test_no_query_shows_where_the_lake_is(lake: Lake, sql: str) -> None:
    result = CliRunner().invoke(cli, ["sql", sql, "--lake", str(lake.root), "--json"])
    assert str(lake.root) not in result.output.replace("\\/", "/")
