"""Metrics for Prometheus from status.json, over HTTP or as a file for node_exporter's textfile collector.

Base units, labels from short closed lists, and no value for what is unknown.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from pathlib import Path
from socket import AF_INET6
from typing import Any, Final

from ioweather.agent.status import BUCKETS_NS, Remote, Status, TargetStatus, find_problems, read_status, remote_agents
from ioweather.core.errors import IoweatherError, UsageError
from ioweather.core.safe_files import default_spool_dir, write_whole
from ioweather.core.units import NS

_KIND = ("target", "op", "request_bytes", "mode")
_MAX_HOSTS = 1024
_BOUNDS = [f"{bound / NS:g}" for bound in BUCKETS_NS]
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Metric:
    """A metric with all its series; `kind` is gauge, counter or histogram."""

    name: str
    text: str
    kind: str
    lines: Sequence[str]

    def __str__(self) -> str:
        return "\n".join((f"# HELP {self.name} {self.text}", f"# TYPE {self.name} {self.kind}", *self.lines, ""))


Collect = Callable[[], Iterable[Metric]]


def render_metrics(metrics: Iterable[Metric]) -> bytes:
    """Return metrics in the text format of Prometheus."""
    return "".join(map(str, metrics)).encode()


def gauge(name: str, text: str, value: float) -> Metric:
    """Return a gauge without labels."""
    return gauges(name, text, (), [((), value)])


def gauges(name: str, text: str, labels: Sequence[str], samples: Iterable[Any], kind: str = "gauge") -> Metric:
    """Return a gauge with a series for each (values of the labels, value); those of None are left out."""
    lines = [_line(name, dict(zip(labels, values)), value) for values, value in samples if value is not None]
    return Metric(name, text, kind, lines)


def _counters(name: str, text: str, labels: Sequence[str], samples: Iterable[Any]) -> Metric:
    return gauges(f"{name}_total", text, labels, samples, "counter")


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    escaped = {
        label: text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"") for label, text in labels.items()
    }
    inside = ",".join(f'{label}="{text}"' for label, text in escaped.items())
    return f"{name}{{{inside}}} {float(value)!r}" if inside else f"{name} {float(value)!r}"


def render(
    directory: Path,
    now_ns: Callable[[], int] = time.time_ns,
    *,
    pushed_to: Path | None = None,
    others: Iterable[Collect] = (),
) -> bytes:
    """Return all metrics as text: of this host's agent, of agents that push to a lake, and of other collectors."""
    collectors: list[Collect] = [*others, lambda: _of_spool(directory, now_ns(), pushed_to)]
    return render_metrics(metric for collect in collectors for metric in collect())


def _of_spool(directory: Path, now: int, pushed_to: Path | None) -> Iterator[Metric]:
    """Metrics of the status at this moment. For an agent that is gone that it is gone, and no old values."""
    yield from _of_remote(remote_agents(pushed_to, now)[:_MAX_HOSTS], now)
    try:
        status: Status | None = read_status(directory)
    except IoweatherError:
        status = None
    alive = status is not None and not status.is_stale(now)
    yield gauge("ioweather_up", "Whether an agent writes its status.", 1.0 if alive else 0.0)
    if status is None:
        return
    age = max(0.0, (now - status.written_ns) / NS)
    yield gauge("ioweather_status_age_seconds", "Since the agent last wrote its status.", age)
    if alive:
        yield from _of_agent(status)
        yield from _of_targets(status, now)
        yield from _of_operations(status.targets)


def _of_remote(agents: Sequence[Remote], now: int) -> Iterator[Metric]:
    """Agents of other hosts: whether they are alive, and whether their rows arrive. Other values are at their own
    exporters, or come with `--spool <lake>/inbox/HOST`."""
    if not agents:
        return
    label = ("host",)
    up = [((agent.host,), float(agent.state(now) == "running")) for agent in agents]
    yield gauges("ioweather_remote_up", "Whether the agent of another host is heard of.", label, up)
    age = [((agent.host,), max(0.0, (now - agent.heard_ns) / NS)) for agent in agents]
    yield gauges("ioweather_remote_heard_seconds", "Since it was last heard of.", label, age)
    known = [((agent.host,), agent.status) for agent in agents if agent.status is not None]
    waiting = [(host, status.spool.bytes) for host, status in known]
    text = "Bytes waiting in the spool, as last reported."
    yield gauges("ioweather_remote_spool_bytes", text, label, waiting)
    dropped = [(host, status.spool.dropped_rows) for host, status in known]
    yield _counters("ioweather_remote_dropped_rows", "Its rows that were given up.", label, dropped)
    wrong = [(host, len(find_problems(status))) for host, status in known]
    yield gauges("ioweather_remote_troubles", "Problems that it last reported, counted.", label, wrong)


def _of_agent(status: Status) -> Iterator[Metric]:
    """The agent itself, its spool, and its sources other than probes."""
    host_and_version = [((status.host, status.software_version), 1.0)]
    yield gauges("ioweather_agent_info", "What runs.", ("host", "version"), host_and_version)
    yield gauge("ioweather_agent_start_time_seconds", "When the agent started, Unix time.", status.started_ns / NS)
    spool = status.spool
    yield gauge("ioweather_spool_bytes", "Rows that wait for the lake.", spool.bytes)
    yield _counters("ioweather_spool_rows", "Rows written to the spool.", (), [((), spool.written_rows)])
    dropped = "Rows given up: the spool was full, or its disk failed."
    yield _counters("ioweather_spool_dropped_rows", dropped, (), [((), spool.dropped_rows)])
    if spool.last_ship_ns is not None:
        text = "Whether the lake took the last shipment."
        yield gauge("ioweather_ship_success", text, float(bool(spool.last_ship_ok)))
    others, label = [((source.name,), source) for source in status.other_sources], ("source",)
    if others:
        success = [(name, source.last_ok) for name, source in others]
        yield gauges("ioweather_source_success", "Whether the last run went well.", label, success)
        lasted = [(name, _seconds(source.last_duration_ns)) for name, source in others]
        yield gauges("ioweather_source_duration_seconds", "Of the last run.", label, lasted)
        missed = [(name, source.missed_ticks) for name, source in others]
        yield _counters("ioweather_source_missed_ticks", "Runs that did not begin.", label, missed)


