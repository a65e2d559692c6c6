"""The example of docs/how-to/dashboard.md with a real nginx: people by password, agents by token, over TLS."""

from __future__ import annotations

import base64
import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fault_scenarios import wait_until_written
from ioweather.core.facility import parse_visibility
from ioweather.ui.web.app import LOOPBACK, bind, create_app, running
from ioweather.ui.web.tokens import create_token, tokens_file

pytestmark = pytest.mark.real
DOCS = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "dashboard.md"
NAME = "weather.example.org"


@pytest.fixture(scope="module")
def users(lake):
    with lake.snapshot() as snapshot:
        return [row[0] for row in snapshot.query('SELECT DISTINCT "user" FROM jobs ORDER BY 1 LIMIT 2').fetchall()]


@pytest.fixture(scope="module")
def served(lake):
    app = create_app(
        lake.root, hosts=(*LOOPBACK, NAME), visibility=parse_visibility({"mode": "own", "operators": ["anna"]})
    )
    with running(app, bind("127.0.0.1", 0)) as where:
        yield int(where.rstrip("/").rsplit(":", 1)[1])


@pytest.fixture(scope="module")
def nginx(served, users, tmp_path_factory):
    """The port of an nginx with the example's words, and the certificate to trust."""
    program, openssl = shutil.which("nginx") or shutil.which("/usr/sbin/nginx"), shutil.which("openssl")
    if program is None or openssl is None:
        pytest.skip("nginx or openssl is not installed")
    folder = tmp_path_factory.mktemp("nginx")
    certificate, key = folder / "weather.pem", folder / "weather.key"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME},DNS:localhost", "-keyout", str(key), "-out",
         str(certificate)], check=True, capture_output=True,
    )  # fmt: skip
    lines = []
    for user in (*users, "anna"):
        hashed = subprocess.run([openssl, "passwd", "-apr1", "secret"], check=True, capture_output=True, text=True)
        lines.append(f"{user}:{hashed.stdout.strip()}\n")
    (folder / "weather.users").write_text("".join(lines))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    block = re.search(r"```nginx\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert block is not None
    example = (
        block[1].replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl").replace(":8585", f":{served}")
        .replace("/etc/ssl/certs/weather.pem", str(certificate)).replace("/etc/ssl/private/weather.key", str(key))
        .replace("/etc/nginx/weather.users", str(folder / "weather.users"))
    )  # fmt: skip
    temporary = "".join(
        f"{kind}_temp_path {folder / kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off;\nuser root;\npid {folder}/pid;\nerror_log {folder}/error.log;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{temporary}{example}}}\n"
    )
    subprocess.run([program, "-t", "-c", str(config), "-p", str(folder)], check=True, capture_output=True)
    process = subprocess.Popen([program, "-c", str(config), "-p", str(folder)])
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield port, certificate
    finally:
        process.terminate()
        process.wait(20)


def connect(nginx) -> http.client.HTTPSConnection:
    port, certificate = nginx
    context = ssl.create_default_context(cafile=str(certificate))
    return http.client.HTTPSConnection("localhost", port, timeout=60, context=context)


def get(nginx, path: str, user: str | None = None, **more: str) -> tuple[int, bytes]:
    headers = {"host": NAME, **{name.replace("_", "-"): value for name, value in more.items()}}
    if user is not None:
        headers["authorization"] = "Basic " + base64.b64encode(f"{user}:secret".encode()).decode()
    connection = connect(nginx)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, body


def test_people_see_their_own_through_the_proxy(nginx, users):
    assert get(nginx, "/api/v1/jobs")[0] == 401
    for user in users:
        status, body = get(nginx, "/api/v1/jobs?limit=200", user)
        assert status == 200
        assert {job["user"] for job in json.loads(body)["jobs"]} <= {user}
    assert len({job["user"] for job in json.loads(get(nginx, "/api/v1/jobs?limit=200", "anna")[1])["jobs"]}) > 1


def test_a_name_that_a_browser_sends_is_replaced(nginx, users):
    _, body = get(nginx, "/api/v1/jobs?limit=200", users[0], X_Remote_User="anna")
    assert {job["user"] for job in json.loads(body)["jobs"]} <= {users[0]}
    assert get(nginx, "/sql", users[0], X_Remote_User="anna")[0] == 403
    assert get(nginx, "/api/v1/jobs", None, X_Remote_User="anna")[0] == 401


def test_an_agent_pushes_through_the_proxy_with_its_token_alone(nginx, lake, tmp_path, served):
    port, certificate = nginx
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(create_token(lake.root, "n9", "n9"))
    segment = tmp_path / "seg-n9-1-1.ndjson"
    row = {"table": "events", "event_id": "proxy", "kind": "gap", "start_ns": 1, "label": "x"}
    segment.write_text(f'{{"ioweather_spool": 1, "host": "n9"}}\n{json.dumps(row)}\n')
    try:
        # Under the name of the certificate; that the server allows it too is what --allow-host says.
        done = subprocess.run(
            [sys.executable, "-m", "ioweather.agent.delivery", f"https://localhost:{port}", str(token), str(segment)],
            capture_output=True, text=True, env={"SSL_CERT_FILE": str(certificate)}, check=False,
        )  # fmt: skip
    finally:
        tokens_file(lake.root).unlink()
    assert json.loads(done.stdout) == {"refused": [], "waiting": [], "message": ""}, done.stderr
    wait_until_written(lake.root)
    with lake.snapshot() as snapshot:
        assert snapshot.query("SELECT count(*) FROM events WHERE event_id = 'proxy'").fetchall() == [(1,)]
