"""The dashboard of a large facility under 20 clients at once: a year of 64 OSTs at one minute, 31 million operations.

    python benchmarks/dashboard.py [--days 365] [--probe-days 60] [--clients 20] [--lake DIR]

A real server in a process of its own. Exhibits are made before the clients come, as they are in daily use. The peer is
Python's own file server with the same answers as files: what the clients and the machine allow at most. On a machine
that does other things too, the server's processor time per request says more than the clock.
"""

from __future__ import annotations

import argparse
import functools
import http.client
import http.server
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import numpy as np

from ioweather.core.clock import now_ns, utc_day
from ioweather.core.tables import TABLES
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.lake import layout
from ioweather.lake.delta_tables import make_table
from ioweather.lake.lake import Lake, open_lake
from ioweather.lake.maintenance import _write_seal
from ioweather.lake.table_files import DataFile, TableFiles
from ioweather.ui.web.requests import TOPICS, exhibits_of
from weather import fill, write_agent_status

NOW = ("/", "/static/app.js", "/static/app.css", "/figures.css", "/fragments/now", "/fragments/events")
LAST_DAY = now_ns() // DAY_NS - 1


def write_series(lake: Lake, days: int, targets: int) -> int:
    """Read and written bytes of every target and minute, each day one sorted file with its seal. All days are one that
    is made of random numbers, each louder or quieter: to make and to sort them all takes several times as long."""
    spec, root = TABLES["series"], layout.tables_dir(lake.root)
    table = make_table(root, spec)
    con = duckdb.connect()
    con.execute("SELECT setseed(0.5)")
    values = {
        "start_ns": f"m.range * {MINUTE_NS}", "interval_ns": f"{MINUTE_NS}::BIGINT", "system": "'scratch'",
        "component_kind": "'ost'", "component": "format('OST{:04x}', t.range)", "metric": "k.metric",
        "value": "exp(20 + 2 * random() + sin(m.range / 229.0)) * (1 + t.range / 64.0)", "quality": "0::BIGINT",
    }  # fmt: skip
    named = ", ".join(f"{values[c.name]} AS {c.name}" for c in spec.columns)
    con.execute(
        f"CREATE TABLE one_day AS SELECT {named}, 'lmt' AS source, '0-0' AS ingest_id FROM range(1440) m, "
        f"range({targets}) t, (VALUES ('read_bytes'), ('write_bytes')) k(metric) ORDER BY {', '.join(spec.order)}"
    )
    files = []
    for number in range(days):
        first = (LAST_DAY - days + 1 + number) * DAY_NS
        day = utc_day(first)
        path = f"day={day}/part-0.zstd.parquet"
        file = root / "series" / path
        file.parent.mkdir()
        moved = f"start_ns + {first} AS start_ns, round(value * {0.6 + number * 37 % 101 / 250}) AS value"
        con.execute(
            f"COPY (SELECT * REPLACE ({moved}) FROM one_day) TO '{file}' "
            f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {spec.group_rows})"
        )
        files.append(DataFile(path, file.stat().st_size, day, 1440 * targets * 2, "{}"))
        _write_seal(lake.root, con, TableFiles(spec, None, (str(file),)), day)
    table.add(files, ())
    return days * 1440 * targets * 2


def build(place: Path, days: int, targets: int, probe_days: int) -> None:
    started = time.perf_counter()
    lake = open_lake(place, create=True)
    (place / "facility.toml").write_text(
        'name = "large"\nzone = "UTC"\n[filesystem.scratch]\nlustre = ["scratch"]\nmounts = ["/scratch"]\n'
        "peak_bytes_per_s = 700e9\n"
    )
    rows = write_series(lake, days, targets)
    if probe_days:
        fill(lake, probe_days)
    print(f"built in {time.perf_counter() - started:.0f} s: {rows:,} samples, {probe_days * 6 * 86_400:,} operations")


