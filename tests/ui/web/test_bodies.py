"""Slow senders and idle connections are cut off, and cost nobody else."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, contextmanager

import pytest

from ioweather.ui.web import app
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
    monkeypatch.setattr(receive, "GRACE_SECONDS", 0.3)
    with connected(server) as slow:
        slow.sendall(head(token) + b"{")
        answer = b""
        while part := slow.recv(4096):  # to the end: it hangs up
            answer += part
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"SlowSender" in answer
    assert b"Only 1 bytes" in answer


def test_a_slow_body_that_goes_on_has_its_time(server, token, monkeypatch):
    monkeypatch.setattr(receive, "GRACE_SECONDS", 0.5)
    monkeypatch.setattr(receive, "LEAST_BYTES_PER_SECOND", 100)
    data = segment("n1", [START_NS])
    with connected(server) as slow:
        slow.sendall(head(token, len(data)))
        for first in range(0, len(data), 60):
            slow.sendall(data[first : first + 60])
            time.sleep(0.2)
        assert slow.recv(4096).startswith(b"HTTP/1.1 200")


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


def test_the_slowest_make_room(server, token, monkeypatch):
    monkeypatch.setattr(receive, "MOST_AT_ONCE", 3)
    monkeypatch.setattr(receive, "_NEW_SECONDS", 0.1)
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(server)) for _ in range(3)]
        for number, one in enumerate(slow):
            one.sendall(head(token) + b"x" * (1 + 10 * number))
        time.sleep(0.5)
        assert post(server, token, "n1", "seg-n1-2-1.ndjson", segment("n1", [START_NS])) == 200
        assert slow[0].recv(4096).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "begun", [b"", b"GET / HTTP/1.1\r\nhost: lo", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"]
)
def test_a_connection_asks_in_time_or_is_closed(server, monkeypatch, begun):
    monkeypatch.setattr(app, "HEAD_SECONDS", 0.4)
    with connected(server) as idle:
        idle.sendall(begun)
        if begun.endswith(b"\r\n\r\n"):  # answered; then half of another request
            assert idle.recv(4096).startswith(b"HTTP/1.1 200")
            idle.sendall(b"GET")
        assert is_closed_while_it_drips(idle, b"x" if begun else b"")


def is_closed_while_it_drips(connection: socket.socket, drop: bytes) -> bool:
    connection.settimeout(0.05)
    for _ in range(200):
        try:
            connection.sendall(drop)
            if not connection.recv(10):
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def test_idle_connections_make_room_for_others(server, token, monkeypatch):
    monkeypatch.setattr(app, "MOST_CONNECTIONS", 20)
    with ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(connected(server)).sendall(b"GET / HT")
        time.sleep(0.2)
        assert post(server, token, "n1", "seg-n1-2-1.ndjson", segment("n1", [START_NS])) == 200
