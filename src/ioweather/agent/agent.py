"""The agent: one loop that hands out ticks, collects rows in the spool, ships them, and publishes its status.

It wakes up for ticks and for its status, not for every message of a child, so that little runs during a timed
operation. It opens nothing on a probed file system, so that nothing there can stop it.

A live source runs in a child, which is forked once, not per operation, and waits for ticks. The agent sends a tick only
to a child that waits, so nothing queues up behind a hanging operation. The agent never waits for a child: one in
uninterruptible sleep cannot be killed and is left to the kernel.

Every operation of every tick becomes exactly one row: ok or error from the child; missed if the child was busy at the
tick; pending if the child or the agent ended before the operation did.

Statistics of an operation are counts, the last result, the last minute, and the live baseline: a running median of all
durations that survives a restart. Durations are counted in bins 2% wide, so that the median is exact to 1%. When the
count exceeds a limit all bins are halved: older operations fade out, and the baseline follows the storage.
"""

from __future__ import annotations

import bisect
import contextlib
import errno
import fcntl
import gc
import json
import math
import os
import select
import signal
import socket
import statistics
import struct
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, count
from pathlib import Path
from typing import Any

from ioweather._version import __version__
from ioweather.agent.delivery import Shipper
from ioweather.agent.sensor import (
    Clocks,
    Dismissed,
    LiveSource,
    Operation,
    Origin,
    Ready,
    Reporter,
    event_row,
    unfinished_row,
)
from ioweather.agent.spool import Spool, row_line
from ioweather.agent.status import (
    BUCKETS_NS,
    InFlight,
    OperationStatus,
    Outcome,
    Recent,
    SourceStatus,
    SpoolStatus,
    State,
    Status,
    TargetStatus,
    read_status,
    status_bytes,
    write_status,
)
from ioweather.core.errors import IoweatherError
from ioweather.core.safe_files import PrivateDirectory, system_of
from ioweather.core.units import MINUTE_NS, NS, boot_id

_LOG_WIDTH = math.log(1.02)
_MIN_COUNT = 30  # fewer operations do not show what is slow
_MAX_COUNT = 30 * 86_400  # a month of one a second (kun19 section 3.3 takes the median of the whole period)
_BASELINE_FILE = "baseline.json"
_BASELINE_VERSION = 1
_MAX_RECENT = 4096


class RunningMedian:
    """A histogram of durations with logarithmic bins."""

    def __init__(self, bins: Mapping[int, int] | None = None) -> None:
        self.bins = dict(bins or {})
        self.count = sum(self.bins.values())

    def add(self, duration_ns: int) -> None:
        """Count a duration; halve all counts when they exceed the limit."""
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


TargetOperation = tuple[str, Operation]


def save_baselines(medians: Mapping[TargetOperation, RunningMedian], folder: PrivateDirectory) -> None:
    """Write baseline.json."""
    entries = [{"target": target, **kind._asdict(), "bins": median.bins} for (target, kind), median in medians.items()]
    folder.replace(_BASELINE_FILE, json.dumps({"version": _BASELINE_VERSION, "entries": entries}).encode())


def load_baselines(directory: Path) -> dict[TargetOperation, RunningMedian]:
    """Return the baselines of earlier agents; none if the file cannot be used, and they are learned again."""
    try:
        data = json.loads((directory / _BASELINE_FILE).read_text(encoding="utf-8"))
        if data["version"] != _BASELINE_VERSION:
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

    def __init__(self, source: LiveSource) -> None:
        self._buffer = b""
        self.has_ended = False
        ticks_read, self._ticks = os.pipe()
        self._reports, reports_write = os.pipe()
        with suppress(OSError):  # more room; the system may set a limit
            fcntl.fcntl(reports_write, _F_SETPIPE_SZ, _PIPE_BYTES)
        self.pid = os.fork()
        if self.pid == 0:
            _run_child(source, ticks_read, reports_write)
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


def _run_child(source: LiveSource, ticks: int, reports: int) -> None:
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
        _serve(source, Reporter(reports), ticks)
        code = 0
    finally:
        os._exit(code)


