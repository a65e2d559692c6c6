"""Rows of other hosts over HTTP: with a token, once, however often they are sent."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from ioweather.agent.delivery import Server, Shipment, Shipper, push, read_token
from ioweather.agent.sensor import Operation, Origin, Timing, event_row, response_row
from ioweather.agent.settings import settings_from
from ioweather.agent.spool import Spool, row_line
from ioweather.core.errors import IoweatherError, UsageError
from ioweather.ingestion.queue import waiting
from ioweather.lake.lake import open_lake
from ioweather.ui.web import pushes as receive
from ioweather.ui.web.app import bind, create_app, running
from ioweather.ui.web.tokens import create_token, revoke_token
from shipments import finish_queue, outcome

BINARY = {"content-type": "application/octet-stream"}


@pytest.fixture
def client(root):
    with TestClient(create_app(root, hosts=["testserver"]), raise_server_exceptions=False) as made:
        yield made


def event(number: int) -> str:
    return row_line("events", {"event_id": f"e{number}", "kind": "gap", "start_ns": 10**18 + number, "label": "x"})


def segment(*rows: str, host: str = "n1") -> bytes:
    header = json.dumps({"ioweather_spool": 1, "host": host, "boot_id": "b", "run_id": "r"})
    return "".join(f"{line}\n" for line in (header, *rows)).encode()


def events_in(root: Path) -> int:
    """After what waits is written, by a server's writer or here."""
    finish_queue(root)
    with open_lake(root).snapshot() as snapshot:
        return int(snapshot.query("SELECT count(*) FROM events").fetchall()[0][0])


def send(client, token, data, host="n1", name="seg-n1-1-1.ndjson"):
    headers = {**BINARY, "authorization": f"Bearer {token}"} if token is not None else BINARY
    return client.post(f"/api/v1/spool/{host}/{name}", content=data, headers=headers)


def test_a_segment_is_in_when_the_server_says_so_and_a_repeat_adds_nothing(client, root, token):
    data = segment(event(1), event(2))
    first = send(client, token, data)
    assert first.status_code == 200, first.text
    assert first.json() == {"status": "ok", "rows": {"events": 2}, "message": ""}
    assert send(client, token, data).json()["status"] == "known"
    assert waiting(root).files == 1
    assert events_in(root) == 2
    assert send(client, token, data).json()["status"] == "ok"  # it waits again, and is known to the ledger
    assert events_in(root) == 2
    # Another file with the same rows and a new one, its last line torn.
    again = send(client, token, segment(event(2), event(3)) + event(4).encode()[:20], name="seg-n1-2-1.ndjson")
    assert again.json()["rows"] == {"events": 2}
    assert events_in(root) == 3
    assert waiting(root).files == 0


def test_only_who_has_the_token_of_the_host_may_send(client, root, token):
    data = segment(event(1))
    for wrong in (None, "", "x", token[:-1], f"{token}x", "\x7f"):
        response = send(client, wrong, data)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
    basic = client.post("/api/v1/spool/n1/seg-n1-1-1.ndjson", content=data, headers={"authorization": f"Basic {token}"})
    assert basic.status_code == 401
    assert send(client, token, data, host="n2", name="seg-n2-1-1.ndjson").status_code == 403
    forged = send(client, token, segment(event(1), host="n2"))
    assert forged.status_code == 403
    assert "n2" in forged.json()["error"]["message"]
    revoke_token(root, "n1")
    assert send(client, token, data).status_code == 401
    assert events_in(root) == 0


SERIES = {"start_ns": 1, "interval_ns": 10, "system": "n1:sda", "component_kind": "device", "component": "sda",
          "metric": "read_bytes", "value": 512.0, "quality": 0}  # fmt: skip
