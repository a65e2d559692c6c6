"""One live source as the agent sees it: its child, its schedule, and the result of every tick.

Every operation of every tick becomes exactly one row: ok or error from the child; missed if the child was busy at the
tick; pending if the child or the agent ended before the operation did.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ioweather.agent.live_baseline import Key, ObservedOperation, RunningMedian
from ioweather.agent.sensor import LiveSource, Operation, Origin, Ready, event_row, unfinished_row
from ioweather.agent.spool import row_line
from ioweather.agent.status import InFlight, SourceStatus, State, TargetStatus
from ioweather.agent.worker import Worker
from ioweather.core.counters.growth import Clocks
from ioweather.core.units import NS

_FIRST_WAIT_NS = 5 * NS
_LONGEST_WAIT_NS = 300 * NS
# An agent that was itself stopped for long writes one gap, not a row for every operation of days.
_MOST_MISSED_ROWS = 600
_LEAST_HUNG_NS = NS
_HANDLES_FILES = ("prepare", "clean up")

StartChild = Callable[[LiveSource, Path], Worker]


class _Begun(NamedTuple):
    op: str
    request_bytes: int
    scheduled_ns: int | None
    start_ns: int
    monotonic_ns: int


class Member:
    """Ticks fall at start + k * period on the monotonic clock, so that lateness never adds up."""

    def __init__(
        self, source: LiveSource, origin: Origin, add: Callable[[str], None], clocks: Clocks, *,
        start_child: StartChild, documents: Path, baselines: dict[Key, RunningMedian], retry: bool, phase_ns: int = 0,
    ) -> None:  # fmt: skip
        self.source, self.origin = source, origin
        self._add, self._clocks = add, clocks
        self._start_child, self._documents = start_child, documents
        self._baselines, self._retry, self._phase_ns = baselines, retry, phase_ns
        self._child: Worker | None = None
        self.next_tick_ns: int | None = None
        self.began_ns: int | None = None  # when it was ready; the first tick is up to a period later
        self._begun: _Begun | None = None
        self.is_busy = False
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
        self._cycle_start: tuple[int, int] | None = None  # wall and monotonic time
        self._last_duration_ns: int | None = None
        self._last_ok: bool | None = None
        for kind in source.operations:
            self._observe(kind)

    @property
    def is_ready(self) -> bool:
        return self._ready is not None

    @property
    def has_left(self) -> bool:
        return self._child is None

    @property
    def is_cleaning(self) -> bool:
        return self._begun is not None and self._begun.op == "clean up"

    @property
    def _handles_files(self) -> bool:
        return self._ready is None or (self._begun is not None and self._begun.op in _HANDLES_FILES)

    def is_in_flight_since(self, monotonic_ns: int) -> bool:
        """Whether one operation has been in flight since before that moment; making files is none."""
        begun = self._begun
        return begun is not None and begun.op not in _HANDLES_FILES and begun.monotonic_ns <= monotonic_ns

    def start(self) -> None:
        self._child = self._start_child(self.source, self._documents)
        self.is_busy, self.failed = True, False
        self.heard_ns = self._clocks.monotonic_ns()

    def poll(self) -> None:
        """Read the child's messages; notice its death; start it again when its time has come."""
        now = self._clocks.monotonic_ns()
        if self._child is None:
            if self.failed and self._retry and now >= self._restart_ns:
                self.start()
            return
        for line in self._child.lines():
            self.heard_ns = now
            self._read(line, now)
        if self._child.has_ended:
            self._child_ended(now)

    def _read(self, line: str, now: int) -> None:
        body = json.loads(line)
        if isinstance(body, dict):
            self._rows += 1
            self._add(line)
            if body["table"] == "responses":
                operation = Operation(body["op"], body["request_bytes"], body["mode"])
                self._begun = None
                self._owed.pop(operation, None)
                self._observe(operation).add(body, now)
            return
        kind, *facts = body
        if kind == "begin":
            self._begun = _Begun(*facts)
        elif kind == "end":
            self._last_duration_ns, self._last_ok, message = facts
            self.is_busy, self._begun = False, None
            self._owed.clear()
            self._runs += 1
            self._failed_runs += not self._last_ok
            self.message = self._ready.message if self._last_ok and self._ready else message
        elif kind == "ready":
            self._ready = Ready(*facts)
            self.is_busy, self._begun, self.progress = False, None, None
            self.origin = Origin(self.origin.host, self.origin.target, self._ready.system, self.origin.run_id)
            self.message, self._wait_ns = self._ready.message, _FIRST_WAIT_NS
            if self.next_tick_ns is None:
                self.began_ns, self.next_tick_ns = now, now + self._phase_ns
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

    def _child_ended(self, now: int) -> None:
        assert self._child is not None
        self._write_pending()
        self._child.release()
        self._child, self.is_busy = None, True
        if self.is_over:
            return
        if not self.failed:  # else it gave the reason
            last = self._message()
            self.failed, self.message = True, "the child ended without a word" + (f" ({last})" if last else "")
        self.progress = None
        self._restart_ns, self._wait_ns = now + self._wait_ns, min(2 * self._wait_ns, _LONGEST_WAIT_NS)
        self.is_over = not self._retry

    def _write_unfinished(self, kind: Operation, status: str, start_ns: int, scheduled_ns: int, now: int) -> None:
        row = unfinished_row(self.origin, kind, status, start_ns, scheduled_ns)
        self._add(row_line("responses", row))
        self._observe(kind).add(row, now)

    def _write_pending(self) -> None:
        """The cycle will not end: one operation was in flight, those after it never began."""
        begun, self._begun = self._begun, None
        owed, self._owed = self._owed, {}
        for kind, scheduled_ns in owed.items():
            is_begun = begun is not None and kind.op == begun.op
            start_ns = begun.start_ns if begun is not None and is_begun else scheduled_ns
            status = "pending" if is_begun else "missed"
            self._write_unfinished(kind, status, start_ns, scheduled_ns, self._clocks.monotonic_ns())

    def _due(self, now: int) -> range:
        """Monotonic times of all ticks up to now that were not handed out."""
        if self.next_tick_ns is None or now < self.next_tick_ns:
            return range(0)
        due = range(self.next_tick_ns, now + 1, self.source.period_ns)
        self.next_tick_ns = due[-1] + self.source.period_ns
        self._ticks += len(due)
        return due

    def tick(self) -> None:
        """Hand out the ticks that are due: the last one to a child that waits; all others are missed."""
        if self.is_over:
            return
        now, wall = self._clocks.monotonic_ns(), self._clocks.wall_ns()
        due = self._due(now)
        if due and self._child is not None and not self.is_busy:
            scheduled_ns, due = due[-1] + wall - now, due[:-1]
            self.is_busy = True
            self._cycle_start = (wall, now)
            self._owed = dict.fromkeys(self.source.operations, scheduled_ns)
            self._child.tick(scheduled_ns)
        self._write_missed(due, wall - now)

    def miss_until(self, end_ns: int) -> None:
        """Write down the ticks before the end that were not handed out."""
        self._write_missed(self._due(end_ns - 1), self._clocks.wall_ns() - self._clocks.monotonic_ns())

    def _write_missed(self, missed: range, offset_ns: int) -> None:
        if not self.source.is_periodic:
            return
        self._missed += len(missed)
        rows = missed[:_MOST_MISSED_ROWS]
        for tick in rows:
            for kind in self.source.operations:
                self._write_unfinished(kind, "missed", tick + offset_ns, tick + offset_ns, tick)
        if len(missed) > len(rows) and self.source.operations:
            start, end = missed[len(rows)] + offset_ns, missed[-1] + offset_ns + self.source.period_ns
            origin = self.origin
            event_id = f"gap:{origin.host}:{origin.target}:{start}"
            gap = event_row(
                event_id, "gap", "the agent was stopped", start, end, host=origin.host, system=origin.system
            )
            self._add(row_line("events", gap))

    def stop(self) -> None:
        """No more ticks. The child cleans up and ends."""
        self.next_tick_ns = self.began_ns = None
        self.is_over = True
        self.heard_ns = self._clocks.monotonic_ns()
        if self._child is not None:
            self._child.dismiss()

    def leave_behind(self) -> None:
        """Leave a child that does not end, after writing down its operation. One that makes or removes files is not
        killed: it has been dismissed, and removes what it made."""
        if self._child is not None:
            kill = not self._handles_files
            self._write_pending()
            self._child.abandon(kill=kill)
            self._child = None

    def _state(self, age_ns: int) -> State:
        if self.failed:
            return "failed"
        if self._child is None:
            return "stopped"
        if self._handles_files:
            return "preparing"
        if not self.is_busy:
            return "waiting"
        return "hung" if age_ns > max(self.source.period_ns, _LEAST_HUNG_NS) else "running"

    def _message(self) -> str:
        if self.progress is not None:
            done, total, what = self.progress
            return f"{what}: {done / total:.0%}" if total else f"{what}: {done}"
        return self.message

    def _common_status(self, age_ns: int) -> dict[str, Any]:
        return {
            "state": self._state(age_ns),
            "period_ns": self.source.period_ns,
            "pid": self._child.pid if self._child else None,
            "missed_ticks": self._missed,
            "message": self._message(),
        }

    def target_status(self) -> TargetStatus:
        now, begun, in_flight = self._clocks.monotonic_ns(), self._begun, None
        if begun is not None:
            age = max(0, now - begun.monotonic_ns)
            in_flight = InFlight(begun.op, begun.request_bytes, begun.start_ns, age, begun.scheduled_ns)
        return TargetStatus(
            target=self.origin.target,
            system=self.origin.system,
            access=self._ready.access if self._ready else None,
            ticks=self._ticks,
            in_flight=in_flight,
            operations=tuple(observed.status(now) for observed in self._observed.values()),
            **self._common_status(in_flight.age_ns if in_flight else 0),
        )

    def source_status(self) -> SourceStatus:
        age = self._clocks.monotonic_ns() - self._cycle_start[1] if self._cycle_start and self.is_busy else 0
        return SourceStatus(
            name=self.source.name,
            runs=self._runs,
            failed_runs=self._failed_runs,
            rows=self._rows,
            last_start_ns=self._cycle_start[0] if self._cycle_start else None,
            last_duration_ns=self._last_duration_ns,
            last_ok=self._last_ok,
            **self._common_status(age),
        )