def _serve(source: LiveSource, reporter: Reporter, ticks: int) -> None:
    """Prepare the source, run a cycle for each tick until the pipe is closed, and let the source clean up."""
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
        for cycle in count(1):
            data = os.read(ticks, _TICK.size)
            if len(data) < _TICK.size:
                break
            started, message = time.monotonic_ns(), ""
            try:
                source.cycle(_TICK.unpack(data)[0], reporter)
            except (OSError, IoweatherError) as error:
                message = str(error) or type(error).__name__
            reporter.send("end", time.monotonic_ns() - started, not message, message)
            if cycle % _CYCLES_PER_COLLECTION == 0:
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

StartWorker = Callable[[LiveSource], Worker]


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
        baselines: dict[TargetOperation, RunningMedian],
        retry: bool,
        phase_ns: int = 0,
    ) -> None:
        self.source, self.origin = source, origin
        self._add, self._clocks = add, clocks
        self._start_worker = start_worker
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
        self._worker = self._start_worker(self.source)
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
            self.failed = True
            self.message = "the child process exited without a result" + (f" ({last})" if last else "")
        self._progress = ""
        self._restart_ns, self._wait_ns = now + self._wait_ns, min(2 * self._wait_ns, _LONGEST_WAIT_NS)
        self.is_over = not self._retry

    def _read(self, line: str, now: int) -> None:
        """Take a message of the worker: a row, which is an object, or a list of a kind and its values."""
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
        """Return the statistics of an operation, which begin when it is first seen."""
        if kind not in self._observed:
            baseline = self._baselines.setdefault((self.origin.target, kind), RunningMedian())
            self._observed[kind] = ObservedOperation(kind, baseline)
        return self._observed[kind]

    def _write_unfinished(self, kind: Operation, status: str, start_ns: int, scheduled_ns: int, now: int) -> None:
        """Write and count the row of an operation that was missed or is pending."""
        row = unfinished_row(self.origin, kind, status, start_ns, scheduled_ns)
        self._add(row_line("responses", row))
        self._observe(kind).add(row, now)

    def _write_pending(self) -> None:
        """Write the operations of a cycle that will not end: one was in flight, those after it never began."""
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
        """Write rows for missed ticks, or one gap for very many. Ticks are monotonic; `offset_ns` leads to UTC."""
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
        """Return the state, given the age of the cycle or of the operation in flight."""
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


_LAST_SHIP_NS = 2 * MINUTE_NS
_GRACE_NS = 2 * NS  # how long a silent child is waited for at the end
_BASELINE_NS = MINUTE_NS
_STATUS_LEAD_NS = 20_000_000  # long enough to write it on a busy machine
_PROBES = ("probe", "sample")


@dataclass
class AgentSettings:
    """Settings of one run. `retry`: start a source again that failed. `record_gap`: write the time since the previous
    agent as an event."""

    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    host: str = field(default_factory=socket.gethostname)
    duration_ns: int | None = None  # from the moment when every source is ready
    status_period_ns: int = NS
    retry: bool = True
    record_gap: bool = False