FOREIGN = (
    row_line("responses", response_row(Origin("n2", "/s", "mount:/s", "r"), Operation("read", 1, "nocache"),
                                       Timing(5, 7), 4)),
    row_line("events", event_row("e9", "gap", "x", 1, host="n2")),
    row_line("events", event_row("gap:n2:agent:1", "gap", "x", 1, host="n1")),  # would revise an event of n2
    event(9).replace("{", '{"ho\\u0073t":"n2",'),
    row_line("series", {**SERIES, "system": "n2:sda"}),
    row_line("series", {**SERIES, "component_kind": "host", "component": "n2", "system": "n1"}),
)  # fmt: skip


@pytest.mark.usefixtures("reading_here")
@pytest.mark.parametrize("row", FOREIGN)
def test_a_row_of_another_host_refuses_the_whole_segment(client, root, token, row, monkeypatch):
    monkeypatch.setattr("ioweather.readers.segments._FIRST_ROWS", 1)  # the rows before it were read long ago
    response = send(client, token, segment(event(1), event(2), row, event(3)))
    assert response.status_code == 422, response.text
    error = response.json()["error"]
    assert error["kind"] == "ForeignRows"
    assert "line 4: the row is from n2" in error["message"]
    assert str(root) not in response.text
    finish_queue(root)
    with open_lake(root).snapshot() as snapshot:
        counts = [snapshot.query(f"SELECT count(*) FROM {table}").fetchall()[0][0] for table in ("events", "series")]
        assert (*counts, snapshot.query("SELECT count(*) FROM responses").fetchall()[0][0]) == (0, 0, 0)
        assert snapshot.query("SELECT status, reason FROM ingests").fetchall() == []
    # After a line that cannot be read nothing is looked at, nor taken.
    partial = send(client, token, segment(event(1), "no json", row), name="seg-n1-2-1.ndjson")
    assert (partial.json()["status"], partial.json()["rows"]) == ("partial", {"events": 1})
    assert events_in(root) == 1


def test_a_token_for_many_hosts_brings_rows_of_each_of_them(client, root):
    many = create_token(root, "nodes", "n*")
    lustre = row_line("series", {**SERIES, "system": "fs1", "component_kind": "ost", "component": "fs1-OST0001"})
    assert send(client, many, segment(*FOREIGN[:3], lustre, row_line("series", SERIES))).json()["status"] == "ok"
    other = row_line("events", event_row("e9", "gap", "x", 1, host="m1"))
    assert send(client, many, segment(other), name="seg-n1-2-1.ndjson").status_code == 422


@pytest.mark.parametrize(
    "name",
    ["../../tokens.json", "..%2f..%2ftokens.json", ".seg-n1-1-1.ndjson", "seg-n1-1-1.txt", "x.ndjson", "seg-%00.ndjson",
     "seg-a%2f..%2f..%2fb.ndjson", "sacct-x.txt"],
)  # fmt: skip
def test_names_that_lead_elsewhere_are_refused(client, root, token, name):
    before = sorted(root.rglob("*"))
    response = send(client, token, segment(event(1)), name=name)
    assert response.status_code in (400, 404, 405)
    assert sorted(root.rglob("*")) == before
    response = client.post(f"/api/v1/spool/{name}/seg-1.ndjson", content=b"x", headers={"authorization": token})
    assert response.status_code in (400, 401, 404, 405)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", 422),
        (b"garbage\n", 422),
        (b"{}\n", 422),
        (b'{"ioweather_spool": 99, "host": "n1"}\n', 422),
        (b'{"ioweather_spool": 1}\n', 422),
        (b'{"ioweather_spool": 1, "host": "n1"}', 422),
        (b"\x1f\x8b\x08\x00" + bytes(100), 422),
        (segment("not json"), 422),
        (segment('{"table": "jobs"}'), 422),
    ],
)
def test_what_is_no_segment_is_refused_with_its_reason(client, root, token, data, status):
    response = send(client, token, data)
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["message"]
    assert str(root) not in response.text


