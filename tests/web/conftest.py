"""One small lake behind the application."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from small_facility import make_small_lake

from ioweather.web.app import LOOPBACK, create_app


@pytest.fixture(scope="session")
def lake(tmp_path_factory):
    return make_small_lake(tmp_path_factory.mktemp("web"))


@pytest.fixture(scope="session")
def client(lake, tmp_path_factory):
    nowhere = tmp_path_factory.mktemp("nowhere")
    app = create_app(
        lake.root, [nowhere / "spool"], others={"empty": nowhere / "none"}, hosts=(*LOOPBACK, "testserver"),
        metrics=lambda: b"ioweather_up 0\n",
    )  # fmt: skip
    with TestClient(app, raise_server_exceptions=False) as made:
        yield made


@pytest.fixture(scope="session")
def job_id(client):
    return client.get("/api/v1/jobs").json()["jobs"][0]["job_id"]
