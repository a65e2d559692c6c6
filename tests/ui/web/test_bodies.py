"""Slow senders are cut off, and do not delay others."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, contextmanager

from ioweather.ui.web import pushes as receive
from pushed_segments import START_NS, post, segment


@contextmanager
def connected(server: str):
    host, port = server.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as made:
        yield made


def head(token: str, length: int = 1000) -> bytes:
    return (
        f"POST /api/v1/spool/n1/seg-n1-1-1.ndjson HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n"
        f"content-length: {length}\r\n\r\n"
    ).encode()


def test_a_body_that_does_not_come_is_told_and_closed(server, token, monkeypatch):
    monkeypatch.setattr(receive, "PART_SECONDS", 0.3)
    with connected(server) as slow:
        slow.sendall(head(token) + b"{")
        answer = b""
        while part := slow.recv(4096):  # to the end: it hangs up
            answer += part
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"SlowSender" in answer
    assert b"Only 1 bytes" in answer


def test_slow_senders_and_slow_uploads_do_not_keep_others_out(server, token):
    upload = (
        b"POST /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/octet-stream\r\n"
        b"content-length: 1000\r\n\r\nx"
    )
    with ExitStack() as stack:
        for first in [head(token) + b"{"] * 12 + [upload] * 8:
            stack.enter_context(connected(server)).sendall(first)
        time.sleep(0.2)
        assert post(server, token, "n1", "seg-n1-2-1.ndjson", segment("n1", [START_NS])) == 200
        with connected(server) as other:
            other.sendall(upload.replace(b"1000", b"1"))
            assert other.recv(4096).startswith(b"HTTP/1.1 422")  # looked at, and no log