@pytest.mark.usefixtures("reading_here")
def test_rows_before_a_wrong_one_stay_and_the_sender_is_told(client, root, token, monkeypatch):
    monkeypatch.setattr("ioweather.readers.segments._FIRST_ROWS", 1)
    body = send(client, token, segment(event(1), "no json", event(2))).json()
    assert body["status"] == "partial"
    assert body["rows"] == {"events": 1}
    assert events_in(root) == 1
    assert "line 3" in body["message"]
    assert str(root) not in body["message"]


def test_a_body_has_its_limit(client, root, token, monkeypatch):
    monkeypatch.setattr(receive, "LIMIT_BYTES", 1000)
    response = send(client, token, segment(*map(event, range(100))))
    assert response.status_code == 400
    assert "larger" in response.json()["error"]["message"]
    assert [path for path in (root / "queue").rglob("*") if path.is_file()] == []


# The sending half, against a server on loopback


@pytest.fixture
def cargo(tmp_path):
    spool = Spool(tmp_path / "spool", "n1", "r")
    for n in range(3):
        spool.add(event(n))
        spool.flush(n)
        spool.rotate(n, force=True)
    yield spool
    spool.close(9)


def test_an_agent_elsewhere_pushes_and_its_rows_are_in_once(cargo, server, root, token_file, tmp_path):
    files = cargo.closed_files()
    kept = {path: path.read_bytes() for path in files}
    shipper = Shipper(tmp_path / "nowhere", server=Server(server, token_file))
    shipper.start(files, 0)
    assert outcome(shipper) == Shipment(True, 3, 0, "")
    assert cargo.closed_files() == []
    assert events_in(root) == 3
    # The agent was killed before it deleted: the same again.
    for path, data in kept.items():
        path.write_bytes(data)
    shipper.start(cargo.closed_files(), 0)
    assert outcome(shipper).ok
    assert cargo.closed_files() == []
    assert events_in(root) == 3
    assert not (tmp_path / "nowhere").exists()