def _seconds(value_ns: int | None) -> float | None:
    return None if value_ns is None else value_ns / NS


def _of_targets(status: Status, now: int) -> Iterator[Metric]:
    named, label = [((target.target,), target) for target in status.targets], ("target",)
    ticks = [(name, target.ticks) for name, target in named]
    yield _counters("ioweather_ticks", "Cycles that were due.", label, ticks)
    text = "Cycles that did not begin because the one before had not ended."
    yield _counters("ioweather_missed_ticks", text, label, [(name, target.missed_ticks) for name, target in named])
    ready = [(name, target.state not in ("preparing", "failed", "stopped")) for name, target in named]
    yield gauges("ioweather_target_ready", "Whether the probe has made its files.", label, ready)
    ages: dict[tuple[str, str], float] = {}
    for target in status.targets:
        ages |= {(target.target, op): 0.0 for op in (*(each.op for each in target.operations), "other")}
        current = status.in_flight_age_ns(target, now)
        if target.in_flight is not None and current is not None:
            op = target.in_flight.op if (target.target, target.in_flight.op) in ages else "other"
            ages[target.target, op] = current / NS
    text = "Age of the operation in flight; 0 where there is none."
    yield gauges("ioweather_in_flight_seconds", text, ("target", "op"), ages.items())


def _of_operations(targets: Sequence[TargetStatus]) -> Iterator[Metric]:
    found = [
        ((target.target, operation.op, str(operation.request_bytes), operation.mode), operation)
        for target in targets
        for operation in target.operations
    ]
    name = "ioweather_response_seconds"
    lines: list[str] = []
    for values, operation in found:
        labels = dict(zip(_KIND, values))
        missing = len(_BOUNDS) + 1 - len(operation.bucket_counts)
        totals = list(accumulate((*operation.bucket_counts, *(0,) * missing)))
        lines += [_line(f"{name}_bucket", {**labels, "le": bound}, n) for bound, n in zip((*_BOUNDS, "+Inf"), totals)]
        lines += [_line(f"{name}_count", labels, totals[-1]), _line(f"{name}_sum", labels, operation.sum_ns / NS)]
    yield Metric(name, "How long operations took.", "histogram", lines)
    text = "Median of the last minute over the usual response time."
    slowdown = [(labels, operation.slowdown_ratio) for labels, operation in found]
    yield gauges("ioweather_slowdown_ratio", text, _KIND, slowdown)
    text = "The usual response time: a running median."
    expected = [(labels, _seconds(operation.expected_ns)) for labels, operation in found]
    yield gauges("ioweather_expected_seconds", text, _KIND, expected)
    text = "When an operation last succeeded, Unix time."
    success = [(labels, _seconds(operation.last_success_ns)) for labels, operation in found]
    yield gauges("ioweather_last_success_timestamp_seconds", text, _KIND, success)
    # From 0 on, unlike the ones by errno: `increase` does not see a series that begins at 1.
    failed: Counter[tuple[str, ...]] = Counter()
    errors: Counter[tuple[str, ...]] = Counter()
    for (target_name, op, *_), operation in found:
        failed[target_name, op] += operation.error_count
        for name, count in operation.errors.items():
            errors[target_name, op, name] += count
    yield _counters("ioweather_failed_operations", "Operations that failed.", ("target", "op"), failed.items())
    yield _counters("ioweather_errors", "Failures by errno.", ("target", "op", "errno"), errors.items())


def export_metrics(
    spool_dir: Path | None,
    address: tuple[str, int],
    textfile: Path | None,
    every_ns: int,
    *,
    once: bool = False,
    lake: Path | None = None,
    others: Sequence[Collect] = (),
) -> None:
    """Serve the metrics of a spool, or write them to a file, until a signal arrives."""
    if once and textfile is None:
        raise UsageError("--once writes a file and needs its name.", hint="Give --textfile FILE.")
    directory, (host, port) = spool_dir or default_spool_dir(), address
    until = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: until.set())
    while textfile is not None:
        try:  # whole: node_exporter never reads half of it, as another user
            write_whole(textfile, render(directory, pushed_to=lake, others=others), 0o644)
        except OSError as error:
            raise UsageError(f"{textfile} cannot be written: {error.strerror}.") from None
        if once or until.wait(every_ns / NS):
            return

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = render(directory, pushed_to=lake, others=others)
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log no scrape."""

    class Server(ThreadingHTTPServer):
        address_family = AF_INET6 if ":" in host else ThreadingHTTPServer.address_family
        timeout = 0.5  # how long a signal waits

    try:
        server = Server(address, Handler)
    except OSError as error:
        raise UsageError(
            f"Cannot listen at {host}:{port}: {error.strerror}.", hint="Choose another with --port."
        ) from None
    print(f"Metrics of {directory} at http://{host}:{port}/metrics", file=sys.stderr)
    log = logging.getLogger("ioweather.export")
    log.info("started: %s at %s:%d", directory, host, port)
    with server:
        while not until.is_set():
            server.handle_request()
    log.info("stopped")
