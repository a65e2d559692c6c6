"""A hundred agents that push to one server, and twenty people who read from it meanwhile.

    python benchmarks/senders.py [--senders 100] [--every 10] [--readers 20] [--seconds 150] [--wide-days 0]

A real server in a process of its own, over a lake with data. Every sender brings segments of its own operations and
devices, and waits when it is told to. At the end the rows of the lake are compared with those that were sent.
`--wide-days N` runs it again, in four parts: without, with, with and without segments whose 2,999 rows spread over N
days, one every ten seconds. In this order what grows with time, as the lake does, counts for both alike. The peer is
the same server with readers alone.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ioweather.agent.sensor import Operation, Origin, Timing, response_row
from ioweather.core.clock import now_ns
from ioweather.core.units import DAY_NS, NS
from ioweather.ingestion.queue import waiting
from ioweather.lake.lake import open_lake
from ioweather.lake.tokens import create_token
from ioweather.ui.web.app import bind

PAGES = (
    "/",
    "/fragments/now",
    "/api/v1/now",
    "/api/v1/jobs",
    "/fragments/events",
    "/api/v1/events",
    "/fragments/agents",
)
WIDE_ROWS = 2_999


@dataclass
class Counts:
    """Filled by many threads; appending to a list is atomic."""

    push_seconds: list[float] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    by_page: dict[str, list[float]] = field(default_factory=lambda: {page: [] for page in PAGES})
    most_waits: list[int] = field(default_factory=list)
    truth: list[tuple[str, int]] = field(default_factory=list)
    wide: list[tuple[int, float]] = field(default_factory=list)

    def add(self, other: Counts) -> None:
        for name in ("push_seconds", "answers", "reads", "most_waits", "truth", "wide"):
            getattr(self, name).extend(getattr(other, name))
        for page, seconds in other.by_page.items():
            self.by_page[page] += seconds


def line(table: str, row: dict[str, object]) -> str:
    return json.dumps({"table": table, **row})


def segment(host: str, rows: Sequence[str]) -> bytes:
    header = json.dumps({"ioweather_spool": 1, "host": host, "boot_id": "b", "run_id": "r"})
    return "".join(f"{text}\n" for text in (header, *rows)).encode()


def operations(host: str, starts_ns: Sequence[int]) -> list[str]:
    origin = Origin(host, "/scratch/p", "mount:/scratch", "r")
    return [
        line("responses", response_row(origin, Operation("read", 1 << 20, "nocache"), Timing(start, 7_000_000), NS))
        for start in starts_ns
    ]


def devices(host: str, start_ns: int) -> list[str]:
    return [
        line("series", {"start_ns": start_ns, "interval_ns": 10 * NS, "system": f"{host}:sd{letter}",
                        "component_kind": "device", "component": f"sd{letter}", "metric": metric, "value": 4096.0,
                        "quality": 0})
        for letter in "abcd"
        for metric in ("read_bytes", "write_bytes")
    ]  # fmt: skip


def request(port: int, method: str, path: str, token: str = "", data: bytes | None = None) -> tuple[int, float, float]:
    """Status, seconds, and when to come back."""
    started = time.perf_counter()
    headers = {"authorization": f"Bearer {token}", "connection": "close"} if token else {"connection": "close"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request(method, path, data, headers)
        response = connection.getresponse()
        response.read()
        return response.status, time.perf_counter() - started, float(response.getheader("retry-after") or 1)
    except (OSError, http.client.HTTPException):
        return 0, time.perf_counter() - started, 1.0
    finally:
        connection.close()


def send(port: int, token: str, host: str, until: float, every: float, offset: float, counts: Counts) -> None:
    """An operation a second and eight devices' values a period, in a segment a period."""
    turn = time.monotonic() + offset
    number = 0
    while turn < until:
        time.sleep(max(0.0, turn - time.monotonic()))
        number += 1
        base = now_ns() - int(every) * NS
        starts = [base + second * NS for second in range(int(every))]
        data = segment(host, operations(host, starts) + devices(host, base))
        waits = 0
        while True:
            status, seconds, after = request(port, "POST", f"/api/v1/spool/{host}/seg-{host}-{number}-1.ndjson", token,
                                             data)  # fmt: skip
            counts.answers.append(status)
            counts.push_seconds.append(seconds)
            if status == 200:
                counts.truth += [(host, start) for start in starts]
                break
            waits += 1
            time.sleep(after)
        counts.most_waits.append(waits)
        turn += every


def read(port: int, until: float, number: int, counts: Counts) -> None:
    while time.monotonic() < until:
        page = PAGES[number % len(PAGES)]
        status, seconds, _ = request(port, "GET", page)
        counts.reads.append(status)
        counts.by_page[page].append(seconds)
        number += 1
        time.sleep(0.5)


def send_wide(port: int, token: str, days: int, until: float, counts: Counts) -> None:
    number = 0
    while time.monotonic() < until:
        number += 1
        end = now_ns() - DAY_NS - number
        starts = [end - (row % days) * DAY_NS - row * NS for row in range(WIDE_ROWS)]
        data = segment("wide", operations("wide", starts))
        status, seconds, _ = request(port, "POST", f"/api/v1/spool/wide/seg-wide-{number}-1.ndjson", token, data)
        counts.wide.append((status, seconds))
        if status == 200:
            counts.truth += [("wide", start) for start in starts]
        time.sleep(10.0)