class LosesAnswers(http.server.BaseHTTPRequestHandler):
    """Hands on to the real server, and hangs up on the first sender before it hears the answer."""

    server_address = ""
    lost = 0

    def do_POST(self) -> None:
        import urllib.request

        data = self.rfile.read(int(self.headers["content-length"]))
        request = urllib.request.Request(self.server_address + self.path, data, dict(self.headers), method="POST")
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = response.read()
        if not type(self).lost:
            type(self).lost += 1
            self.connection.close()
            return
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def test_a_lost_answer_keeps_the_file_and_the_repeat_adds_nothing(cargo, server, root, token):
    LosesAnswers.server_address, LosesAnswers.lost = server, 0
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), LosesAnswers) as between:
        threading.Thread(target=between.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{between.server_address[1]}"
        files = cargo.closed_files()
        first = push(address, token, files)
        assert first.waiting == [str(path) for path in files]
        assert events_in(root) == 1  # it was taken; the sender does not know
        second = push(address, token, files)
        between.shutdown()
    assert (second.waiting, second.refused) == ([], [])
    assert events_in(root) == 3


def test_while_the_server_is_away_or_does_not_know_us_everything_waits(cargo, server, root, token_file, tmp_path):
    gone = bind("127.0.0.1", 0)
    away = f"http://127.0.0.1:{gone.getsockname()[1]}"
    gone.close()
    shipper = Shipper(tmp_path, every_ns=10, server=Server(away, token_file))
    shipper.start(cargo.closed_files(), 0)
    found = outcome(shipper)
    assert not found.ok
    assert "accepted 0 files" in found.message
    revoke_token(root, "n1")
    shipper.server = Server(server, token_file)
    shipper.start(cargo.closed_files(), 0)
    found = outcome(shipper)
    assert not found.ok
    assert "401" in found.message
    assert len(cargo.closed_files()) == 3
    assert not shipper.is_due(5)


def test_what_the_server_refuses_is_set_aside_and_the_rest_goes(cargo, server, root, token_file, tmp_path):
    files = cargo.closed_files()
    files[1].write_bytes(segment("no json"))
    shipper = Shipper(tmp_path, server=Server(server, token_file))
    shipper.start(files, 0)
    found = outcome(shipper)
    assert (found.ok, found.shipped, found.refused) == (True, 2, 1)
    assert [path.name for path in (tmp_path / "spool/refused").iterdir()] == [files[1].name]
    assert events_in(root) == 2


LARGE = 8 << 20  # more than sockets hold: the server answers while the sender sends


@pytest.fixture
def large(tmp_path):
    file = tmp_path / "seg-n1-1-1.ndjson"
    file.write_bytes(segment("x" * LARGE))
    return file


def test_a_refusal_is_heard_however_much_is_sent(server, root, large, token, monkeypatch):
    for _ in range(3):
        assert push(server, "wrong", [large]).message.startswith("401: A token known to this server")
    foreign = large.with_name("seg-n2-1-1.ndjson")
    foreign.write_bytes(segment("x" * LARGE, host="n2"))
    assert push(server, token, [foreign]).message.startswith("403: The token n1 is not for n2")
    monkeypatch.setattr(receive, "LIMIT_BYTES", 1000)
    assert "larger" in push(server, token, [large]).refused[0]["message"]


def test_who_sends_for_ever_is_cut_off(root, monkeypatch):
    monkeypatch.setattr("ioweather.ui.web.pushes.REST_BYTES", 1000)
    with running(create_app(root), bind("127.0.0.1", 0)) as where:
        host, port = where.removeprefix("http://").rstrip("/").split(":")
        with socket.create_connection((host, int(port))) as sender:
            sender.settimeout(30)
            sender.sendall(b"POST /api/v1/spool/n1/seg-1.ndjson HTTP/1.1\r\nhost: localhost\r\n"
                           b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n")  # fmt: skip
            with pytest.raises((BrokenPipeError, ConnectionResetError)):
                sender.sendall((b"10000\r\n" + bytes(0x10000) + b"\r\n") * 1000)


def test_the_token_goes_to_one_server_alone(token_file, tmp_path):
    with pytest.raises(IoweatherError, match="unencrypted"):
        settings_from({"push_url": "http://weather.example.org", "push_token_file": "/x"})
    with pytest.raises(IoweatherError, match="or neither"):
        settings_from({"push_url": "https://weather.example.org"})
    with pytest.raises(IoweatherError, match="not a server URL"):
        settings_from({"push_url": "weather", "push_token_file": "/x"})
    found = settings_from({"push_url": "https://weather.example.org/", "push_token_file": "/x"}).server
    assert found == Server("https://weather.example.org", Path("/x"))
    token_file.chmod(0o644)
    with pytest.raises(UsageError, match="Other users"):
        read_token(token_file)
    with pytest.raises(UsageError, match="Cannot read"):
        read_token(tmp_path / "none")


def test_a_redirect_is_not_followed(cargo, token):
    class Elsewhere(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(307)
            self.send_header("location", "http://127.0.0.1:1/")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as between:
        threading.Thread(target=between.serve_forever, daemon=True).start()
        sent = push(f"http://127.0.0.1:{between.server_address[1]}", token, cargo.closed_files())
        between.shutdown()
    assert len(sent.waiting) == 3
    assert "307" in sent.message


def test_a_full_queue_is_told_with_when_to_come_back(client, root, token, monkeypatch):
    monkeypatch.setattr("ioweather.ingestion.receive.MOST_FILES", 0)
    response = send(client, token, segment(event(1)))
    assert response.status_code == 503
    assert response.headers["retry-after"] == "20"
    assert response.json()["error"]["kind"] == "QueueFull"
    assert [path for path in (root / "queue").rglob("*") if path.is_file()] == []
