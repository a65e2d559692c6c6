"""One live source as the agent sees it: its child, its schedule, and what has become of every tick.

Every operation of every tick becomes exactly one row: ok or error from the child; missed where the child was busy when
the tick fell; pending where the child ended, or the agent left, before the operation did.
"""

from __future__ import annotations

import bisect
import errno
import json
from collections import Counter, deque
from collections.abc import Callable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ioweather.collect.baseline import Key, RunningMedian
from ioweather.collect.spool import row_line
from ioweather.collect.status import (
    BUCKETS_NS,
    InFlight,
    OperationStatus,
    Outcome,
    Recent,
    SourceStatus,
    State,
    TargetStatus,
)
from ioweather.core.units import MINUTE_NS, NS
from ioweather.sources.live.contract import LiveSource, Operation, Ready
from ioweather.sources.live.monotonic_samples import Clocks
from ioweather.sources.live.rows import Origin, event_row, unfinished_row

# What the agent knows of the operations of one target: counts, the last result, the last minute, the baseline.

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


# When ticks fall: at start + k * period on the monotonic clock, so that lateness never adds up.


class Schedule:
    """Hands out every tick once, in order; the clock's owner asks what is due."""

    def __init__(self, start_ns: int, period_ns: int) -> None:
        if period_ns <= 0:
            raise ValueError(f"a period of {period_ns} ns")
        self.start_ns = start_ns
        self.period_ns = period_ns
        self._next = 0

    @property
    def next_ns(self) -> int:
        return self.start_ns + self._next * self.period_ns

    def due(self, now_ns: int) -> range:
        """Times of all ticks up to now that have not been handed out. More than one: somebody was late."""
        if now_ns < self.next_ns:
            return range(0)
        first = self.next_ns
        self._next = (now_ns - self.start_ns) // self.period_ns + 1
        return range(first, self.next_ns, self.period_ns)


_FIRST_WAIT_NS = 5 * NS
_LONGEST_WAIT_NS = 300 * NS
# An agent that was itself stopped for long makes one gap of it, not a row for every operation of days.
_MOST_MISSED_ROWS = 600
_LEAST_HUNG_NS = NS
_BEGIN, _END, _RESPONSE = '["begin"', '["end"', '{"table":"responses"'
_HANDLES_FILES = ("prepare", "clean up")


def _is_past(line: str, after: str) -> bool:
    """Whether an operation begins here that the next line says is over: half of all lines, and nothing to keep."""
    return line.startswith(_BEGIN) and after.startswith((_RESPONSE, _BEGIN, _END))


class Child(Protocol):
    """What `Worker` is; tests bring one without a process."""

    @property
    def pid(self) -> int: ...
    @property
    def has_ended(self) -> bool: ...
    def tick(self, scheduled_ns: int) -> None: ...
    def lines(self) -> list[str]: ...
    def dismiss(self) -> None: ...
    def abandon(self, *, kill: bool = True) -> None: ...
    def release(self) -> None: ...


StartChild = Callable[[LiveSource, Path], Child]


class Sink(Protocol):
    """Where rows go."""

    def add(self, line: str) -> None: ...


class _Begun(NamedTuple):
    op: str
    request_bytes: int
    scheduled_ns: int | None
    start_ns: int
    monotonic_ns: int


