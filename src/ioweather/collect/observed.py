"""What the agent knows of the operations of one target: counts, the last result, the last minute, the baseline."""

from __future__ import annotations

import bisect
import errno
from collections import Counter, deque
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from ioweather.collect.baseline import RunningMedian
from ioweather.collect.status import BUCKETS_NS, OperationStatus, Outcome, Recent
from ioweather.core.units import MINUTE_NS
from ioweather.sources.live.contract import Operation

_WINDOW_NS = MINUTE_NS
_MOST_RECENT = 4096
_OUTCOME = itemgetter("start_ns", "status", "scheduled_ns", "duration_ns", "errno", "cached")


class ObservedOperation:
    def __init__(self, kind: Operation, baseline: RunningMedian) -> None:
        self.kind = kind
        self.baseline = baseline
        self._counts: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._buckets = [0] * (len(BUCKETS_NS) + 1)
        self._highest_bucket = -1
        self._sum_ns = 0
        self._recent: deque[tuple[int, int]] = deque()
        self._ordered: list[int] = []  # the same durations by length: kept in order, never sorted
        self._last: Mapping[str, Any] | None = None
        self._last_success_ns: int | None = None

    def add(self, row: Mapping[str, Any], now_ns: int) -> None:
        """Take a row of `responses`. `now_ns` is monotonic: the last minute does not depend on the wall clock."""
        status = row["status"]
        self._counts[status] += 1
        self._last = row
        if status == "error":
            number = row["errno"]
            self._errors["short" if number is None else errno.errorcode.get(number, str(number))] += 1
        elif status == "ok":
            duration = row["duration_ns"]
            self._last_success_ns = row["start_ns"] + duration
            bucket = bisect.bisect_left(BUCKETS_NS, duration)
            self._buckets[bucket] += 1
            self._highest_bucket = max(self._highest_bucket, bucket)
            self._sum_ns += duration
            self._recent.append((now_ns, duration))
            bisect.insort(self._ordered, duration)
            if len(self._recent) > _MOST_RECENT:
                self._forget_oldest()
            self.baseline.add(duration)

    def status(self, now_ns: int) -> OperationStatus:
        return OperationStatus(
            op=self.kind.op,
            request_bytes=self.kind.request_bytes,
            mode=self.kind.mode,
            ok_count=self._counts["ok"],
            error_count=self._counts["error"],
            missed_count=self._counts["missed"],
            errors=dict(self._errors),
            last=Outcome(*_OUTCOME(self._last)) if self._last else None,
            last_success_ns=self._last_success_ns,
            expected_ns=self.baseline.median_ns(),
            expected_count=self.baseline.count,
            recent=self._last_minute(now_ns),
            bucket_counts=tuple(self._buckets[: self._highest_bucket + 1]),
            sum_ns=self._sum_ns,
        )

    def _forget_oldest(self) -> None:
        _, duration = self._recent.popleft()
        del self._ordered[bisect.bisect_left(self._ordered, duration)]

    def _last_minute(self, now_ns: int) -> Recent:
        while self._recent and self._recent[0][0] < now_ns - _WINDOW_NS:
            self._forget_oldest()
        durations = self._ordered
        if not durations:
            return Recent(_WINDOW_NS)
        return Recent(_WINDOW_NS, len(durations), _quantile(durations, 0.5), _quantile(durations, 0.9), durations[-1])


def _quantile(ordered: list[int], share: float) -> int:
    """Linear between neighbours (type 7, as NumPy's default)."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return round(ordered[low] + (place - low) * (ordered[high] - ordered[low]))
