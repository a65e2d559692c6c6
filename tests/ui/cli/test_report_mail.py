"""`report --mail`: text and HTML arrive at a relay."""

from __future__ import annotations

import email
import email.policy
import socketserver
import threading
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest
from small_facility import make_small_lake

from ioweather.lake.lake import Lake

Call = Callable[..., tuple[int, str, str]]


class _Sink(socketserver.ThreadingTCPServer):
    """An SMTP server on loopback that keeps what it takes (RFC 5321), and refuses addresses at refused.example."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        self.taken: list[tuple[str, list[str], bytes]] = []
        super().__init__(("127.0.0.1", 0), _Session)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Session(socketserver.StreamRequestHandler):
    server: _Sink

    def handle(self) -> None:
        sender, to = "", list[str]()
        self._say("220 sink")
        while line := self.rfile.readline().decode().strip():
            verb = line.partition(" ")[0].upper()
            if verb == "MAIL":
                sender = line
            elif verb == "RCPT":
                if "refused.example" in line:
                    self._say("550 no such user")
                    continue
                to.append(line.partition("<")[2].partition(">")[0])
            elif verb == "DATA":
                self._say("354 go on")
                lines = iter(self.rfile.readline, b".\r\n")
                self.server.taken.append((sender, to, b"".join(each.removeprefix(b".") for each in lines)))
            elif verb == "QUIT":
                self._say("221 bye")
                return
            self._say("250 ok")

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made: Lake = make_small_lake(tmp_path_factory.mktemp("mail"))
    return made


@pytest.fixture
def sink() -> Iterator[_Sink]:
    with _Sink() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _parsed(data: bytes) -> EmailMessage:
    message = email.message_from_bytes(data, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    return message


def test_the_report_arrives_as_text_and_html(call: Call, lake: Lake, sink: _Sink, tmp_path: Path) -> None:
    out = tmp_path / "week.html"
    options = ["--for", "director", "--lake", lake.root, "--out", out, "--relay", sink.address]
    to = ["--mail", "head@site.example", "--mail", "ops@site.example", "--sender", "weather@site.example"]
    code, said, _ = call("report", *options, *to)
    assert code == 0
    assert "Sent the report to head@site.example, ops@site.example." in " ".join(said.split())
    ((_, recipients, data),) = sink.taken
    assert recipients == ["head@site.example", "ops@site.example"]
    message = _parsed(data)
    assert message["From"] == "weather@site.example"
    assert message["Subject"].startswith("Storage of ")
    text, html = (message.get_body(preferencelist=(kind,)) for kind in ("plain", "html"))
    assert text is not None
    assert html is not None
    lines = text.get_content().splitlines()
    assert max(map(len, lines)) <= 80
    first = next(line for line in lines[3:] if line)
    assert first[:40] in " ".join(html.get_content().split())
    assert "<script" not in html.get_content()
    (attached,) = message.iter_attachments()
    assert attached.get_filename() == "week.html"
    assert attached.get_content().replace("\r\n", "\n").strip() == out.read_text().strip()


def test_refusals_and_silence_are_errors(call: Call, lake: Lake, sink: _Sink, tmp_path: Path) -> None:
    common = ["report", "--for", "director", "--lake", lake.root, "--out", tmp_path / "r.html"]
    for options, words in (
        (["--mail", "a@refused.example", "--relay", sink.address], "did not accept the mail"),
        (["--mail", "not an address", "--relay", sink.address], "is not a mail address"),
        (["--mail", "a@b\nBcc: c@d", "--relay", sink.address], "is not a mail address"),
        (["--mail", "a@site.example", "--relay", "127.0.0.1:1"], "did not accept the mail"),
    ):
        code, _, error = call(*common, *options)
        assert code == 2
        assert words in " ".join(error.split())
    assert not sink.taken