def run(port: int, token: str, options: argparse.Namespace, senders: int, wide_days: int) -> Counts:
    counts = Counts()
    until = time.monotonic() + options.seconds
    threads = [
        threading.Thread(target=send, args=(port, token, f"n{i}", until, options.every, i * options.every / senders,
                                            counts))
        for i in range(senders)
    ]  # fmt: skip
    threads += [threading.Thread(target=read, args=(port, until, i, counts)) for i in range(options.readers)]
    if wide_days:
        threads.append(threading.Thread(target=send_wide, args=(port, token, wide_days, until, counts)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts


def percentile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] if values else float("nan")


def tell(name: str, counts: Counts) -> None:
    load = os.getloadavg()[0]
    print(f"{name} (load average {load:.1f}):")
    read_seconds = [seconds for page in PAGES for seconds in counts.by_page[page]]
    for what, seconds, answers in (("pushes", counts.push_seconds, counts.answers),
                                   ("reads", read_seconds, counts.reads)):  # fmt: skip
        if seconds:
            print(f"  {what}: {len(seconds):,}; median {statistics.median(seconds) * 1e3:.0f} ms, p95 "
                  f"{percentile(seconds, 0.95) * 1e3:.0f} ms, most {max(seconds) * 1e3:.0f} ms; answers "
                  f"{dict(Counter(answers))}")  # fmt: skip
    print("  p95 by page:", ", ".join(f"{page} {percentile(seconds, 0.95) * 1e3:.0f} ms"
                                      for page, seconds in counts.by_page.items()))  # fmt: skip
    if counts.most_waits:
        print(f"  told to wait at most {max(counts.most_waits)} times for one segment")
    if counts.wide:
        print(f"  wide segments: {dict(Counter(status for status, _ in counts.wide))}, at most "
              f"{max(seconds for _, seconds in counts.wide):.2f} s")  # fmt: skip


def compare(root: Path, truth: Sequence[tuple[str, int]]) -> bool:
    """Every operation that was accepted is in the lake, and once."""
    with open_lake(root).snapshot() as snapshot:
        found = Counter(snapshot.query("SELECT host, start_ns FROM responses WHERE host <> 'before'").fetchall())
    wanted = set(truth)
    lost, doubled = wanted - set(found), [key for key, n in found.items() if n > 1]
    print(f"  {len(wanted):,} operations sent: {len(lost):,} lost, {len(doubled):,} doubled, "
          f"{len(set(found) - wanted):,} that nobody sent")  # fmt: skip
    return not lost and not doubled and set(found) == wanted


def finish(root: Path, process: subprocess.Popen[bytes]) -> None:
    started = time.monotonic()
    longest = waiting(root)
    while waiting(root).files and time.monotonic() - started < 600:
        time.sleep(0.2)
    print(f"  {longest.files:,} files waited when the last was sent; written {time.monotonic() - started:.1f} s later")
    children = subprocess.run(["ps", "-o", "rss=,nlwp=,args=", "--ppid", str(process.pid)], capture_output=True,
                              text=True, check=False).stdout  # fmt: skip
    for text in children.splitlines():
        if "drain" in text:
            rss, threads, _ = text.split(maxsplit=2)
            print(f"  the writer holds {int(rss) / 1024:.0f} MiB in {threads} threads")


def build(root: Path) -> None:
    """A month of an operation every ten seconds, from a host that does not push."""
    spool = root.parent / "before.ndjson"
    end = now_ns() - DAY_NS
    spool.write_bytes(segment("before", operations("before", [end - n * 10 * NS for n in range(30 * 8640)])))
    subprocess.run([sys.executable, "-m", "ioweather", "ingest", str(spool), "--lake", str(root)], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip


def compare_wide(port: int, token: str, options: argparse.Namespace, counts: Counts) -> None:
    half = argparse.Namespace(**{**vars(options), "seconds": options.seconds // 2})
    without, beside = Counts(), Counts()
    for part, days in ((without, 0), (beside, options.wide_days), (beside, options.wide_days), (without, 0)):
        part.add(run(port, token, half, options.senders, days))
    tell("with senders, before and after the next", without)
    tell(f"with senders, and segments of {options.wide_days:,} days", beside)
    counts.truth += without.truth + beside.truth


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("senders", 100), ("readers", 20), ("seconds", 150), ("every", 10), ("wide-days", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "lake")
        open_lake(root, create=True)
        build(root)
        token = create_token(root, "all", "*")
        with bind("127.0.0.1", 0) as free:
            port = free.getsockname()[1]
        process = subprocess.Popen([sys.executable, "-m", "ioweather", "serve", "--lake", str(root), "--port",
                                    str(port), "--spool", f"{folder}/spool"])  # fmt: skip
        try:
            while request(port, "GET", "/healthz")[0] != 200:
                time.sleep(0.1)
            for path in PAGES:
                request(port, "GET", path)
            quiet = argparse.Namespace(**{**vars(options), "seconds": max(5, options.seconds // 5)})
            tell("readers alone", run(port, token, quiet, 0, 0))
            counts = run(port, token, options, options.senders, 0)
            tell("with senders", counts)
            finish(root, process)
            if options.wide_days:
                compare_wide(port, token, options, counts)
                finish(root, process)
        finally:
            process.send_signal(signal.SIGTERM)
            started = time.monotonic()
            process.wait(30)
            print(f"  the server stopped in {time.monotonic() - started:.1f} s")
        return 0 if compare(root, counts.truth) else 1


if __name__ == "__main__":
    sys.exit(main())
