"""The API: every endpoint, errors as JSON, and what it refuses."""

from __future__ import annotations

import csv
import io

import pytest

from ioweather.core.papers import exhibits
from ioweather.ui.web.api import exhibit_csv
from ioweather.ui.web.queries import LIMIT_BYTES

API = "/api/v1"
BINARY = {"content-type": "application/octet-stream"}


def refused(response, status, kind):
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["kind"] == kind
    assert error["message"]
    assert "Traceback" not in response.text
    return error["message"]


def test_the_list_has_every_exhibit_with_what_the_paper_prints(client):
    listed = client.get(f"{API}/exhibits").json()["exhibits"]
    assert [item["id"] for item in listed] == [entry.id for entry in exhibits()]
    by_id = {item["id"]: item for item in listed}
    assert by_id["car11.fig7"]["ready"]
    assert by_id["car11.fig7"]["published"]
    assert by_id["car11.fig7"]["topic"] == "climate"


def test_an_exhibit_in_every_form(client):
    body = client.get(f"{API}/exhibits/car11.fig7").json()
    assert body["id"] == "car11.fig7"
    assert body["schema_version"] == 1
    rows = list(csv.reader(io.StringIO(client.get(f"{API}/exhibits/car11.fig7?format=csv").text)))
    assert len(rows) > 10
    svg = client.get(f"{API}/exhibits/car11.fig7?format=svg")
    assert svg.headers["content-type"] == "image/svg+xml"
    assert svg.content.startswith(b"<svg")
    png = client.get(f"{API}/exhibits/car11.fig7?format=png")
    assert png.content.startswith(b"\x89PNG")


def test_parameters_and_period_come_from_the_query(client):
    listed = client.get(f"{API}/exhibits/car11.fig7/parameters").json()["parameters"]
    assert "resolution" in {item["name"] for item in listed}
    body = client.get(f"{API}/exhibits/car11.fig7?resolution=10min&from=2026-03-02T01:00").json()
    assert body["provenance"]["params"]["resolution"] == 600 * 10**9
    assert body["provenance"]["params"]["from_ns"] == 1772413200 * 10**9


@pytest.mark.parametrize(
    ("query", "word"),
    [("nonsense=1", "nonsense"), ("resolution=soon", "resolution"), ("from=someday", "from"),
     ("from=2026-03-03&to=2026-03-02", "period"), ("format=exe", "format"), ("table=x&format=csv", "table")],
)  # fmt: skip
def test_a_wrong_query_is_named(client, query, word):
    assert word in refused(client.get(f"{API}/exhibits/car11.fig7?{query}"), 400, "UsageError")


def test_what_is_not_there_is_said(client, without_data):
    refused(client.get(f"{API}/exhibits/car11.fig99"), 400, "UsageError")
    refused(without_data.get(f"{API}/exhibits"), 404, "DataUnavailable")
    refused(client.get(f"{API}/now"), 404, "DataUnavailable")
    refused(client.get(f"{API}/nothing"), 404, "HTTP")
    refused(client.get(f"{API}/exhibits/car11.fig7?from=1971-01-01&to=1971-01-02"), 404, "DataUnavailable")


def test_jobs_are_found_by_words_and_answered_by_id(client, job_id):
    found = client.get(f"{API}/jobs", params={"q": str(job_id)}).json()["jobs"]
    assert {job["job_id"] for job in found} == {job_id}
    assert client.get(f"{API}/jobs", params={"q": "no such program' OR 1=1 --"}).json()["jobs"] == []
    body = client.get(f"{API}/jobs/{job_id}").json()
    assert body["why"]["headline"]
    assert body["job"]["exhibits"]
    refused(client.get(f"{API}/jobs?limit=100000"), 400, "UsageError")
    refused(client.get(f"{API}/jobs/999999999"), 404, "DataUnavailable")


