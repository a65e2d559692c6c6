"""One live source in a child process, as the agent sees it: the process, its schedule, and the result of every tick.

The agent itself touches nothing that may hang. The child is forked once, not per operation, and waits for ticks. The
agent sends a tick only to a child that waits, so nothing queues up behind a hanging operation. The agent never waits
for a child: one in uninterruptible sleep cannot be killed and is left to the kernel.

Every operation of every tick becomes exactly one row: ok or error from the child; missed if the child was busy at the
tick; pending if the child or the agent ended before the operation did.

Statistics of an operation are counts, the last result, the last minute, and the live baseline: a running median of all
durations that survives a restart. Durations are counted in bins 2% wide, so that the median is exact to 1%. When the
count exceeds a limit all bins are halved: older operations fade out, and the baseline follows the storage.
"""

from __future__ import annotations

import bisect
import errno
import fcntl
import gc
import json
import math
import os
import signal
import statistics
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from ioweather.agent.sensor import Dismissed, LiveSource, Operation, Origin, Ready, Reporter, event_row, unfinished_row
from ioweather.agent.spool import row_line
from ioweather.agent.status import (
    BUCKETS_NS,
    InFlight,
    OperationStatus,
    Outcome,
    Recent,
    SourceStatus,
    State,
    TargetStatus,
)
from ioweather.core.counters.growth import Clocks
from ioweather.core.errors import IoweatherError
from ioweather.core.safe_files import PrivateDirectory
from ioweather.core.units import MINUTE_NS, NS

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


_TICK = struct.Struct("=q")
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031  # fcntl(2); Python names it from 3.10 on
_READ_BYTES = 1 << 16
_CYCLES_PER_COLLECTION = 100


class Worker:
    """The process of a live source, and the pipes to and from it."""

    def __init__(self, source: LiveSource, documents: Path) -> None:
        self._buffer = b""
        self.has_ended = False
        ticks_read, self._ticks = os.pipe()
        self._reports, reports_write = os.pipe()
        with suppress(OSError):  # more room; the system may set a limit
            fcntl.fcntl(reports_write, _F_SETPIPE_SZ, _PIPE_BYTES)
        self.pid = os.fork()
        if self.pid == 0:
            _run_child(source, documents, ticks_read, reports_write)
        os.close(ticks_read)
        os.close(reports_write)
        os.set_blocking(self._reports, False)

    def tick(self, scheduled_ns: int) -> None:
        """Start a cycle. Eight bytes into an empty pipe do not block."""
        with suppress(BrokenPipeError):  # it died; `lines` finds its end
            os.write(self._ticks, _TICK.pack(scheduled_ns))

    def lines(self) -> list[str]:
        """Return the complete messages since the last call; sets `has_ended` when the child is gone."""
        with suppress(BlockingIOError):
            while not self.has_ended:
                data = os.read(self._reports, _READ_BYTES)
                self._buffer += data
                self.has_ended = not data
        *lines, self._buffer = self._buffer.split(b"\n")
        return [line.decode() for line in lines]

    def dismiss(self) -> None:
        """Send no more ticks: the child finishes and ends by itself."""
        if self._ticks >= 0:
            os.close(self._ticks)
            self._ticks = -1

    def release(self, *, kill: bool = False) -> None:
        """Close the pipes, kill the child if asked, and reap it if it is dead; otherwise init does when the agent is
        gone. One that is left alive ends by itself."""
        self.dismiss()
        with suppress(ProcessLookupError, PermissionError):
            if kill:
                os.kill(self.pid, signal.SIGKILL)
        if self._reports >= 0:
            os.close(self._reports)
            self._reports = -1
        self.has_ended = True
        with suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)


