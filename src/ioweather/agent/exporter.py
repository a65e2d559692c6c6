"""From status.json to metrics: base units, labels from short closed lists, nothing invented for what is not known."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from ioweather.agent.journal import troubles
from ioweather.agent.remote import Remote, remote_agents
from ioweather.agent.status import BUCKETS_NS, OperationStatus, Status, TargetStatus, read_status
from ioweather.core.errors import IoweatherError

_KIND = ("target", "op", "request_bytes", "mode")
# More than anybody probes from one host; what comes after is left out and counted.
_MOST_TARGETS = 64
_MOST_OPERATIONS = 64
_MOST_HOSTS = 1024
_BOUNDS = [f"{bound / 1e9:g}" for bound in BUCKETS_NS]


class StatusCollector(Collector):
    """Reads the status at each scrape. Of an agent that is gone it tells that it is gone, and no old numbers."""

    def __init__(
        self, directory: Path, now_ns: Callable[[], int] = time.time_ns, *, pushed_to: Path | None = None
    ) -> None:
        self._directory = directory
        self._now_ns = now_ns
        self._pushed_to = pushed_to

    def collect(self) -> Iterator[Metric]:
        now = self._now_ns()
        yield from _of_remote(remote_agents(self._pushed_to, now)[:_MOST_HOSTS], now)
        try:
            status: Status | None = read_status(self._directory)
        except IoweatherError:
            status = None
        alive = status is not None and not status.is_stale(now)
        yield gauge("ioweather_up", "Whether an agent writes its status.", 1.0 if alive else 0.0)
        if status is None:
            return
        age = max(0.0, (now - status.written_ns) / 1e9)
        yield gauge("ioweather_status_age_seconds", "Since the agent last wrote its status.", age)
        if alive:
            yield from _of_agent(status)
            targets = status.targets[:_MOST_TARGETS]
            yield from _of_targets(status, targets, now)
            yield from _of_operations(targets)


def render(
    directory: Path,
    now_ns: Callable[[], int] = time.time_ns,
    *,
    pushed_to: Path | None = None,
    others: Iterable[Collector] = (),
) -> bytes:
    """All metrics as text: those of this host's agent, of agents that push to a lake, and of other collectors."""
    registry = CollectorRegistry()
    for collector in others:
        registry.register(collector)
    registry.register(StatusCollector(directory, now_ns, pushed_to=pushed_to))
    return generate_latest(registry)


def gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _of_remote(agents: Sequence[Remote], now: int) -> Iterator[Metric]:
    """Agents elsewhere: whether they are heard of, and whether their rows come. Their numbers are at their own
    exporters, or come of `--spool <lake>/inbox/HOST`."""
    if not agents:
        return
    names = ("host",)
    up = GaugeMetricFamily("ioweather_remote_up", "Whether the agent of another host is heard of.", labels=names)
    age = GaugeMetricFamily("ioweather_remote_heard_seconds", "Since it was last heard of.", labels=names)
    waiting = GaugeMetricFamily(
        "ioweather_remote_spool_bytes", "Bytes waiting in the spool, as last reported.", labels=names
    )
    dropped = CounterMetricFamily("ioweather_remote_dropped_rows", "Its rows that were given up.", labels=names)
    trouble = GaugeMetricFamily("ioweather_remote_troubles", "What it last told to be wrong, counted.", labels=names)
    for agent in agents:
        label = (agent.host,)
        up.add_metric(label, float(agent.state(now) == "running"))
        age.add_metric(label, max(0.0, (now - agent.heard_ns) / 1e9))
        if agent.status is not None:
            waiting.add_metric(label, agent.status.spool.bytes)
            dropped.add_metric(label, agent.status.spool.dropped_rows)
            trouble.add_metric(label, len(troubles(agent.status)))
    yield from (up, age, waiting, dropped, trouble)


def _of_agent(status: Status) -> Iterator[Metric]:
    info = GaugeMetricFamily("ioweather_agent_info", "What runs.", labels=("host", "version"))
    info.add_metric((status.host, status.software_version), 1.0)
    yield info
    yield gauge("ioweather_agent_start_time_seconds", "When the agent started, Unix time.", status.started_ns / 1e9)
    spool = status.spool
    yield gauge("ioweather_spool_bytes", "Rows that wait for the lake.", spool.bytes)
    yield CounterMetricFamily("ioweather_spool_rows", "Rows written to the spool.", value=spool.written_rows)
    dropped = "Rows given up: the spool was full, or its disk failed."
    yield CounterMetricFamily("ioweather_spool_dropped_rows", dropped, value=spool.dropped_rows)
    left_out = max(0, len(status.targets) - _MOST_TARGETS)
    yield gauge("ioweather_targets_left_out", "Targets beyond the limit of labels.", left_out)
    if spool.last_ship_ns is not None:
        yield gauge(
            "ioweather_ship_success", "Whether the lake took the last shipment.", float(bool(spool.last_ship_ok))
        )
    yield from _of_sources(status)


