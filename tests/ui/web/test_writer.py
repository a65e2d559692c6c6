"""The server and its writer: many senders at once, and deaths of either at any moment."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager, suppress

import pytest

from ioweather.core.units import NS
from ioweather.ingestion.queue import waiting
from ioweather.ui.web.app import bind, create_app, running
from ioweather.ui.web.tokens import create_token
from pushed_segments import START_NS, operations_in, post, segment
from shipments import finish_queue

# Each sender has operations of its own.
SPACE_NS = 1_000_000 * NS


class Senders:
    """Each pushes one segment after the other, again until it is accepted, as agents do."""

    def __init__(self, server: str, token: str, count: int, segments: int) -> None:
        self.truth: set[tuple[str, int]] = set()
        self.is_enough = False
        self._server, self._token, self._segments = server, token, segments
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(count)]

    def _send(self, number: int) -> None:
        host = f"n{number}"
        for turn in range(self._segments):
            if self.is_enough:
                return
            starts = [START_NS + number * SPACE_NS + (10 * turn + step) * NS for step in range(10)]
            data = segment(host, starts)
            while post(self._server, self._token, host, f"seg-{host}-{turn}-1.ndjson", data) != 200:
                time.sleep(0.2)
            self.truth |= {(host, start) for start in starts}

    def __enter__(self) -> Senders:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.join()

    @property
    def are_busy(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)


def assert_all_once(root, truth) -> None:
    finish_queue(root)
    found = operations_in(root)
    assert set(found) == truth
    assert set(found.values()) == {1}


def test_twenty_senders_and_readers_at_once(server, root):
    token = create_token(root, "all", "*")
    answers = []
    with Senders(server, token, count=20, segments=3) as senders:
        while senders.are_busy:
            with urllib.request.urlopen(f"{server}/api/v1/healthz", timeout=30) as response:
                answers.append(response.status)
            time.sleep(0.05)
    assert len(senders.truth) == 600
    assert set(answers) == {200}
    assert_all_once(root, senders.truth)


def test_a_writer_that_is_killed_is_started_again(root):
    token = create_token(root, "all", "*")
    app = create_app(root)
    with running(app, bind("127.0.0.1", 0)) as where:
        server = where.rstrip("/")
        with Senders(server, token, count=4, segments=2):
            while app.state.writer.pid is None:
                time.sleep(0.01)
            killed = app.state.writer.pid
            os.kill(killed, signal.SIGKILL)
        truth = {(f"n{n}", START_NS + n * SPACE_NS + step * NS) for n in range(4) for step in range(20)}
        assert_all_once(root, truth)
    assert app.state.writer.pid is None


@contextmanager
def served(root, port: int):
    """A server in a process of its own; it may be killed meanwhile."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ioweather", "serve", "--lake", str(root), "--port", str(port), "--spool",
         str(root.parent / "spool")], stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        for _ in range(600):
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5):
                break
            time.sleep(0.05)
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(60)


def writer_of(process: subprocess.Popen[bytes]) -> int | None:
    found = subprocess.run(
        ["pgrep", "-P", str(process.pid), "-f", "ioweather.ingestion.drain"], capture_output=True, check=False
    )
    return int(found.stdout.split()[0]) if found.stdout else None


@pytest.fixture
def port():
    with bind("127.0.0.1", 0) as free:
        return free.getsockname()[1]


@pytest.mark.slow
def test_thirty_deaths_of_server_and_writer_lose_and_double_nothing(root, port):
    token = create_token(root, "all", "*")
    chance = random.Random(7)
    kills = 0
    with Senders(f"http://127.0.0.1:{port}", token, count=6, segments=90_000) as senders:
        while kills < 30 and senders.are_busy:
            with served(root, port) as process:
                for _ in range(2):
                    time.sleep(chance.uniform(0.2, 3.0))
                    if (writer := writer_of(process)) is not None:
                        with suppress(ProcessLookupError):
                            os.kill(writer, signal.SIGKILL)
                        kills += 1
                time.sleep(chance.uniform(0.0, 2.0))
                process.kill()
                kills += 1
        senders.is_enough = True
        with served(root, port):
            while senders.are_busy:
                time.sleep(0.2)
    assert kills >= 30
    assert_all_once(root, senders.truth)
    assert not (root / "refused").exists()


@pytest.mark.slow
def test_sigterm_ends_it_soon_while_others_send_and_nothing_is_lost(root, port):
    token = create_token(root, "all", "*")
    with Senders(f"http://127.0.0.1:{port}", token, count=6, segments=30) as senders:
        with served(root, port) as process:
            time.sleep(2.0)
            process.terminate()
            started = time.monotonic()
            process.wait(60)
            took = time.monotonic() - started
        before = waiting(root).files
        assert waiting(root).files == before  # nobody writes any more
        with served(root, port):
            while senders.are_busy:
                time.sleep(0.2)
    assert took < 30
    assert_all_once(root, senders.truth)