def _run_child(source: LiveSource, documents: Path, ticks: int, reports: int) -> None:
    """Run the source in the forked process; never returns."""
    code = 1
    try:
        # The agent decides when to stop; a terminal or systemd signals the whole group.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        # Close the pipes of the other children: those must end with the agent, not with their last sibling. An
        # abandoned child must not keep a terminal or a pipe open either.
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        low = 3
        for fd in sorted((ticks, reports)):
            os.closerange(low, fd)
            low = fd + 1
        os.closerange(low, min(os.sysconf("SC_OPEN_MAX"), 1 << 16))
        os.chdir("/")  # do not keep a mount busy
        gc.freeze()
        gc.disable()  # no collection during a timed operation
        _serve(source, Reporter(reports, documents), ticks)
        code = 0
    finally:
        os._exit(code)


def _serve(source: LiveSource, reporter: Reporter, ticks: int) -> None:
    try:
        reporter.ticks = ticks
        try:
            ready = source.prepare(reporter)
        except (Dismissed, OSError, IoweatherError):  # a source that cannot start, or need not, leaves nothing behind
            reporter.ticks = None
            with suppress(OSError, IoweatherError):
                source.finish(reporter)
            raise
        reporter.ticks = None
        reporter.send("ready", *ready)
        cycles = 0
        while len(data := os.read(ticks, _TICK.size)) == _TICK.size:
            started, message = time.monotonic_ns(), ""
            try:
                source.cycle(_TICK.unpack(data)[0], reporter)
            except (OSError, IoweatherError) as error:
                message = str(error) or type(error).__name__
            reporter.send("end", time.monotonic_ns() - started, not message, message)
            cycles += 1
            if cycles % _CYCLES_PER_COLLECTION == 0:
                gc.collect()
        source.finish(reporter)
    except Dismissed:
        pass
    except (OSError, IoweatherError) as error:
        reporter.send("failed", str(error))
    except Exception as error:
        reporter.send("failed", f"{type(error).__name__}: {error}. Please report this.")


_FIRST_WAIT_NS = 5 * NS
_LONGEST_WAIT_NS = 300 * NS
# An agent that was itself stopped for long writes one gap, not a row for every operation of days.
_MAX_MISSED_TICKS = 600
_MIN_HUNG_NS = NS
_FILE_WORK = ("prepare", "clean up")

StartWorker = Callable[[LiveSource, Path], Worker]


