"""`ioweather up` as a person runs it: it measures, serves, ends, and leaves nothing of the probe behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from ioweather.lake.lake import open_lake


@pytest.fixture
def home(tmp_path):
    place = tmp_path / "work"
    place.mkdir()
    return place


@pytest.fixture
def start(home):
    """Starts `ioweather up` with folders of its own, and leaves none running."""
    base = home.parent
    kept = {k: v for k, v in os.environ.items() if not k.startswith("IOWEATHER") and k != "STATE_DIRECTORY"}
    environment = {
        **kept, "HOME": str(base), "XDG_DATA_HOME": str(base / "data"), "XDG_STATE_HOME": str(base / "state"),
        "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        open_lake(base / "data" / "ioweather" / "demo", create=True)  # else it would be made in the background
        command = [sys.executable, "-m", "ioweather", "up", "--port", "0", *arguments]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, cwd=home, env=environment, text=True, stdout=pipe, stderr=pipe))
        return started[-1]

    yield run
    for process in started:
        process.terminate()
        process.communicate(timeout=60)


def address_in(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "dashboard at http://127.0.0.1:" in line, line
    return line.split("dashboard at ")[1].strip()


def wait_for_files(home: Path, there: bool) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if any(home.iterdir()) == there:
            return True
        time.sleep(0.1)
    return False


def test_it_ends_by_itself_tells_first_times_at_once_and_the_rows_are_in_the_lake(home, start):
    process = start("--for", "5s")
    address = address_in(process)
    with urllib.request.urlopen(f"{address}api/v1/healthz", timeout=30) as response:
        assert response.status == 200
    time.sleep(1)
    with urllib.request.urlopen(address, timeout=30) as response:
        shown = response.read().decode()
        assert response.headers["refresh"] == "2"
    assert f"Measuring {home}" in shown
    assert "The first numbers appear here in" in shown
    demo = shown.split('">simulated facility</a>')[0].rsplit('href="', 1)[1]
    with urllib.request.urlopen(demo, timeout=30) as response:
        assert f'<a href="{address}">this machine</a>' in response.read().decode()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "First response times: read " in out
    assert out.index("First response times") < out.index("No baseline yet")
    assert not any(home.iterdir())
    with open_lake(home.parent / "data" / "ioweather" / "lake").snapshot() as snapshot:
        assert snapshot.tables()["responses"] > 0


def test_being_asked_to_stop_removes_the_probes_files(home, start):
    process = start()
    address_in(process)
    assert wait_for_files(home, True)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert not any(home.iterdir())


def test_even_when_killed_the_probe_stops_and_removes_its_files(home, start):
    process = start()
    address_in(process)
    assert wait_for_files(home, True)
    process.kill()
    process.communicate(timeout=60)
    assert wait_for_files(home, False)


def test_a_taken_port_is_said_before_anything_starts(home, start):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = start("--port", str(taken.getsockname()[1]))
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "Cannot listen" in err
    assert not any(home.iterdir())
