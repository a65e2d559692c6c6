"""A real Prometheus on loopback, and an exporter for it to scrape: counters that grow, with their truth."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path


def missing() -> str | None:
    return None if shutil.which("prometheus") else "prometheus is not installed (apt-get install prometheus)"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Exporter:
    """Counters of two targets and a job, larger at every scrape. What each scrape showed is kept."""

    def __init__(self) -> None:
        self.port = free_port()
        self.shown: list[dict[str, float]] = []
        self.counts: dict[str, float] = {}
        self._server: ThreadingHTTPServer | None = None

    def series(self) -> dict[str, float]:
        self.counts["n"] = n = self.counts.get("n", 0) + 1
        found = {}
        for number in range(2):
            labels = f'component="ost",target="fs1-OST000{number}"'
            found[f"lustre_read_bytes_total{{{labels}}}"] = n * n * 1_000_003 * (number + 1)
            found[f"lustre_write_bytes_total{{{labels}}}"] = n * 4096
            found[f"lustre_capacity_kilobytes{{{labels}}}"] = 1000 + number
        for operation, step in (("open", 3), ("close", 2), ("migrate", 5), ("ping", 7)):
            found[f'lustre_stats_total{{component="mdt",operation="{operation}",target="fs1-MDT0000"}}'] = n * step
        if n > 2:  # absent until first used
            labels = 'component="ost",jobid="4711",target="fs1-OST0000"'
            found[f"lustre_job_write_bytes_total{{{labels}}}"] = (n - 2) * 8192
            found[f"lustre_job_write_samples_total{{{labels}}}"] = n - 2
        return found

    def start(self) -> None:
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = exporter.series()
                exporter.shown.append(found)
                body = "".join(f"{key} {value:.0f}\n" for key, value in found.items()).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    def restart(self, *, counters: bool) -> None:
        """`counters`: the server behind it started again too."""
        self.stop()
        if counters:
            self.counts = {}
        time.sleep(3)
        self.start()

    def growth(self, key: str) -> float:
        """What the scrapes show that the counter grew by; from zero after a restart, and where it was not yet there."""
        values = [found.get(key, 0.0) for found in self.shown]
        return sum(later if later < earlier else later - earlier for earlier, later in pairwise(values))


@contextmanager
def prometheus_server(folder: Path, target: int, extra: str = "", options: tuple[str, ...] = ()) -> Iterator[str]:
    """Scrapes the target every second; gives its address."""
    port = free_port()
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s}\n"
        f"scrape_configs:\n  - job_name: lustre\n    static_configs: [{{targets: ['127.0.0.1:{target}']}}]\n{extra}"
    )
    process = subprocess.Popen(
        ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}",
         f"--web.listen-address=127.0.0.1:{port}", *options],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        address = f"http://127.0.0.1:{port}"
        wait_until(lambda: _is_ready(address), 30)
        yield address
    finally:
        process.terminate()
        process.wait(20)


def _is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/-/ready", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def wait_until(question, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.2)