class Child:
    """A live source with its worker. Ticks fall at start + k * period on the monotonic clock, so that lateness does not
    add up. `baselines` outlive the child; `phase_ns` delays its first tick."""

    def __init__(
        self,
        source: LiveSource,
        origin: Origin,
        add: Callable[[str], None],
        clocks: Clocks,
        *,
        start_worker: StartWorker,
        documents: Path,
        baselines: dict[Key, RunningMedian],
        retry: bool,
        phase_ns: int = 0,
    ) -> None:
        self.source, self.origin = source, origin
        self._add, self._clocks = add, clocks
        self._start_worker, self._documents = start_worker, documents
        self._baselines, self._retry, self._phase_ns = baselines, retry, phase_ns
        self._worker: Worker | None = None
        self.next_tick_ns: int | None = None
        self.ready_ns: int | None = None  # the first tick is up to a period later
        self.begun: InFlight | None = None
        self._begun_ns = 0  # monotonic
        self.is_busy = self.is_over = self.failed = False
        self._owed: dict[Operation, int] = {}  # operations of the running cycle without a row yet, and their tick
        self._restart_ns, self._wait_ns = 0, _FIRST_WAIT_NS
        self._observed: dict[Operation, ObservedOperation] = {}
        self._ready: Ready | None = None
        self.message = self._progress = ""
        self.last_message_ns = 0
        self._ticks = 0
        self._counts = SourceStatus(source.name, "stopped", source.period_ns)
        self._cycle_start_ns: int | None = None  # monotonic
        for kind in source.operations:
            self._observe(kind)

    @property
    def is_ready(self) -> bool:
        return self._ready is not None

    @property
    def has_left(self) -> bool:
        return self._worker is None

    @property
    def handles_files(self) -> bool:
        """Whether it makes or removes its files, which may take long."""
        return self._ready is None or (self.begun is not None and self.begun.op in _FILE_WORK)

    def start(self) -> None:
        """Start the worker."""
        self._worker = self._start_worker(self.source, self._documents)
        self.is_busy, self.failed = True, False
        self.last_message_ns = self._clocks.monotonic_ns()

    def poll(self) -> None:
        """Read the worker's messages; notice its death; start it again when it is time."""
        now = self._clocks.monotonic_ns()
        if self._worker is None:
            if self.failed and self._retry and now >= self._restart_ns:
                self.start()
            return
        for line in self._worker.lines():
            self.last_message_ns = now
            self._read(line, now)
        if not self._worker.has_ended:
            return
        self._write_pending()
        self._worker.release()
        self._worker, self.is_busy = None, True
        if self.is_over:
            return
        if not self.failed:  # else it gave the reason
            last = self._progress or self.message
            self.failed, self.message = True, "the child ended without a word" + (f" ({last})" if last else "")
        self._progress = ""
        self._restart_ns, self._wait_ns = now + self._wait_ns, min(2 * self._wait_ns, _LONGEST_WAIT_NS)
        self.is_over = not self._retry

    def _read(self, line: str, now: int) -> None:
        body = json.loads(line)
        if isinstance(body, dict):
            self._counts.rows += 1
            self._add(line)
            if body["table"] == "responses":
                operation = Operation(body["op"], body["request_bytes"], body["mode"])
                self.begun = None
                self._owed.pop(operation, None)
                self._observe(operation).add(body, now)
            return
        kind, *values = body
        if kind == "begin":
            op, request_bytes, scheduled_ns, start_ns, self._begun_ns = values
            self.begun = InFlight(op, request_bytes, start_ns, 0, scheduled_ns)
        elif kind == "end":
            counts = self._counts
            counts.last_duration_ns, counts.last_ok, message = values
            self.is_busy, self.begun = False, None
            self._owed.clear()
            counts.runs += 1
            counts.failed_runs += not counts.last_ok
            self.message = self._ready.message if counts.last_ok and self._ready else message
        elif kind == "ready":
            self._ready = Ready(*values)
            self.is_busy, self.begun, self._progress = False, None, ""
            self.origin = self.origin._replace(system=self._ready.system)
            self.message, self._wait_ns = self._ready.message, _FIRST_WAIT_NS
            if self.next_tick_ns is None:
                self.ready_ns, self.next_tick_ns = now, now + self._phase_ns
        elif kind == "progress":
            done, total, what = values
            self._progress = f"{what}: {done / total:.0%}" if total else f"{what}: {done}"
        elif kind == "failed":
            self.message, self.failed = values[0], True
        elif kind == "done":
            self.is_over = True

    def _observe(self, kind: Operation) -> ObservedOperation:
        if kind not in self._observed:
            baseline = self._baselines.setdefault((self.origin.target, kind), RunningMedian())
            self._observed[kind] = ObservedOperation(kind, baseline)
        return self._observed[kind]

    def _write_unfinished(self, kind: Operation, status: str, start_ns: int, scheduled_ns: int, now: int) -> None:
        row = unfinished_row(self.origin, kind, status, start_ns, scheduled_ns)
        self._add(row_line("responses", row))
        self._observe(kind).add(row, now)

    def _write_pending(self) -> None:
        """The cycle will not end: one operation was in flight, those after it never began."""
        for kind, scheduled_ns in self._owed.items():
            is_begun = self.begun is not None and kind.op == self.begun.op
            start_ns = self.begun.start_ns if self.begun is not None and is_begun else scheduled_ns
            status = "pending" if is_begun else "missed"
            self._write_unfinished(kind, status, start_ns, scheduled_ns, self._clocks.monotonic_ns())
        self.begun, self._owed = None, {}

    def _due(self, now: int) -> range:
        """Monotonic times of all ticks up to now that were not handed out."""
        if self.next_tick_ns is None or now < self.next_tick_ns:
            return range(0)
        due = range(self.next_tick_ns, now + 1, self.source.period_ns)
        self.next_tick_ns = due[-1] + self.source.period_ns
        self._ticks += len(due)
        return due

    def tick(self) -> None:
        """Hand out the ticks that are due: the last one to a worker that waits; all others are missed."""
        if self.is_over:
            return
        now, wall = self._clocks.monotonic_ns(), self._clocks.wall_ns()
        due = self._due(now)
        if due and self._worker is not None and not self.is_busy:
            scheduled_ns, due = due[-1] + wall - now, due[:-1]
            self.is_busy = True
            self._counts.last_start_ns, self._cycle_start_ns = wall, now
            self._owed = dict.fromkeys(self.source.operations, scheduled_ns)
            self._worker.tick(scheduled_ns)
        self._write_missed(due, wall - now)

    def _write_missed(self, missed: range, offset_ns: int) -> None:
        if not self.source.is_periodic:
            return
        self._counts.missed_ticks += len(missed)
        for tick in missed[:_MAX_MISSED_TICKS]:
            for kind in self.source.operations:
                self._write_unfinished(kind, "missed", tick + offset_ns, tick + offset_ns, tick)
        rest = missed[_MAX_MISSED_TICKS:]
        if rest and self.source.operations:
            origin, start, end = self.origin, rest[0] + offset_ns, rest[-1] + offset_ns + self.source.period_ns
            key = f"gap:{origin.host}:{origin.target}:{start}"
            gap = event_row(key, "gap", "the agent was stopped", start, end, host=origin.host, system=origin.system)
            self._add(row_line("events", gap))

    def stop(self, end_ns: int | None) -> None:
        """Send no more ticks, after those before the end were written as missed. The worker cleans up and ends."""
        if end_ns is not None:
            self._write_missed(self._due(end_ns - 1), self._clocks.wall_ns() - self._clocks.monotonic_ns())
        self.next_tick_ns = self.ready_ns = None
        self.is_over = True
        self.last_message_ns = self._clocks.monotonic_ns()
        if self._worker is not None:
            self._worker.dismiss()

    def leave_behind(self) -> None:
        """Abandon a worker that does not end, after writing its operation. One that makes or removes files is not
        killed: it has been dismissed, and removes what it made."""
        if self._worker is not None:
            kill = not self.handles_files
            self._write_pending()
            self._worker.release(kill=kill)
            self._worker = None

    def _state(self, age_ns: int) -> State:
        if self.failed:
            return "failed"
        if self._worker is None:
            return "stopped"
        if self.handles_files:
            return "preparing"
        if not self.is_busy:
            return "waiting"
        return "hung" if age_ns > max(self.source.period_ns, _MIN_HUNG_NS) else "running"

    def source_status(self) -> SourceStatus:
        """Return the status of a source, whether it is a probe or not."""
        start_ns, now = self._cycle_start_ns, self._clocks.monotonic_ns()
        state = self._state(now - start_ns if start_ns is not None and self.is_busy else 0)
        pid = self._worker.pid if self._worker else None
        return replace(self._counts, state=state, pid=pid, message=self._progress or self.message)

    def target_status(self) -> TargetStatus:
        """Return the status of a probed target."""
        now, in_flight, source = self._clocks.monotonic_ns(), None, self.source_status()
        if self.begun is not None:
            in_flight = replace(self.begun, age_ns=max(0, now - self._begun_ns))
        return TargetStatus(
            target=self.origin.target,
            system=self.origin.system,
            state=self._state(in_flight.age_ns if in_flight else 0),
            period_ns=source.period_ns,
            pid=source.pid,
            access=self._ready.access if self._ready else None,
            ticks=self._ticks,
            missed_ticks=source.missed_ticks,
            in_flight=in_flight,
            operations=tuple(observed.status(now) for observed in self._observed.values()),
            message=source.message,
        )