@pytest.mark.parametrize("name", ["..%2f..%2fetc%2fpasswd", "%2Fetc%2Fpasswd", "run.darshan", "%00"])
def test_a_job_is_never_a_path(client, name):
    response = client.get(f"{API}/jobs/{name}")
    assert response.status_code in (400, 404)
    assert "root:" not in response.text


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd", "/../../etc/passwd"],
)
def test_files_outside_the_static_folder_are_not_served(client, path):
    response = client.get(path)
    assert response.status_code == 404
    assert "create_app" not in response.text


@pytest.mark.parametrize(
    "query",
    ["DROP TABLE jobs", "SELECT 1; SELECT 2", "COPY jobs TO '/tmp/x'", "SELECT * FROM read_csv('/etc/passwd')",
     "SELECT * FROM '/etc/passwd'", "ATTACH '/tmp/x'", "INSTALL httpfs", "SET memory_limit='8GB'", "SELEC 1",
     "SELECT * FROM glob('/etc/*')"],
)  # fmt: skip
def test_sql_that_writes_or_looks_elsewhere_is_refused(client, query):
    refused(client.post(f"{API}/sql", json={"query": query}), 400, "QueryRefused")


def test_sql_wants_json_of_a_reasonable_size(client):
    refused(client.post(f"{API}/sql", json={"query": ""}), 400, "UsageError")
    refused(client.post(f"{API}/sql", json={"query": "x" * 30_000}), 400, "UsageError")
    refused(client.post(f"{API}/sql", content="query=SELECT 1"), 400, "UsageError")


@pytest.mark.parametrize("data", [b"garbage", b"\x00" * 4096, b"BZh91AY", bytes(range(256)) * 100])
def test_an_upload_of_garbage_is_told_so(client, data):
    response = client.post(f"{API}/jobs", content=data, headers=BINARY)
    assert response.status_code == 422, response.text
    assert "/tmp" not in response.text


def test_an_upload_that_is_empty_too_large_or_of_another_type_is_refused(client):
    refused(client.post(f"{API}/jobs", content=b"", headers=BINARY), 422, "EmptyInput")
    refused(client.post(f"{API}/jobs", content=b"\0" * (LIMIT_BYTES + 1), headers=BINARY), 400, "UsageError")
    refused(client.post(f"{API}/jobs", content=b"x", headers={"content-type": "text/plain"}), 400, "UsageError")


def test_few_logs_are_looked_at_at_once(client):
    from ioweather.ui.web import queries

    taken = 0
    while queries._UPLOADS.acquire(blocking=False):
        taken += 1
    try:
        response = client.post(f"{API}/jobs", content=b"x", headers=BINARY)
        assert response.headers["retry-after"]
        refused(response, 503, "Busy")
    finally:
        for _ in range(taken):
            queries._UPLOADS.release()
    assert client.post(f"{API}/jobs", content=b"x", headers=BINARY).status_code == 422


def test_an_uploaded_log_is_answered(client, lake, tmp_path):
    from planted_logs import write_climate

    data = write_climate(tmp_path / "run.darshan").read_bytes()
    body = client.post(f"{API}/jobs", content=data, headers=BINARY).json()
    assert body["why"]["headline"]
    assert body["job"]["facts"]


def test_a_fault_inside_is_json_and_tells_nothing(client, monkeypatch):
    monkeypatch.setattr("ioweather.ui.web.visible.ask", lambda *args, **kwargs: 1 / 0)
    message = refused(client.get(f"{API}/ask/events"), 500, "Internal")
    assert "division" not in message


def test_other_hosts_are_refused(client):
    assert client.get(f"{API}/healthz", headers={"host": "evil.example"}).status_code == 400


def test_csv_disarms_formulas_and_falls_back_to_estimates():
    from ioweather.core.results import Estimate, Exhibit, ResultColumn, ResultTable

    table = ResultTable("t", (ResultColumn("name"), ResultColumn("n")), (("=cmd()", -1), ("fine", None)))
    assert exhibit_csv(Exhibit("x", "x", (table,))).splitlines() == ["name,n", "'=cmd(),-1", "fine,"]
    assert "7.5" in exhibit_csv(Exhibit("x", "x", estimates=(Estimate("e", 7.5),)))
