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
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from pathlib import Path
from socket import AF_INET6
from typing import Any, Final

from ioweather.agent.status import BUCKETS_NS, Status, find_problems, read_status, remote_agents
from ioweather.core.errors import IoweatherError, UsageError
from ioweather.core.safe_files import default_spool_dir, write_whole
from ioweather.core.units import NS

_KIND = ("target", "op", "request_bytes", "mode")
_MAX_HOSTS = 1024
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_BOUNDS = [f"{bound / NS:g}" for bound in BUCKETS_NS]
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


# Text of metrics, each with all its series.
Collect = Callable[[], Iterable[str]]


def _metric(name: str, text: str, kind: str, lines: Sequence[str]) -> str:
    """Return a metric in the text format of Prometheus; `kind` is gauge, counter or histogram."""
    return "\n".join((f"# HELP {name} {text}", f"# TYPE {name} {kind}", *lines, ""))


def gauge(name: str, text: str, value: float) -> str:
    """Return a gauge without labels."""
    return gauges(name, text, (), [((), value)])


def gauges(name: str, text: str, labels: Sequence[str], samples: Iterable[Any]) -> str:
    """Return a metric with a series for each (values of the labels, value); those of None are left out. It is a gauge,
    or a counter if its name ends so."""
    lines = [_line(name, dict(zip(labels, values)), value) for values, value in samples if value is not None]
    return _metric(name, text, "counter" if name.endswith("_total") else "gauge", lines)


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    """Return the line of a series."""
    inside = ",".join(f'{label}="{text.translate(_ESCAPES)}"' for label, text in labels.items())
    return f"{name}{{{inside}}} {float(value)!r}" if inside else f"{name} {float(value)!r}"


def render(
    directory: Path,
    now_ns: Callable[[], int] = time.time_ns,
    *,
    pushed_to: Path | None = None,
    others: Iterable[Collect] = (),
) -> bytes:
    """Return all metrics as text: of this host's agent, of agents that push to a lake, and of other collectors."""
    metrics = [text for collect in others for text in collect()]
    return "".join([*metrics, *_of_spool(directory, now_ns(), pushed_to)]).encode()


# Metrics by what they describe: name, help text, and the value; None is left out.
_Table = Sequence["tuple[str, str, Callable[[Any], float | None]]"]
_OF_REMOTE: _Table = (
    ("ioweather_remote_spool_bytes", "Bytes queued in the spool, as of the last report.", lambda s: s.spool.bytes),
    ("ioweather_remote_dropped_rows_total", "Rows dropped, as of the last report.", lambda s: s.spool.dropped_rows),
    ("ioweather_remote_troubles", "Number of problems in the last report.", lambda s: len(find_problems(s))),
)
_OF_AGENT: _Table = (
    ("ioweather_agent_start_time_seconds", "Start time of the agent, Unix time.", lambda s: s.started_ns / NS),
    ("ioweather_spool_bytes", "Bytes queued in the spool.", lambda s: s.spool.bytes),
    ("ioweather_spool_rows_total", "Rows written to the spool.", lambda s: s.spool.written_rows),
    ("ioweather_spool_dropped_rows_total", "Rows dropped: spool full or disk error.", lambda s: s.spool.dropped_rows),
    ("ioweather_ship_success", "Whether the last delivery succeeded.", lambda s: s.spool.last_ship_ok),
)
_OF_SOURCE: _Table = (
    ("ioweather_source_success", "Whether the last run succeeded.", lambda s: s.last_ok),
    ("ioweather_source_duration_seconds", "Duration of the last run.", lambda s: _seconds(s.last_duration_ns)),
    ("ioweather_source_missed_ticks_total", "Scheduled runs that did not start.", lambda s: s.missed_ticks),
)
_READY = ("waiting", "running", "hung")
_OF_TARGET: _Table = (
    ("ioweather_ticks_total", "Scheduled cycles.", lambda t: t.ticks),
    (
        "ioweather_missed_ticks_total",
        "Cycles skipped because the previous cycle was still running.",
        lambda t: t.missed_ticks,
    ),
    ("ioweather_target_ready", "Whether the probe files exist.", lambda t: t.state in _READY),
)
_OF_OPERATION: _Table = (
    ("ioweather_slowdown_ratio", "Median of the last minute, relative to the usual time.", lambda o: o.slowdown_ratio),
    ("ioweather_expected_seconds", "Usual response time (running median).", lambda o: _seconds(o.expected_ns)),
    ("ioweather_last_success_timestamp_seconds", "Last success, Unix time.", lambda o: _seconds(o.last_success_ns)),
)


def _seconds(value_ns: int | None) -> float | None:
    return None if value_ns is None else value_ns / NS


def _metrics(table: _Table, labels: Sequence[str], found: Sequence[tuple[Sequence[str], Any]]) -> Iterator[str]:
    """Yield a metric for each entry of the table, with a series for each object and its labels."""
    for name, text, value in table if found else ():
        yield gauges(name, text, labels, [(values, value(each)) for values, each in found])


