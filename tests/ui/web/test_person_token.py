"""A person's token: own jobs, nobody else's, no rows in, and no word of what a server may not tell."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from ioweather.ui.cli.main import run as command
from ioweather.ui.web.app import bind, create_app, running
from ioweather.ui.web.tokens import create_token, find_token, list_tokens, revoke_token
from planted_why import ASKED, make_why_lake

FACILITY = """
[visibility]
mode = "{mode}"
uids = {{ ann = 3, bob = 99 }}
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return make_why_lake(tmp_path_factory.mktemp("token") / "lake")


@pytest.fixture(scope="module")
def tokens(lake):
    return {name: create_token(lake.root, name, "", name) for name in ("ann", "bob")} | {
        "n1": create_token(lake.root, "n1", "n1")
    }


def client(lake, mode):
    (lake.root / "facility.toml").write_text(FACILITY.format(mode=mode))
    return TestClient(
        create_app(lake.root, (), hosts=("testserver",), visibility=lake.facility.visibility), client=("127.0.0.1", 1)
    )


def bearer(text):
    return {"Authorization": f"Bearer {text}"}


@pytest.mark.parametrize("mode", ["own", "open"])
def test_own_jobs_and_nobody_elses(lake, tokens, mode):
    asked = client(lake, mode)
    path = f"/api/v1/jobs/{ASKED['system']}/text"
    mine = asked.get(path, headers=bearer(tokens["ann"]))
    assert mine.status_code == 200, mine.text
    assert "(ioweather, judged now)" in mine.text
    other = asked.get(path, headers=bearer(tokens["bob"]))
    assert other.status_code == 404
    assert "system" not in other.text.lower()
    assert asked.get("/api/v1/jobs", headers=bearer(tokens["bob"])).json()["jobs"][0]["user"] == "uid 99"
    assert asked.get(path, headers=bearer("wrong")).status_code == 401
    assert asked.get(path, headers=bearer(tokens["n1"])).status_code == 401, "a host's token shows nothing"
    assert asked.get(path).status_code == (200 if mode == "open" else 403)


def test_a_persons_token_brings_no_rows(lake, tokens):
    asked = client(lake, "own")
    sent = asked.put("/api/v1/hosts/ann/status", content=b"{}", headers=bearer(tokens["ann"]))
    assert sent.status_code in (401, 404, 405)
    assert not find_token(lake.root, tokens["ann"]).is_for("ann")


def test_the_command_makes_lists_and_revokes_it(lake, capsys):
    root = str(lake.root)
    assert command(["serve", "token", "create", "eve", "--user", "eve", "--lake", root]) == 0
    assert find_token(lake.root, capsys.readouterr().out.strip()).user == "eve"
    assert command(["serve", "token", "create", "x", "--user", "eve", "--hosts", "n*", "--lake", root]) == 2
    assert command(["serve", "token", "list", "--lake", root, "--csv"]) == 0
    assert "eve" in capsys.readouterr().out
    revoke_token(lake.root, "eve")
    assert "eve" not in [token.name for token in list_tokens(lake.root)]


def test_a_login_node_without_the_lake_asks_the_server(lake, tokens, tmp_path, capsys, monkeypatch):
    client(lake, "own")
    file = tmp_path / "token"
    file.touch(mode=0o600)
    job = str(ASKED["system"])
    app = create_app(lake.root, (), visibility=lake.facility.visibility)
    with running(app, bind("127.0.0.1", 0)) as where:
        monkeypatch.setenv("IOWEATHER_SERVER", where)
        monkeypatch.setenv("IOWEATHER_TOKEN_FILE", str(file))
        file.write_text(tokens["ann"])
        assert command(["why", job, "--line"]) == 0
        assert "(ioweather, judged now)" in capsys.readouterr().out
        assert command(["why", job]) == 0
        assert len(capsys.readouterr().out.splitlines()) > 8
        file.write_text(tokens["bob"])
        assert command(["why", job]) == 1
        file.write_text("wrong")
        assert command(["why", job]) == 2
        file.chmod(0o644)
        assert command(["why", job]) == 2
        assert "Other users can read" in capsys.readouterr().err
    assert command(["why", job, "--server", "http://weather.example.org"]) == 2
    assert "unencrypted" in capsys.readouterr().err


def test_what_a_server_does_not_give_is_refused(capsys):
    assert command(["why", "1", "--server", "http://127.0.0.1:1", "--csv"]) == 2
    assert "not --csv" in capsys.readouterr().err