class Running:
    """The server, and the processor time it used."""

    def __init__(self, lake: Path, spool: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        command = [sys.executable, "-m", "ioweather", "serve", "--lake", str(lake), "--spool", str(spool),
                   "--port", str(self.port)]  # fmt: skip
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while self.get("/healthz")[0] != 200:
            time.sleep(0.05)

    def get(self, path: str) -> tuple[int, bytes, float]:
        started = time.perf_counter()
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read()
            connection.close()
        except OSError:
            return 0, b"", 0.0
        return response.status, body, time.perf_counter() - started

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mib(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)


@contextmanager
def serving(lake: Path, spool: Path) -> Iterator[Running]:
    server = Running(lake, spool)
    try:
        yield server
    finally:
        server.stop()


def first_view(lake: Path, spool: Path) -> tuple[float, float]:
    """A server that has answered nobody yet: the page, its files, and its parts, as a browser asks for them. Seconds by
    the clock, and of the server's processor."""
    with serving(lake, spool) as server:
        started, used = time.perf_counter(), server.cpu_seconds()
        server.get(NOW[0])
        threads = [threading.Thread(target=server.get, args=(path,)) for path in NOW[1:]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - started, server.cpu_seconds() - used


def load(port: int, paths: Sequence[str], clients: int, rounds: int) -> list[float]:
    """Seconds of every request; each client has one connection and begins at another place of the list."""
    seconds: list[float] = []

    def client(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        for step in range(rounds):
            started = time.perf_counter()
            connection.request("GET", paths[(number + step) % len(paths)])
            response = connection.getresponse()
            response.read()
            assert response.status == 200, (response.status, paths[(number + step) % len(paths)])
            seconds.append(time.perf_counter() - started)
        connection.close()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seconds


class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nothing."""


def peer(answers: dict[str, bytes], clients: int, rounds: int, folder: Path) -> list[float]:
    for number, body in enumerate(answers.values()):
        (folder / str(number)).write_bytes(body)
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found = load(server.server_address[1], [f"/{n}" for n in range(len(answers))], clients, rounds)
        server.shutdown()
    return found


def climate_paths(server: Running) -> list[str]:
    ready = {item["id"] for item in json.loads(server.get("/api/v1/exhibits")[1])["exhibits"] if item["ready"]}
    climate = next(topic for topic in TOPICS if topic.slug == "climate")
    ids = [name for name in exhibits_of(climate) if name in ready]
    made = [(name, *server.get(f"/api/v1/exhibits/{name}")) for name in ids]
    ids = [name for name, status, _, _ in made if status == 200]
    print(f"{len(ids)} exhibits of Climate made in {sum(entry[3] for entry in made):.1f} s")
    return ["/climate", "/api/v1/exhibits", *(f"/api/v1/exhibits/{name}" for name in ids),
            *(f"/fragments/exhibits/{name}" for name in ids)]  # fmt: skip


def report(name: str, server: Running, paths: Sequence[str], clients: int, rounds: int, folder: Path) -> None:
    started = time.perf_counter()
    answers = {path: server.get(path)[1] for path in paths}  # drawn once
    warm = time.perf_counter() - started
    before = server.cpu_seconds()
    ours = np.array(load(server.port, paths, clients, rounds)) * 1000
    cpu_ms = (server.cpu_seconds() - before) * 1000 / len(ours)
    theirs = np.array(peer(answers, clients, rounds, folder)) * 1000
    p50, p95 = np.quantile(ours, [0.5, 0.95])
    peer50, peer95 = np.quantile(theirs, [0.5, 0.95])
    print(
        f"| {name} | {len(paths)} | {len(ours)} | {warm:.1f} | {p50:.0f} / {p95:.0f} | {peer50:.0f} / {peer95:.0f} "
        f"| {p95 / peer95:.1f} | {cpu_ms:.1f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--targets", type=int, default=64)
    parser.add_argument("--probe-days", type=int, default=60)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--lake", type=Path, help="Keep the lake here, or use the one that is here.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place, spool, files = (options.lake or Path(folder) / "lake"), Path(folder) / "spool", Path(folder) / "files"
        files.mkdir()
        if not place.exists():
            build(place, options.days, options.targets, options.probe_days)
        write_agent_status(spool, now_ns())
        print(f"load {os.getloadavg()[0]:.1f}")
        views = [first_view(place, spool) for _ in range(3)]
        print("first view of Now (goal 1.5 s): " + ", ".join(f"{a:.2f} s ({b:.2f} s CPU)" for a, b in views))
        with serving(place, spool) as server:
            climate = climate_paths(server)
            print("| page | addresses | requests | drawn, s | p50 / p95, ms (goal 200) | files | ratio | CPU, ms |")
            print("|---|---|---|---|---|---|---|---|")
            now = [*NOW, "/api/v1/now", "/api/v1/events"]
            report("Now", server, now, options.clients, options.rounds, files)
            report("Climate", server, climate, options.clients, options.rounds, files)
            print(f"server: {server.resident_mib():.0f} MiB")


if __name__ == "__main__":
    main()