def _of_spool(directory: Path, now: int, pushed_to: Path | None) -> Iterator[str]:
    """Metrics of the status at this moment, and of the agents of other hosts: whether they are alive, and whether their
    rows arrive. For an agent that is gone that it is gone, and no old values."""
    agents = remote_agents(pushed_to, now)[:_MAX_HOSTS]
    if agents:
        up = [((agent.host,), agent.life(now) == "running") for agent in agents]
        yield gauges("ioweather_remote_up", "Whether the agent on another host reports.", ("host",), up)
        age = [((agent.host,), max(0.0, (now - agent.heard_ns) / NS)) for agent in agents]
        yield gauges("ioweather_remote_heard_seconds", "Seconds since the last report.", ("host",), age)
    yield from _metrics(_OF_REMOTE, ("host",), [((agent.host,), agent) for agent in agents])
    try:
        status: Status | None = read_status(directory)
    except IoweatherError:
        status = None
    alive = status is not None and not status.is_stale(now)
    yield gauge("ioweather_up", "Whether an agent is running.", alive)
    if status is None:
        return
    last_ns = max(0.0, (now - status.written_ns) / NS)
    yield gauge("ioweather_status_age_seconds", "Seconds since the last status update.", last_ns)
    if alive:
        known = [((status.host, status.software_version), 1.0)]
        yield gauges("ioweather_agent_info", "Host and version of the agent.", ("host", "version"), known)
        yield from _metrics(_OF_AGENT, (), [((), status)])
        yield from _metrics(_OF_SOURCE, ("source",), [((source.name,), source) for source in status.other_sources])
        yield from _metrics(_OF_TARGET, ("target",), [((target.target,), target) for target in status.targets])
        yield from _of_operations(status, now)


def _of_operations(status: Status, now: int) -> Iterator[str]:
    """Response times by operation, failures, and the operations in flight."""
    found = [
        ((target.target, operation.op, str(operation.request_bytes), operation.mode), operation)
        for target in status.targets
        for operation in target.operations
    ]
    name = "ioweather_response_seconds"
    lines: list[str] = []
    # From 0 on, unlike the ones by errno: `increase` does not see a series that begins at 1.
    failed: Counter[tuple[str, ...]] = Counter()
    errors: Counter[tuple[str, ...]] = Counter()
    ages = {(target.target, "other"): 0.0 for target in status.targets}
    for values, operation in found:
        labels = dict(zip(_KIND, values))
        missing = len(_BOUNDS) + 1 - len(operation.bucket_counts)
        totals = list(accumulate((*operation.bucket_counts, *(0,) * missing)))
        lines += [_line(f"{name}_bucket", {**labels, "le": bound}, n) for bound, n in zip((*_BOUNDS, "+Inf"), totals)]
        lines += [_line(f"{name}_count", labels, totals[-1]), _line(f"{name}_sum", labels, operation.sum_ns / NS)]
        failed[values[:2]] += operation.error_count
        ages[values[:2]] = 0.0
        for error, count in operation.errors.items():
            errors[(*values[:2], error)] += count
    for target in status.targets:
        current = status.in_flight_age_ns(target, now)
        if target.in_flight is not None and current is not None:
            key = (target.target, target.in_flight.op)
            ages[key if key in ages else (target.target, "other")] = current / NS
    text = "Age of the operation in flight; 0 if idle."
    yield gauges("ioweather_in_flight_seconds", text, ("target", "op"), ages.items())
    yield _metric(name, "Response time of operations.", "histogram", lines)
    yield from _metrics(_OF_OPERATION, _KIND, found)
    yield gauges("ioweather_failed_operations_total", "Failed operations.", ("target", "op"), failed.items())
    yield gauges("ioweather_errors_total", "Failures by errno.", ("target", "op", "errno"), errors.items())


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
        raise UsageError("--once requires a file name.", hint="Add --textfile FILE.")
    directory = spool_dir or default_spool_dir()
    collect = partial(render, directory, pushed_to=lake, others=others)
    is_over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_over.set())
    if textfile is None:
        _serve(address, collect, directory, is_over)
        return
    while True:
        try:  # whole: node_exporter never reads half of it, as another user
            write_whole(textfile, collect(), 0o644)
        except OSError as error:
            raise UsageError(f"Cannot write {textfile}: {error.strerror}.") from None
        if once or is_over.wait(every_ns / NS):
            return


def _serve(address: tuple[str, int], collect: Callable[[], bytes], directory: Path, is_over: threading.Event) -> None:
    """Answer every request at the address with the metrics, until the event is set."""
    host, port = address

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer with the metrics, whatever the path."""
            body = collect()
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
            f"Cannot listen on {host}:{port}: {error.strerror}.", hint="Choose another port with --port."
        ) from None
    print(f"Metrics from {directory} at http://{host}:{port}/metrics", file=sys.stderr)
    log = logging.getLogger("ioweather.export")
    log.info("started: %s at %s:%d", directory, host, port)
    with server:
        while not is_over.is_set():
            server.handle_request()
    log.info("stopped")
