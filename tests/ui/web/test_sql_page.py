"""SQL over HTTP: it reads no file, writes nothing, ends in time, and does not hold up the others."""

from __future__ import annotations

import hashlib
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ioweather.lake.tokens import create_token, tokens_file
from ioweather.ui.web import queries

API = "/api/v1"
ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"


def fingerprint(root: Path) -> dict[str, str]:
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(root.rglob("*")) if p.is_file()}


@pytest.fixture
def token(lake):
    text = create_token(lake.root, "sql-test", "n1")
    yield text
    tokens_file(lake.root).unlink()


def end_after(monkeypatch, seconds: float) -> None:
    monkeypatch.setattr(queries, "SQL_LIMITS", replace(queries.SQL_LIMITS, seconds=seconds))


def test_what_is_not_a_question_about_the_lake_is_refused_and_changes_nothing(client, lake, token, tmp_path):
    part = next(iter(lake.snapshot().pinned["series"].uris))
    before = fingerprint(lake.root)
    out = tmp_path / "out"
    for query in (
        f"COPY (SELECT 1) TO '{out}'",
        f"COPY (SELECT 1) TO '{part}'",
        f"EXPLAIN ANALYZE COPY (SELECT 1) TO '{part}'",
        f"ATTACH '{out}' AS x",
        "INSERT INTO series SELECT * FROM series",
        "SET enable_external_access = true",
        "PRAGMA database_list",
        f"SELECT * FROM read_text('{tokens_file(lake.root)}')",
        f"SELECT * FROM read_text('{lake.root}/tables/../tokens.json')",
        f"SELECT * FROM '{lake.root}/tables/series/../../tokens.json'",
        f"SELECT * FROM read_blob('{part}/../../../../tokens.json')",
        "SELECT * FROM read_text('/proc/self/environ')",
    ):
        response = client.post(f"{API}/sql", json={"query": query})
        assert response.status_code == 400, query
        assert response.json()["error"]["kind"] == "QueryRefused"
        assert token not in response.text
        assert "sql-test" not in response.text
    assert not out.exists()
    assert fingerprint(lake.root) == before


def test_an_endless_query_is_killed_and_others_are_answered_meanwhile(client, monkeypatch):
    end_after(monkeypatch, 2.0)
    answers = []

    def ask() -> None:
        started = time.monotonic()
        answers.append((client.post(f"{API}/sql", json={"query": ENDLESS}), time.monotonic() - started))

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.2)
    for _ in range(5):
        assert client.get(f"{API}/healthz").status_code == 200
        assert client.get("/job").status_code == 200
    assert thread.is_alive()
    thread.join(timeout=30)
    response, _ = answers[0]
    assert response.status_code == 400
    assert "longer than 2 s" in response.json()["error"]["message"]


def test_too_many_at_once_are_told_to_wait(client, monkeypatch):
    end_after(monkeypatch, 1.0)
    monkeypatch.setattr(queries, "_PATIENCE_SECONDS", 0.1)
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(client.post(f"{API}/sql", json={"query": ENDLESS}).status_code))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(found) == [400, 400, 503, 503]


@pytest.mark.parametrize("query", ["SELECT list(range) FROM range(500000000)", "SELECT repeat('x', 60000000)"])
def test_an_answer_that_is_too_large_is_refused(client, query):
    response = client.post(f"{API}/sql", json={"query": query})
    assert response.status_code == 400
    assert response.json()["error"]["kind"] == "QueryRefused"


def test_sql_is_refused_where_the_kernel_cannot_confine_it(client, monkeypatch, tmp_path):
    """The child finds a module in its path that says so."""
    (tmp_path / "sitecustomize.py").write_text(
        "import ioweather.lake.confinement as confinement\nconfinement.confine = lambda *_: False\n"
    )
    popen = subprocess.Popen

    def with_path(*args, env, **options):
        return popen(*args, env={**env, "PYTHONPATH": str(tmp_path)}, **options)

    monkeypatch.setattr(subprocess, "Popen", with_path)
    response = client.post(f"{API}/sql", json={"query": "SELECT 1"})
    assert response.status_code == 400
    assert "cannot confine" in response.json()["error"]["message"]


def test_rows_are_limited_and_csv_disarms_formulas(client):
    body = client.post(f"{API}/sql", json={"query": "SELECT * FROM range(5000)"}).json()
    assert len(body["rows"]) == 2000
    assert body["truncated"]
    text = client.post(f"{API}/sql?format=csv", json={"query": "SELECT '=1+1' AS a, 2 AS b"}).text
    assert text.splitlines() == ["a,b", "'=1+1,2"]


def test_the_limits_are_those_that_the_page_names(client):
    limits = queries.SQL_LIMITS
    assert (limits.rows, limits.seconds, limits.memory) == (2000, 10.0, "512MiB")
    assert "at most 2,000 rows, 10 seconds, 512 MiB" in client.get("/sql").text
