"""One live source in a child process, as the agent sees it: the process, its schedule, and the result of every tick.

The agent itself touches nothing that may hang. The child is forked once, not per operation, and waits for ticks. The
agent sends a tick only to a child that waits, so nothing queues up behind a hanging operation. The agent never waits
for a child: one in uninterruptible sleep cannot be killed and is left to the kernel.

Every operation of every tick becomes exactly one row: ok or error from the child; missed if the child was busy at the
tick; pending if the child or the agent ended before the operation did.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import select
import signal
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ioweather.agent.live_baseline import Key, ObservedOperation, RunningMedian
from ioweather.agent.sensor import LiveSource, Operation, Origin, Ready, Reporter, event_row, unfinished_row
from ioweather.agent.spool import READABLE, row_line
from ioweather.agent.status import InFlight, SourceStatus, State, TargetStatus
from ioweather.core.counters.growth import Clocks
from ioweather.core.errors import IoweatherError
from ioweather.core.safe_files import PrivateDirectory
from ioweather.core.units import NS

_PROGRESS_NS = NS // 2
_TICK = struct.Struct("=q")
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031  # fcntl(2); Python names it from 3.10 on
_READ_BYTES = 1 << 16
_CYCLES_PER_COLLECTION = 100


class Dismissed(Exception):
    """The agent stops while the child is still preparing."""


class PipeReporter(Reporter):
    """The child's end of the pipe: one JSON line per message. If the agent is gone, the child runs until its next
    tick. While `ticks` is set, `progress` raises Dismissed once that pipe is closed."""

    def __init__(self, fd: int, documents: Path) -> None:
        self._fd = fd
        self._documents = documents
        self._last_progress_ns = 0
        self.ticks: int | None = None

    def begin(self, op: str, request_bytes: int, scheduled_ns: int | None) -> None:
        self.send("begin", op, request_bytes, scheduled_ns, time.time_ns(), time.monotonic_ns())

    def row(self, table: str, values: Mapping[str, object]) -> None:
        self._write(row_line(table, values))

    def document(self, name: str, text: str) -> None:
        with PrivateDirectory.named(self._documents, keep=READABLE) as folder:
            folder.replace(name, text.encode())

    def progress(self, done: int, total: int | None, what: str) -> None:
        # No tick comes before the child is ready: what can be read is the end of the pipe.
        if self.ticks is not None and select.select([self.ticks], [], [], 0)[0]:
            raise Dismissed
        now = time.monotonic_ns()
        if now - self._last_progress_ns > _PROGRESS_NS or done == total:
            self._last_progress_ns = now
            self.send("progress", done, total, what)

    def done(self) -> None:
        self.send("done")

    def send(self, *message: object) -> None:
        """Send a message other than a row: its kind and its values."""
        self._write(json.dumps(message, separators=(",", ":")))

    def _write(self, line: str) -> None:
        data = f"{line}\n".encode()
        with suppress(BrokenPipeError):
            while data:
                data = data[os.write(self._fd, data) :]


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
        _serve(source, PipeReporter(reports, documents), ticks)
        code = 0
    finally:
        os._exit(code)


def _serve(source: LiveSource, reporter: PipeReporter, ticks: int) -> None:
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


class _Begun(NamedTuple):
    op: str
    request_bytes: int
    scheduled_ns: int | None
    start_ns: int
    monotonic_ns: int


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
        self.begun: _Begun | None = None
        self.is_busy = self.is_over = self.failed = False
        self._owed: dict[Operation, int] = {}  # operations of the running cycle without a row yet, and their tick
        self._restart_ns, self._wait_ns = 0, _FIRST_WAIT_NS
        self._observed: dict[Operation, ObservedOperation] = {}
        self._ready: Ready | None = None
        self.message = self._progress = ""
        self.last_message_ns = 0
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
            self._rows += 1
            self._add(line)
            if body["table"] == "responses":
                operation = Operation(body["op"], body["request_bytes"], body["mode"])
                self.begun = None
                self._owed.pop(operation, None)
                self._observe(operation).add(body, now)
            return
        kind, *values = body
        if kind == "begin":
            self.begun = _Begun(*values)
        elif kind == "end":
            self._last_duration_ns, self._last_ok, message = values
            self.is_busy, self.begun = False, None
            self._owed.clear()
            self._runs += 1
            self._failed_runs += not self._last_ok
            self.message = self._ready.message if self._last_ok and self._ready else message
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
            self._cycle_start = (wall, now)
            self._owed = dict.fromkeys(self.source.operations, scheduled_ns)
            self._worker.tick(scheduled_ns)
        self._write_missed(due, wall - now)

    def _write_missed(self, missed: range, offset_ns: int) -> None:
        if not self.source.is_periodic:
            return
        self._missed += len(missed)
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

    def _common_status(self, age_ns: int) -> dict[str, Any]:
        state: State = "running"
        if self.failed:
            state = "failed"
        elif self._worker is None:
            state = "stopped"
        elif self.handles_files:
            state = "preparing"
        elif not self.is_busy:
            state = "waiting"
        elif age_ns > max(self.source.period_ns, _MIN_HUNG_NS):
            state = "hung"
        return {
            "state": state,
            "period_ns": self.source.period_ns,
            "pid": self._worker.pid if self._worker else None,
            "missed_ticks": self._missed,
            "message": self._progress or self.message,
        }

    def target_status(self) -> TargetStatus:
        """Return the status of a probed target."""
        now, begun, in_flight = self._clocks.monotonic_ns(), self.begun, None
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
        """Return the status of a source, whether it is a probe or not."""
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
