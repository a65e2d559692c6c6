"""SQL over HTTP: it reads no file, writes nothing, ends in time, and does not hold up the others."""

from __future__ import annotations

import subprocess
import threading
import time

import pytest

from ioweather.ui.web import queries

API = "/api/v1"
ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"


def end_after(monkeypatch, seconds: float) -> None:
    monkeypatch.setattr(queries, "SQL_LIMITS", {**queries.SQL_LIMITS, "seconds": seconds})


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
    assert "cannot isolate" in response.json()["error"]["message"]


def test_rows_are_limited_and_csv_disarms_formulas(client):
    body = client.post(f"{API}/sql", json={"query": "SELECT * FROM range(5000)"}).json()
    assert len(body["rows"]) == 2000
    assert body["truncated"]
    text = client.post(f"{API}/sql?format=csv", json={"query": "SELECT '=1+1' AS a, 2 AS b"}).text
    assert text.splitlines() == ["a,b", "'=1+1,2"]