class Agent:
    """Runs live sources until the time is over, every source is, or a signal arrives."""

    def __init__(
        self,
        sources: Sequence[LiveSource],
        spool: Spool,
        settings: AgentSettings,
        *,
        shipper: Shipper | None = None,
        clocks: Clocks | None = None,
        start_worker: StartWorker = Worker,
        on_status: Callable[[Status], None] | None = None,
        on_row: Callable[[str], None] | None = None,
    ) -> None:
        self._spool, self._settings, self._shipper = spool, settings, shipper
        self._clocks = clocks or Clocks()
        self._on_status, self._on_row = on_status, on_row
        self._started_ns = self._clocks.wall_ns()
        self._next_status_ns = self._clocks.monotonic_ns()
        self._next_baseline_ns = self._next_status_ns + _BASELINE_NS
        self._deadline_ns: int | None = None  # set once all sources are ready
        self._stopping = 0
        self._boot_id = boot_id()
        self._baselines = load_baselines(spool.directory)
        self._write_gap()
        self.children = [
            Child(
                source,
                self._origin(source),
                self.add,
                self._clocks,
                start_worker=start_worker,
                baselines=self._baselines,
                retry=settings.retry,
                phase_ns=place * source.period_ns // len(sources),
            )
            for place, source in enumerate(sources)
        ]

    def _origin(self, source: LiveSource) -> Origin:
        """Return what rows of the source say of themselves until it is ready."""
        system = system_of(source.label) if source.name in _PROBES else self._settings.host
        return Origin(self._settings.host, source.label, system, self._settings.run_id)

    def _write_gap(self) -> None:
        """Write the time since the previous agent as a gap."""
        if not self._settings.record_gap:
            return
        try:
            before = read_status(self._spool.directory)
        except IoweatherError:
            return
        if before.written_ns < self._started_ns:
            label = "agent stopped" if before.state == "stopped" else "agent ended unexpectedly"
            details = {"run_id": before.run_id, "rebooted": before.boot_id != self._boot_id}
            name, span = f"gap:{before.host}:agent:{before.written_ns}", (before.written_ns, self._started_ns)
            gap = event_row(name, "gap", label, *span, host=before.host, details=details)
            self.add(row_line("events", gap))

    def add(self, line: str) -> None:
        """Add a row, as `row_line` makes it."""
        self._spool.add(line)
        if self._on_row is not None:
            self._on_row(line)

    def run(self) -> Status:
        """Run to the end; return the last status."""
        gc.freeze()  # memory from before the fork stays shared with the children
        with self._signals() as wakeup:
            for child in self.children:
                child.start()
            while not self._stopping and not self._is_over():
                self.step()
                self._wait(wakeup)
            self._shut_down(wakeup)
        return self.status("stopped")

    def step(self) -> None:
        """Do one turn: read messages, hand out ticks; every status period also write rows and status."""
        now = self._clocks.monotonic_ns()
        for child in self.children:
            child.poll()
            child.tick()
        self._begin_measuring(now)
        if now >= self._next_status_ns:
            self._next_status_ns += self._settings.status_period_ns  # without drift: shortly before the ticks
            if self._next_status_ns <= now:
                self._next_status_ns = now + self._settings.status_period_ns
            wall = self._clocks.wall_ns()
            self._spool.flush(wall)
            with self._noting_errors():
                self._spool.rotate(wall)
                if self._shipper is not None:
                    self._shipper.poll(now, wall)
                    if self._shipper.is_due(now):
                        self._spool.rotate(wall, force=True)
                        self._start_shipment(now, "running")
            if now >= self._next_baseline_ns:
                self._next_baseline_ns = now + _BASELINE_NS
                self._tidy()
            self._publish()

    def _begin_measuring(self, now: int) -> None:
        """Once all children are ready, over or failed: start the time given by --for."""
        if self._deadline_ns is not None:
            return
        if not all(child.is_ready or child.is_over or child.failed for child in self.children):
            return
        first = max([child.ready_ns or 0 for child in self.children], default=0) or now
        self._deadline_ns = 1 << 62 if self._settings.duration_ns is None else first + self._settings.duration_ns
        # Shortly before the first source's ticks: its operations have ended, and the tick finds warm caches.
        period_ns = self._settings.status_period_ns
        self._next_status_ns = first + period_ns - min(_STATUS_LEAD_NS, period_ns // 2)

    def _is_over(self) -> bool:
        """Return whether the time is over, or every source is."""
        if self._deadline_ns is not None and self._clocks.monotonic_ns() >= self._deadline_ns:
            return True
        return all(child.is_over for child in self.children)

    def _wait(self, wakeup: int) -> None:
        """Sleep until the next tick, the next status, the deadline or a signal."""
        now = self._clocks.monotonic_ns()
        times = [self._next_status_ns, *(child.next_tick_ns for child in self.children if child.next_tick_ns)]
        if self._deadline_ns is not None:
            times.append(self._deadline_ns)
        _sleep(wakeup, max(0, min(times) - now) / NS)

    def _tidy(self) -> None:
        """Keep the spool within its limit, and save the baselines."""
        with self._noting_errors():
            self._spool.keep_within_limit()
        with self._noting_errors("baseline.json"):
            save_baselines(self._baselines, self._spool.folder)

    @contextlib.contextmanager
    def _noting_errors(self, name: str = "") -> Iterator[None]:
        """Report an OSError in the status instead of raising it: the agent goes on measuring when the disk fails."""
        try:
            yield
        except OSError as error:
            self._spool.message = f"{name or error.filename or self._spool.directory}: {error.strerror}"

    def _publish(self, state: str = "running") -> None:
        """Write status.json, and show the status."""
        status = self.status(state)
        with self._noting_errors("status.json"):
            write_status(status, self._spool.folder)
        if self._on_status is not None:
            self._on_status(status)

    def _start_shipment(self, now: int, state: str) -> None:
        """Ship the closed files and the status by a child."""
        assert self._shipper is not None
        self._shipper.start(self._spool.closed_files(), now, status_bytes(self.status(state)))

    def _ship_the_rest(self, wakeup: int) -> None:
        """Ship what is left, until the lake refuses, the time is over, or a second signal arrives."""
        if self._shipper is None:
            return
        until = self._clocks.monotonic_ns() + _LAST_SHIP_NS
        started = False
        while self._stopping < 2 and (now := self._clocks.monotonic_ns()) < until:
            outcome = self._shipper.poll(now, self._clocks.wall_ns())
            if outcome is not None and not outcome.ok:
                break
            if not self._shipper.is_busy:
                if started and (outcome is None or not self._spool.closed_files()):
                    break
                self._start_shipment(now, "stopped")
                started = True
            _sleep(wakeup, 0.05)
        self._spool.keep_within_limit()

    def _shut_down(self, wakeup: int) -> None:
        """Let children that answer clean up; leave behind one that hangs, and write the operation that it was in."""
        now = self._clocks.monotonic_ns()
        for child in self.children:
            child.poll()
            child.stop(None if self._deadline_ns is None else min(now, self._deadline_ns))
        while any(not child.has_left for child in self.children):
            now = self._clocks.monotonic_ns()
            for child in self.children:
                child.poll()
                is_cleaning = child.begun is not None and child.begun.op == "clean up"
                patience = _GRACE_NS * (15 if is_cleaning else 1)
                if not child.has_left and (self._stopping > 1 or now - child.last_message_ns > patience):
                    child.leave_behind()
            _sleep(wakeup, 0.02)
        wall = self._clocks.wall_ns()
        self._spool.flush(wall)
        self._spool.flush(wall, last=True)  # once more: a short fault must not lose rows
        self._spool.close_segment()
        self._tidy()
        self._publish("stopped")
        with self._noting_errors():
            self._ship_the_rest(wakeup)
        self._publish("stopped")
        self._spool.close(wall)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[int]:
        """Yield a pipe that wakes the loop. SIGTERM, SIGINT and SIGHUP stop the agent; a second one at once."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        before_fd = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

        def stop(number: int, frame: object) -> None:
            self._stopping += 1

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
        try:
            yield reader
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(before_fd)
            os.close(reader)
            os.close(writer)

    def status(self, state: str) -> Status:
        """Return the status as of now."""
        spool, shipper = self._spool, self._shipper
        return Status(
            host=self._settings.host,
            pid=os.getpid(),
            boot_id=self._boot_id,
            run_id=self._settings.run_id,
            state="stopped" if state == "stopped" else "running",
            started_ns=self._started_ns,
            written_ns=self._clocks.wall_ns(),
            period_ns=self._settings.status_period_ns,
            spool=SpoolStatus(
                directory=str(spool.directory),
                files=spool.files,
                bytes=spool.used_bytes,
                limit_bytes=spool.limit_bytes,
                written_rows=spool.written_rows,
                dropped_rows=spool.dropped_rows,
                dropped_why=spool.dropped_why,
                message=spool.message or (shipper.message if shipper else ""),
                **(shipper.totals if shipper else {}),
            ),
            targets=tuple(child.target_status() for child in self.children if child.source.name in _PROBES),
            sources=tuple(child.source_status() for child in self.children),
            software_version=__version__,
            ship_period_ns=shipper.every_ns if shipper and shipper.server else None,
        )


def _sleep(wakeup: int, seconds: float) -> None:
    """Wait, or until a signal arrives."""
    if select.select([wakeup], [], [], seconds)[0]:
        os.read(wakeup, 64)