def _of_sources(status: Status) -> Iterator[Metric]:
    """Several probes are one source here; each has its own metrics as a target."""
    others = [source for source in status.sources if source.name not in ("probe", "sample")]
    success = GaugeMetricFamily("ioweather_source_success", "Whether the last run went well.", labels=("source",))
    lasted = GaugeMetricFamily("ioweather_source_duration_seconds", "Of the last run.", labels=("source",))
    missed = CounterMetricFamily("ioweather_source_missed_ticks", "Runs that did not begin.", labels=("source",))
    for source in others:
        if source.last_ok is not None:
            success.add_metric((source.name,), float(source.last_ok))
        if source.last_duration_ns is not None:
            lasted.add_metric((source.name,), source.last_duration_ns / 1e9)
        missed.add_metric((source.name,), source.missed_ticks)
    if others:
        yield from (success, lasted, missed)


def _of_targets(status: Status, targets: Iterable[TargetStatus], now: int) -> Iterator[Metric]:
    ticks = CounterMetricFamily("ioweather_ticks", "Cycles that were due.", labels=("target",))
    missed = CounterMetricFamily(
        "ioweather_missed_ticks", "Cycles that did not begin because the one before had not ended.", labels=("target",)
    )
    ready = GaugeMetricFamily("ioweather_target_ready", "Whether the probe has made its files.", labels=("target",))
    age = GaugeMetricFamily(
        "ioweather_in_flight_seconds", "Age of the operation in flight; 0 where there is none.", labels=("target", "op")
    )
    for target in targets:
        ticks.add_metric((target.target,), target.ticks)
        missed.add_metric((target.target,), target.missed_ticks)
        ready.add_metric((target.target,), float(target.state not in ("preparing", "failed", "stopped")))
        for op, seconds in _ages(status, target, now).items():
            age.add_metric((target.target, op), seconds)
    yield from (ticks, missed, ready, age)


def _ages(status: Status, target: TargetStatus, now: int) -> dict[str, float]:
    ages = dict.fromkeys((operation.op for operation in target.operations), 0.0)
    ages["other"] = 0.0
    current = status.in_flight_age_ns(target, now)
    if target.in_flight is not None and current is not None:
        ages[target.in_flight.op if target.in_flight.op in ages else "other"] = current / 1e9
    return ages


def _of_operations(targets: Iterable[TargetStatus]) -> Iterator[Metric]:
    histogram = HistogramMetricFamily("ioweather_response_seconds", "How long operations took.", labels=_KIND)
    slowdown = GaugeMetricFamily(
        "ioweather_slowdown_ratio", "Median of the last minute over the usual response time.", labels=_KIND
    )
    expected = GaugeMetricFamily(
        "ioweather_expected_seconds", "The usual response time: a running median.", labels=_KIND
    )
    success = GaugeMetricFamily(
        "ioweather_last_success_timestamp_seconds", "When an operation last succeeded, Unix time.", labels=_KIND
    )
    # From 0 on, unlike the ones by errno: `increase` does not see a series that begins at 1.
    failed = CounterMetricFamily("ioweather_failed_operations", "Operations that failed.", labels=("target", "op"))
    errors = CounterMetricFamily("ioweather_errors", "Failures by errno.", labels=("target", "op", "errno"))
    for target in targets:
        failures: dict[tuple[str, str], int] = {}
        totals = dict.fromkeys((operation.op for operation in target.operations), 0)
        for operation in target.operations[:_MOST_OPERATIONS]:
            labels = (target.target, operation.op, str(operation.request_bytes), operation.mode)
            _add_histogram(histogram, labels, operation)
            if operation.slowdown_ratio is not None:
                slowdown.add_metric(labels, operation.slowdown_ratio)
            if operation.expected_ns is not None:
                expected.add_metric(labels, operation.expected_ns / 1e9)
            if operation.last_success_ns is not None:
                success.add_metric(labels, operation.last_success_ns / 1e9)
            totals[operation.op] += operation.error_count
            for name, count in operation.errors.items():
                failures[operation.op, name] = failures.get((operation.op, name), 0) + count
        for op, count in totals.items():
            failed.add_metric((target.target, op), count)
        for (op, name), count in failures.items():
            errors.add_metric((target.target, op, name), count)
    yield from (histogram, slowdown, expected, success, failed, errors)


def _add_histogram(family: HistogramMetricFamily, labels: tuple[str, ...], operation: OperationStatus) -> None:
    totals = list(accumulate(operation.bucket_counts))  # Prometheus counts from below
    buckets = [*zip(_BOUNDS, totals, strict=False), ("+Inf", totals[-1])]
    family.add_metric(labels, buckets, sum_value=operation.sum_ns / 1e9)
