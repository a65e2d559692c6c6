"""What others wrote, in pages and in the server's log."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from store_lakes import series_frame

from ioweather.lake.lake import open_lake
from ioweather.ui.web.app import create_app

HOSTILE = "scratch\u202ehctarcs\x1b[31m\x9b<b>"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory):
    folder: Path = tmp_path_factory.mktemp("names")
    lake = open_lake(folder / "lake", create=True)
    lake.append("series", series_frame([[1.0], [2.0]], system=HOSTILE), source="csv", ingest_id="a")
    return create_app(folder / "lake", hosts=("testserver",))


def test_a_name_cannot_turn_a_page_around(app) -> None:
    with TestClient(app) as client:
        pages = [
            client.get(f"/{path}") for path in ("fragments/lake", "fragments/projects", "projects/" + quote(HOSTILE))
        ]
        pages.append(client.post("/fragments/sql", json={"query": "SELECT DISTINCT system FROM series"}))
    for page in pages:
        assert not any(c in page.text for c in "\u202e\x1b\x9b")
        assert "<b>" not in page.text
    assert "scratch\ufffdhctarcs" in pages[-1].text or "scratch\\u202ehctarcs" in pages[-1].text


def test_every_type_on_the_sql_page_and_in_its_csv(app) -> None:
    query = {"query": "SELECT to_timestamp(1) AS t, interval 1 month AS i, '=1' AS f, [1] AS l"}
    with TestClient(app) as client:
        assert "1970-01-01 00:00:01+00" in client.post("/fragments/sql", json=query).text
        made = client.post("/api/v1/sql?format=csv", json=query).text
        assert made == "t,i,f,l\n1970-01-01 00:00:01+00,1 month,'=1,[1]\n"


def test_a_sender_that_goes_away_is_no_failure_of_the_server(app, caplog: pytest.LogCaptureFixture) -> None:
    """The connection ends in the middle of a body."""
    scope: dict[str, Any] = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "path": "/api/v1/jobs",
        "raw_path": b"/api/v1/jobs", "query_string": b"", "root_path": "", "scheme": "http",
        "server": ("testserver", 80), "client": ("127.0.0.1", 5),
        "headers": [(b"host", b"testserver"), (b"content-type", b"application/octet-stream")],
    }  # fmt: skip
    parts = [{"type": "http.request", "body": b"half", "more_body": True}, {"type": "http.disconnect"}]
    sent = []

    async def receive() -> dict[str, Any]:
        return parts.pop(0) if len(parts) > 1 else parts[0]

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    with caplog.at_level(logging.DEBUG, "ioweather"):
        asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 499
    assert not [record for record in caplog.records if record.exc_info]
