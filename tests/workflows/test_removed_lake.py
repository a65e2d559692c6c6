"""The lake's directory is removed while somebody works with it: said plainly, and not made again."""

from __future__ import annotations

import shutil

import pytest
from small_facility import make_small_lake
from starlette.testclient import TestClient

from ioweather.core.errors import IoweatherError
from ioweather.ingestion.ingest import ingest
from ioweather.lake.lake import open_lake
from ioweather.ui.web.app import LOOPBACK, create_app


def test_beside_ingest(own_samples, tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    with pytest.raises(IoweatherError):
        ingest(lake, [own_samples / "darshan"], progress=lambda *_: shutil.rmtree(lake.root, ignore_errors=True))
    assert not lake.root.exists()


def test_below_a_server(tmp_path):
    lake = make_small_lake(tmp_path)
    with TestClient(create_app(lake.root, [], hosts=(*LOOPBACK, "testserver"))) as client:
        assert client.get("/api/v1/ask/events").status_code == 200
        shutil.rmtree(lake.root)
        answer = client.get("/api/v1/ask/events")
        assert (answer.status_code, answer.json()["error"]["message"]) == (404, "There is no data yet.")
        assert client.get("/").status_code == 200
        assert "There is no data yet." in client.get("/fragments/events").text
    assert not lake.root.exists()
