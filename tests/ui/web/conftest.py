"""One small lake behind the application."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from small_facility import make_small_lake

from fault_scenarios import wait_until_written
from ioweather.lake.lake import open_lake
from ioweather.ui.web.app import LOOPBACK, bind, create_app, running
from ioweather.ui.web.tokens import create_token


@pytest.fixture(scope="session")
def lake(tmp_path_factory):
    return make_small_lake(tmp_path_factory.mktemp("web"))


@pytest.fixture(scope="session")
def client(lake, tmp_path_factory):
    nowhere = tmp_path_factory.mktemp("nowhere")
    app = create_app(
        lake.root, [nowhere / "spool"], hosts=(*LOOPBACK, "testserver"), metrics=lambda: b"ioweather_up 0\n",
    )  # fmt: skip
    with TestClient(app, raise_server_exceptions=False) as made:
        yield made


@pytest.fixture(scope="session")
def without_data(tmp_path_factory):
    """A server whose lake does not exist yet."""
    app = create_app(tmp_path_factory.mktemp("nothing") / "none", hosts=("testserver",))
    with TestClient(app, raise_server_exceptions=False) as made:
        yield made


@pytest.fixture(scope="session")
def job_id(client):
    return client.get("/api/v1/jobs").json()["jobs"][0]["job_id"]


# A server that other hosts push to, and what they need for it.


@pytest.fixture
def root(tmp_path):
    return open_lake(tmp_path / "lake", create=True).root


@pytest.fixture
def token(root):
    return create_token(root, "n1", "n1")


@pytest.fixture
def token_file(tmp_path, token):
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(f"{token}\n")
    return file


@pytest.fixture
def server(root):
    with running(create_app(root), bind("127.0.0.1", 0)) as where:
        yield where.rstrip("/")


@pytest.fixture
def wait_written():
    return wait_until_written
