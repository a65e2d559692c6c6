"""Prometheus metrics of a lake that receives: files in its queue, and what the last pass of `ingest --watch` did."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from ioweather.agent.exporter import Metric, gauge, gauges
from ioweather.core.outcomes import VerdictKind
from ioweather.ingestion.queue import Waiting, queue_dir, waiting
from ioweather.ingestion.watched import read_caught_up

_VERDICTS = get_args(VerdictKind)


def collect_queue(lake: Path, now_ns: Callable[[], int] = time.time_ns) -> Iterator[Metric]:
    """Read the queue and the state of the last pass."""
    now = now_ns()
    if queue_dir(lake).is_dir():
        yield from _of_queue(waiting(lake), now)
    yield from _of_verdicts(read_caught_up(lake).get("last", {}), now)


def _of_queue(found: Waiting, now: int) -> Iterator[Metric]:
    """Pushed files that are not in the lake yet."""
    yield gauge("ioweather_queue_files", "Files that were pushed and wait for the lake.", found.files)
    yield gauge("ioweather_queue_bytes", "Their size.", found.bytes)
    yield gauge("ioweather_queue_oldest_seconds", "Since the oldest of them came.", found.age_seconds(now))


def _of_verdicts(last: Mapping[str, Any], now: int) -> Iterator[Metric]:
    """Counts by verdict, never by job. As of the ends of the runs; by the last pass of `ioweather ingest --watch`."""
    kinds, made_ns = last.get("kinds_last_day"), last.get("made_ns")
    if not isinstance(kinds, dict) or not isinstance(made_ns, int):
        return
    counts = [((kind,), count if isinstance(count := kinds.get(kind, 0), int) else 0) for kind in _VERDICTS]
    yield gauges("ioweather_verdicts_last_day", "Runs that ended within a day, by verdict.", ("kind",), counts)
    yield gauge("ioweather_catch_up_age_seconds", "Since runs were last judged.", max(0.0, (now - made_ns) / 1e9))
    for name, text in (("left_verdicts", "Verdicts that are due."), ("left_files", "New files that were not read.")):
        if isinstance(last.get(name), int):
            yield gauge(f"ioweather_catch_up_{name}", text, float(last[name]))
