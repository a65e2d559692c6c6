"""Statistics of the operations of a target: counts, last result, last minute, and the live baseline.

The baseline is a running median of all durations that survives a restart. Durations are counted in bins 2% wide, so
that the median is exact to 1%. When the count exceeds a limit all bins are halved: older operations fade out, and the
baseline follows the storage.
"""

from __future__ import annotations

import bisect
import errno
import json
import math
import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from ioweather.agent.sensor import Operation
from ioweather.agent.status import BUCKETS_NS, OperationStatus, Outcome, Recent
from ioweather.core.safe_files import PrivateDirectory
from ioweather.core.units import MINUTE_NS

_LOG_WIDTH = math.log(1.02)
_MIN_COUNT = 30  # fewer operations do not show what is slow
_MAX_COUNT = 30 * 86_400  # a month of one a second (kun19 section 3.3 takes the median of the whole period)
_FILE = "baseline.json"
_VERSION = 1
_MAX_RECENT = 4096


class RunningMedian:
    """A histogram of durations with logarithmic bins."""

    def __init__(self, bins: Mapping[int, int] | None = None) -> None:
        self.bins = dict(bins or {})
        self.count = sum(self.bins.values())

    def add(self, duration_ns: int) -> None:
        """Count a duration."""
        place = math.floor(math.log(max(1, duration_ns)) / _LOG_WIDTH)
        self.bins[place] = self.bins.get(place, 0) + 1
        self.count += 1
        if self.count > _MAX_COUNT:
            self.bins = {place: count // 2 for place, count in self.bins.items() if count > 1}
            self.count = sum(self.bins.values())

    def median_ns(self) -> int | None:
        """Return the middle of the median's bin; None while there are too few operations."""
        if self.count < _MIN_COUNT:
            return None
        places = sorted(self.bins)
        sums = list(accumulate(self.bins[place] for place in places))
        middle = places[bisect.bisect_left(sums, self.count / 2)]
        return round(math.exp((middle + 0.5) * _LOG_WIDTH))


class ObservedOperation:
    """Statistics of one kind of operation on one target since the agent started."""

    def __init__(self, kind: Operation, baseline: RunningMedian) -> None:
        self.baseline = baseline
        self._status = OperationStatus(*kind)
        self._buckets = [0] * (len(BUCKETS_NS) + 1)
        self._recent: deque[tuple[int, int]] = deque(maxlen=_MAX_RECENT)

    def add(self, row: Mapping[str, Any], now_ns: int) -> None:
        """Add a row of `responses`. `now_ns` is monotonic: the last minute does not depend on the wall clock."""
        found, status, duration = self._status, row["status"], row["duration_ns"]
        found.last = Outcome(row["start_ns"], status, row["scheduled_ns"], duration, row["errno"], row["cached"])
        if status == "missed":
            found.missed_count += 1
        elif status == "error":
            number = row["errno"]
            name = "short" if number is None else errno.errorcode.get(number, str(number))
            found.error_count += 1
            found.errors = {**found.errors, name: found.errors.get(name, 0) + 1}
        elif status == "ok":
            found.ok_count += 1
            found.last_success_ns = row["start_ns"] + duration
            found.sum_ns += duration
            self._buckets[bisect.bisect_left(BUCKETS_NS, duration)] += 1
            self._recent.append((now_ns, duration))
            self.baseline.add(duration)

    def status(self, now_ns: int) -> OperationStatus:
        """Return the statistics for status.json."""
        while self._recent and self._recent[0][0] < now_ns - MINUTE_NS:
            self._recent.popleft()
        recent, last = Recent(MINUTE_NS), [duration for _, duration in self._recent]
        if last:
            deciles = statistics.quantiles(last * 2 if len(last) == 1 else last, n=10, method="inclusive")
            recent = Recent(MINUTE_NS, len(last), round(deciles[4]), round(deciles[8]), max(last))
        return replace(
            self._status,
            expected_ns=self.baseline.median_ns(),
            expected_count=self.baseline.count,
            recent=recent,
            bucket_counts=tuple(self._buckets),
        )


Key = tuple[str, Operation]


def save_baselines(medians: Mapping[Key, RunningMedian], folder: PrivateDirectory) -> None:
    """Write baseline.json."""
    entries = [{"target": target, **kind._asdict(), "bins": median.bins} for (target, kind), median in medians.items()]
    folder.replace(_FILE, json.dumps({"version": _VERSION, "entries": entries}).encode())


def load_baselines(directory: Path) -> dict[Key, RunningMedian]:
    """Return the baselines of earlier agents; none if the file cannot be used, and they are learned again."""
    try:
        data = json.loads((directory / _FILE).read_text(encoding="utf-8"))
        if data["version"] != _VERSION:
            return {}
        return {
            (entry["target"], Operation(entry["op"], entry["request_bytes"], entry["mode"])): RunningMedian(
                {int(place): int(count) for place, count in entry["bins"].items()}
            )
            for entry in data["entries"]
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}
