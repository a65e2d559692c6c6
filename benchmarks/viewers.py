"""People at the dashboard: 20 of them, each asking for one page a second, the job's page among them.

    python benchmarks/viewers.py [--lake DEMO] [--clients 20] [--seconds 30]

A real server in a process of its own, and the people in another one, whose processor time is told too. Pages are warm:
each was asked for once. At the end the server is asked to stop while all go on asking.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
# Every kind of page and what it loads; `JOB` is a job of the lake.
JOB_PAGE = ("/jobs/JOB", "/fragments/jobs/JOB")
PARTS = [
    "jobs/JOB/evidence",
    "summary",
    "weather",
    "filesystems",
    "slowest",
    "problems",
    "now",
    "storage_home",
    "runs",
    "lake",
    "agents",
]
WHOLE = ("", "jobs", "storage", "events", "claims", "exhibits/car11.fig7", "climate", "data", "sql")
PAGES = (
    *JOB_PAGE,
    *(f"/fragments/{name}" for name in PARTS),
    *(f"/{name}" for name in WHOLE),
    *("/api/v1/jobs/JOB", "/figures.css", "/static/app.js"),
)


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


def newest_job(lake: Path) -> str:
    asked = [sys.executable, "-m", "ioweather", "sql", "SELECT max(job_id) AS job FROM applications", "--lake", lake]
    found = subprocess.run([*asked, "--json"], capture_output=True, text=True, check=True)
    return str(json.loads(found.stdout)[0]["job"])


def people(port: int, clients: int, seconds: float, paths: list[str]) -> None:
    """Prints [path, status, seconds] of every request, and the processor seconds of all."""
    done: list[tuple[str, int, float]] = []
    until = time.perf_counter() + seconds

    def person(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        time.sleep(number / clients)
        turn = number
        while (began := time.perf_counter()) < until:
            path = paths[turn % len(paths)]
            try:
                connection.request("GET", path)
                response = connection.getresponse()
                response.read()
                done.append((path, response.status, time.perf_counter() - began))
            except OSError:
                done.append((path, 0, time.perf_counter() - began))
                return
            turn += 1
            time.sleep(max(0.0, 1.0 - (time.perf_counter() - began)))

    threads = [threading.Thread(target=person, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"requests": done, "cpu": used.ru_utime + used.ru_stime}))


def ask_all(server: Running, clients: int, seconds: float, paths: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--people", str(server.port), "--clients", str(clients)]
    return subprocess.Popen(
        [*command, "--seconds", str(seconds), "--paths", json.dumps(paths)], stdout=subprocess.PIPE, text=True
    )


def cpu_of(server: Running, paths: list[str]) -> tuple[float, float]:
    """Processor seconds, and seconds by the clock, of answering all, one after the other."""
    before = server.cpu_seconds()
    taken = [server.get(path)[2] for path in paths]
    return server.cpu_seconds() - before, sum(taken)


def measure(lake: Path, job: str, clients: int, seconds: float) -> dict[str, float]:
    """`first_view`: processor seconds of the job's page, after another job's, and `again` its milliseconds; `evidence`:
    those of what is below its first screens; `p50`, `p95` in ms; `server_cpu` and `people_cpu`: of a request, in ms;
    `stopped`: seconds from SIGTERM to the end."""
    paths = [page.replace("JOB", job) for page in PAGES]
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as spool, serving(lake, Path(spool)) as server:
        other = str(int(job) - 1)
        seen = [[page.replace("JOB", name) for page in JOB_PAGE] for name in (other, job, job)]
        used = [cpu_of(server, pages) for pages in seen]
        found["first_view"], found["again"] = used[1][0], used[2][1] * 1000
        found["evidence"] = cpu_of(server, [f"/fragments/jobs/{job}/evidence"])[0]
        for path in paths:
            status = server.get(path)[0]
            assert status == 200, (path, status)
        before = server.cpu_seconds()
        said = ask_all(server, clients, seconds, paths).communicate()[0]
        told = json.loads(said)
        requests = told["requests"]
        assert all(status == 200 for _, status, _ in requests), [each for each in requests if each[1] != 200][:3]
        found["server_cpu"] = (server.cpu_seconds() - before) * 1000 / len(requests)
        found["people_cpu"] = told["cpu"] * 1000 / len(requests)
        milliseconds = np.array([taken for _, _, taken in requests]) * 1000
        found["requests"] = len(requests)
        found["p50"], found["p95"] = np.quantile(milliseconds, [0.5, 0.95])
        for path in paths:
            own = [taken * 1000 for each, _, taken in requests if each == path]
            print(f"  {path}: {len(own)} requests, p95 {np.quantile(own, 0.95):.0f} ms", file=sys.stderr)
        going_on = ask_all(server, clients, 10, paths)
        time.sleep(3)
        began = time.perf_counter()
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(60)
        found["stopped"] = time.perf_counter() - began
        going_on.communicate()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lake", type=Path, help="A lake with runs (default: the demonstration).")
    parser.add_argument("--job", help="A job in it (default: the newest).")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--people", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--paths", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.people:
        people(options.people, options.clients, options.seconds, options.paths)
        return
    with tempfile.TemporaryDirectory() as folder:
        lake = options.lake
        if lake is None:
            lake = Path(folder) / "demo"
            made = [sys.executable, "-m", "ioweather", "demo", "--out", lake]
            subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
        found = measure(lake, options.job or newest_job(lake), options.clients, options.seconds)
    print(
        f"first view of a job: {found['first_view']:.2f} s of processor time, below its first screens "
        f"{found['evidence']:.2f} s; again {found['again']:.0f} ms"
    )
    print(
        f"{options.clients} people, {found['requests']:.0f} requests: p50 {found['p50']:.0f}, p95 {found['p95']:.0f} ms"
        f"; processor time of a request {found['server_cpu']:.1f} ms, of asking {found['people_cpu']:.1f} ms; "
        f"load {os.getloadavg()[0]:.1f}"
    )
    print(f"stopped {found['stopped']:.2f} s after SIGTERM, while all went on asking")


if __name__ == "__main__":
    main()
