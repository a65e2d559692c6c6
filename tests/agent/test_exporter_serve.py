"""The two ways out: HTTP and a file."""

from __future__ import annotations

import socket
import threading
import time
import urllib.request

import pytest

from ioweather.agent.exporter import serve, write_textfile
from ioweather.core.errors import UsageError


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_over_http(tmp_path):
    until, port = threading.Event(), free_port()
    thread = threading.Thread(target=serve, args=(tmp_path, "127.0.0.1", port, until))
    thread.start()
    try:
        for _ in range(200):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                    text = answer.read().decode()
                break
            except OSError:
                time.sleep(0.02)
        assert "ioweather_up 0.0" in text
        with pytest.raises(UsageError, match="--port"):
            serve(tmp_path, "127.0.0.1", port, until)
    finally:
        until.set()
        thread.join()


def test_as_a_file(tmp_path):
    file = tmp_path / "out" / "ioweather.prom"
    with pytest.raises(UsageError, match="cannot be written"):
        write_textfile(tmp_path, file)
    file.parent.mkdir()
    write_textfile(tmp_path, file)
    assert "ioweather_up 0.0" in file.read_text()
    assert [path.name for path in file.parent.iterdir()] == ["ioweather.prom"]
