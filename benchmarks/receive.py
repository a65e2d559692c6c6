"""Agents that push to one server at a steady rate: what it takes, and whether every row arrives once.

    python benchmarks/receive.py [--rate 167] [--seconds 60] [--rows 64]

A real server over an empty lake, on loopback, in a process of its own. 167 pushes a second are those of 10,000 hosts
that push every minute, each the next segment of its own. Pushes begin at their times, whether or not the
server has answered earlier ones; the delay until the answer counts from then. At the end the rows of the lake are
compared with those that were accepted.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np

from ioweather.core.units import NS, now_ns
from ioweather.ingestion.queue import waiting
from ioweather.lake.lake import open_lake
from ioweather.ui.web.app import bind
from ioweather.ui.web.tokens import create_token

HOSTS = 10_000
CONNECTIONS = 24
TICKS = os.sysconf("SC_CLK_TCK")
DRAIN_SECONDS = 900


def segment(host: str, start_ns: int, rows: int) -> bytes:
    """Values of a host's block devices, two metrics each."""
    header = json.dumps({"ioweather_spool": 1, "host": host, "boot_id": "b", "run_id": "r"})
    same = {"table": "series", "interval_ns": 10 * NS, "component_kind": "device", "value": 4096.0, "quality": 0}
    lines = [header]
    for number in range(rows):
        name, metric = f"sd{number // 2 % 8}", ("read_bytes", "write_bytes")[number % 2]
        place = {"start_ns": start_ns + number // 16 * 10 * NS, "system": f"{host}:{name}", "component": name}
        lines.append(json.dumps({**same, **place, "metric": metric}))
    return "".join(f"{line}\n" for line in lines).encode()


def push(port: int, token: str, host: str, data: bytes, number: int = 0) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        headers = {"authorization": f"Bearer {token}", "connection": "close"}
        connection.request("POST", f"/api/v1/spool/{host}/seg-{host}-{number}.ndjson", data, headers)
        response = connection.getresponse()
        response.read()
        return response.status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def load(port: int, token: str, options: argparse.Namespace) -> tuple[Counter[int], list[float]]:
    """Answers and delays."""
    numbers, answers, delays = itertools.count(), Counter[int](), []
    began, base = time.monotonic(), now_ns() - 3600 * NS

    def send() -> None:
        while (number := next(numbers)) < options.rate * options.seconds:
            due = began + number / options.rate
            time.sleep(max(0.0, due - time.monotonic()))
            host = f"n{number % HOSTS}"
            data = segment(host, base + number // HOSTS * 60 * NS, options.rows)
            answers[push(port, token, host, data, number)] += 1
            delays.append(time.monotonic() - due)

    threads = [threading.Thread(target=send) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers, delays


def processor_seconds(pid: int) -> tuple[float, float]:
    """Of a process, and of its children that ended."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    own, children = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
    return own / TICKS, children / TICKS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rate", 167), ("seconds", 60), ("rows", 64)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "lake")
        open_lake(root, create=True)
        token = create_token(root, "all", "*")
        with bind("127.0.0.1", 0) as free:
            port = free.getsockname()[1]
        command = ["serve", "--lake", str(root), "--port", str(port), "--spool", f"{folder}/spool"]
        server = subprocess.Popen([sys.executable, "-m", "ioweather", *command], stdout=subprocess.DEVNULL)
        try:
            while push(port, token, "n", segment("n", now_ns(), 2)) != 200:
                time.sleep(0.2)
            began, before = time.monotonic(), processor_seconds(server.pid)
            answers, delays = load(port, token, options)
            took, left = time.monotonic() - began, waiting(root).files
            while waiting(root).files and time.monotonic() - began < took + DRAIN_SECONDS:
                time.sleep(0.5)
            drained = time.monotonic() - began - took
            time.sleep(1.0)
            front, writer = np.subtract(processor_seconds(server.pid), before)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
        with open_lake(root).snapshot() as lake:
            ((rows, distinct),) = lake.query(
                "SELECT count(*), count(DISTINCT (system, component, metric, start_ns)) FROM series"
            ).fetchall()
    accepted = answers[200]
    middle, high = (np.quantile(delays, part) for part in (0.5, 0.95))
    print(f"load average {os.getloadavg()[0]:.1f}; {sum(answers.values()):,} pushes of {options.rows} rows in "
          f"{took:.0f} s: {accepted / took:.0f} accepted a second; answers {dict(answers)}")  # fmt: skip
    print(f"until the answer: median {middle * 1e3:.0f} ms, p95 {high * 1e3:.0f} ms, most {max(delays):.1f} s")
    print(f"{left:,} waited at the end, and were written {drained:.0f} s later")
    print(f"processor time of a push: server {front / accepted * 1e3:.2f} ms, writer {writer / accepted * 1e3:.2f} ms")
    expected = accepted * options.rows + 2
    print(f"rows accepted {expected:,}, in the lake {rows:,}, of these distinct {distinct:,}")
    return 0 if rows == distinct == expected else 1


if __name__ == "__main__":
    sys.exit(main())