class Member:
    def __init__(
        self, source: LiveSource, origin: Origin, sink: Sink, clocks: Clocks, *, start_child: StartChild,
        documents: Path, baselines: dict[Key, RunningMedian], retry: bool, phase_ns: int = 0,
    ) -> None:  # fmt: skip
        self.source, self.origin = source, origin
        self._sink, self._clocks = sink, clocks
        self._start_child, self._documents = start_child, documents
        self._baselines, self._retry, self._phase_ns = baselines, retry, phase_ns
        self._child: Child | None = None
        self._schedule: Schedule | None = None
        self._begun: _Begun | None = None
        self._busy = False
        self._owed: dict[Operation, int] = {}  # operations of the running cycle without a row yet, and their tick
        self._restart_ns, self._wait_ns = 0, _FIRST_WAIT_NS
        self._observed: dict[Operation, ObservedOperation] = {}
        self._ready: Ready | None = None
        self.message = ""
        self.is_over = False
        self.failed = False
        self.progress: tuple[int, int | None, str] | None = None
        self.heard_ns = 0
        self._ticks = self._missed = self._runs = self._failed_runs = self._rows = 0
        self._cycle_start: tuple[int, int] | None = None
        self._last_duration_ns: int | None = None
        self._last_ok: bool | None = None
        for kind in source.operations:
            self._observe(kind)

    @property
    def is_ready(self) -> bool:
        return self._ready is not None

    @property
    def is_busy(self) -> bool:
        return self._busy

    def is_in_flight_since(self, monotonic_ns: int) -> bool:
        """Whether one operation has been under way since before that moment; files being made are none."""
        begun = self._begun
        return begun is not None and begun.op not in _HANDLES_FILES and begun.monotonic_ns <= monotonic_ns

    @property
    def began_ns(self) -> int | None:
        """When it was ready; its first tick may fall a part of a period later."""
        return self._schedule.start_ns - self._phase_ns if self._schedule else None

    @property
    def next_tick_ns(self) -> int | None:
        return self._schedule.next_ns if self._schedule else None

    def start(self) -> None:
        self._child = self._start_child(self.source, self._documents)
        self._busy, self.failed = True, False
        self.heard_ns = self._clocks.monotonic_ns()

    def poll(self) -> None:
        """Take what the child said; notice its death; start it again when its time has come."""
        now = self._clocks.monotonic_ns()
        if self._child is None:
            if self.failed and self._retry and now >= self._restart_ns:
                self.start()
            return
        if lines := self._child.lines():
            self.heard_ns = now
            lines = [line for line, after in zip(lines, [*lines[1:], ""], strict=True) if not _is_past(line, after)]
            # All at once: a parser that is called line by line takes three times as long.
            for line, body in zip(lines, json.loads(f"[{','.join(lines)}]"), strict=True):
                self._hear(line, body, now)
        if self._child.has_ended:
            self._child_ended(now)

    def _hear(self, line: str, body: Any, now: int) -> None:
        if isinstance(body, dict):
            self._rows += 1
            self._sink.add(line)
            if body["table"] == "responses":
                kind = Operation(body["op"], body["request_bytes"], body["mode"])
                self._begun = None
                self._owed.pop(kind, None)
                self._observe(kind).add(body, now)
            return
        kind, *facts = body
        if kind == "begin":
            self._begun = _Begun(*facts)
        elif kind == "end":
            self._cycle_ended(*facts)
        elif kind == "ready":
            self._is_prepared(Ready(*facts), now)
        elif kind == "progress":
            self.progress = (facts[0], facts[1], facts[2])
        elif kind == "failed":
            self.message, self.failed = facts[0], True
        elif kind == "done":
            self.is_over = True

    def _observe(self, kind: Operation) -> ObservedOperation:
        if kind not in self._observed:
            baseline = self._baselines.setdefault((self.origin.target, kind), RunningMedian())
            self._observed[kind] = ObservedOperation(kind, baseline)
        return self._observed[kind]

    def _is_prepared(self, ready: Ready, now: int) -> None:
        self._ready, self._busy, self._begun, self.progress = ready, False, None, None
        self.origin = Origin(self.origin.host, self.origin.target, ready.system, self.origin.run_id)
        self.message, self._wait_ns = ready.message, _FIRST_WAIT_NS
        if self._schedule is None:
            self._schedule = Schedule(now + self._phase_ns, self.source.period_ns)

    def _cycle_ended(self, duration_ns: int, ok: bool, message: str) -> None:
        self._busy, self._begun = False, None
        self._owed.clear()
        self._runs += 1
        self._failed_runs += not ok
        self._last_ok = ok
        if not ok or self._ready is None:
            self.message = message
        else:
            self.message = self._ready.message
        self._last_duration_ns = duration_ns

    def _child_ended(self, now: int) -> None:
        assert self._child is not None
        self._write_pending()
        self._child.release()
        self._child, self._busy = None, True
        if self.is_over:
            return
        if not self.failed:  # else it said why
            last = self._message()
            self.failed, self.message = True, "the child ended without a word" + (f" ({last})" if last else "")
        self.progress = None
        self._restart_ns, self._wait_ns = now + self._wait_ns, min(2 * self._wait_ns, _LONGEST_WAIT_NS)
        self.is_over = not self._retry

    def _write_pending(self) -> None:
        """The cycle will not be heard of again: one operation was under way, those behind it never began."""
        begun, self._begun = self._begun, None
        owed, self._owed = self._owed, {}
        for kind, scheduled_ns in owed.items():
            if begun is not None and kind.op == begun.op:
                row = unfinished_row(self.origin, kind, "pending", begun.start_ns, scheduled_ns)
            else:
                row = unfinished_row(self.origin, kind, "missed", scheduled_ns, scheduled_ns)
            self._sink.add(row_line("responses", row))
            self._observe(kind).add(row, self._clocks.monotonic_ns())

    def tick(self) -> None:
        """Hand out the ticks that are due: the last one to a child that waits, all others are missed."""
        if self._schedule is None or self.is_over:
            return
        now, wall = self._clocks.monotonic_ns(), self._clocks.wall_ns()
        due = self._schedule.due(now)
        if not due:
            return
        self._ticks += len(due)
        runs = not self._busy and self._child is not None
        missed = due[:-1] if runs else due
        self._write_missed(missed, wall - now)
        if runs and self._child is not None:
            self._busy = True
            self._cycle_start = (wall, now)
            self._owed = dict.fromkeys(self.source.operations, due[-1] + wall - now)
            self._child.tick(due[-1] + wall - now)

    def miss_until(self, end_ns: int) -> None:
        """Ticks before the end that an agent in a hurry did not come to."""
        if self._schedule is not None:
            due = self._schedule.due(end_ns - 1)
            self._ticks += len(due)
            self._write_missed(due, self._clocks.wall_ns() - self._clocks.monotonic_ns())

    def _write_missed(self, missed: range, offset_ns: int) -> None:
        if not self.source.is_periodic:
            return
        self._missed += len(missed)
        rows = missed[:_MOST_MISSED_ROWS]
        for tick in rows:
            for kind in self.source.operations:
                row = unfinished_row(self.origin, kind, "missed", tick + offset_ns, tick + offset_ns)
                self._sink.add(row_line("responses", row))
                self._observe(kind).add(row, tick)
        if len(missed) > len(rows) and self.source.operations:
            start, end = missed[len(rows)] + offset_ns, missed[-1] + offset_ns + self.source.period_ns
            event_id = f"gap:{self.origin.host}:{self.origin.target}:{start}"
            gap = event_row(
                event_id, "gap", "the agent was stopped", start, end, host=self.origin.host, system=self.origin.system
            )
            self._sink.add(row_line("events", gap))

    def stop(self) -> None:
        """No more ticks. The child cleans up and ends."""
        self._schedule = None
        self.is_over = True
        self.heard_ns = self._clocks.monotonic_ns()
        if self._child is not None:
            self._child.dismiss()

    @property
    def has_left(self) -> bool:
        return self._child is None

    @property
    def is_cleaning(self) -> bool:
        return self._begun is not None and self._begun.op == "clean up"

    def leave_behind(self) -> None:
        """The child does not end: write down what it was doing, and go. One that makes or removes files is not killed:
        it has been told, and removes what it made."""
        if self._child is not None:
            has_files = self._ready is None or (self._begun is not None and self._begun.op in _HANDLES_FILES)
            self._write_pending()
            self._child.abandon(kill=not has_files)
            self._child = None

    def _state(self, age_ns: int) -> State:
        if self.failed:
            return "failed"
        if self._child is None:
            return "stopped"
        if self._ready is None or (self._begun is not None and self._begun.op in _HANDLES_FILES):
            return "preparing"
        if not self._busy:
            return "waiting"
        return "hung" if age_ns > max(self.source.period_ns, _LEAST_HUNG_NS) else "running"

    def _in_flight(self) -> InFlight | None:
        begun = self._begun
        if begun is None:
            return None
        age = max(0, self._clocks.monotonic_ns() - begun.monotonic_ns)
        return InFlight(begun.op, begun.request_bytes, begun.start_ns, age, begun.scheduled_ns)

    def _message(self) -> str:
        if self.progress is not None:
            done, total, what = self.progress
            return f"{what}: {done / total:.0%}" if total else f"{what}: {done}"
        return self.message

    def target_status(self) -> TargetStatus:
        now = self._clocks.monotonic_ns()
        in_flight = self._in_flight()
        return TargetStatus(
            target=self.origin.target,
            system=self.origin.system,
            state=self._state(in_flight.age_ns if in_flight else 0),
            period_ns=self.source.period_ns,
            pid=self._child.pid if self._child else None,
            access=self._ready.access if self._ready else None,
            ticks=self._ticks,
            missed_ticks=self._missed,
            in_flight=in_flight,
            operations=tuple(observed.status(now) for observed in self._observed.values()),
            message=self._message(),
        )

    def source_status(self) -> SourceStatus:
        age = self._clocks.monotonic_ns() - self._cycle_start[1] if self._cycle_start and self._busy else 0
        return SourceStatus(
            name=self.source.name,
            state=self._state(age),
            period_ns=self.source.period_ns,
            pid=self._child.pid if self._child else None,
            runs=self._runs,
            failed_runs=self._failed_runs,
            missed_ticks=self._missed,
            rows=self._rows,
            last_start_ns=self._cycle_start[0] if self._cycle_start else None,
            last_duration_ns=self._last_duration_ns,
            last_ok=self._last_ok,
            message=self._message(),
        )
