"""The agent: one loop that hands out ticks, collects rows in the spool, ships them, and publishes its status.

It wakes up for ticks and for its status, not for every message of a child, so that little runs during a timed
operation. It opens nothing on a probed file system, so that nothing there can stop it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ioweather._version import __version__
from ioweather.agent.child import Child, StartWorker, Worker, load_baselines, save_baselines
from ioweather.agent.delivery import Shipper
from ioweather.agent.sensor import LiveSource, Origin, event_row
from ioweather.agent.spool import Spool, row_line
from ioweather.agent.status import SpoolStatus, Status, read_status, status_bytes, write_status
from ioweather.core.clock import boot_id
from ioweather.core.counters.growth import Clocks
from ioweather.core.errors import IoweatherError
from ioweather.core.safe_files import system_of
from ioweather.core.units import MINUTE_NS, NS

_LAST_SHIP_NS = 2 * MINUTE_NS
_BASELINE_NS = MINUTE_NS
_STATUS_LEAD_NS = 20_000_000  # long enough to write it on a busy machine
_PROBES = ("probe", "sample")


@dataclass
class AgentSettings:
    """Settings of one run. `grace_ns`: how long a silent child is waited for at the end. `retry`: start a source again
    that failed. `record_gap`: write the time since the previous agent as an event."""

    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    host: str = field(default_factory=socket.gethostname)
    duration_ns: int | None = None  # from the moment when every source is ready
    status_period_ns: int = NS
    grace_ns: int = 2 * NS
    annotation: str | None = None
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
        self._annotation: dict[str, object] | None = None
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
                documents=spool.segments,
                baselines=self._baselines,
                retry=settings.retry,
                phase_ns=place * source.period_ns // len(sources),
            )
            for place, source in enumerate(sources)
        ]

    def _origin(self, source: LiveSource) -> Origin:
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
            label = "agent stopped" if before.state == "stopped" else "agent ended without saying so"
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
            self._next_status_ns = max(self._next_status_ns, now - 1) + self._settings.status_period_ns
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
        """Once all children are ready, over or failed: start the time given by --for, and the annotation."""
        if self._deadline_ns is not None:
            return
        if not all(child.is_ready or child.is_over or child.failed for child in self.children):
            return
        first = max([child.ready_ns or 0 for child in self.children], default=0) or now
        self._deadline_ns = 1 << 62 if self._settings.duration_ns is None else first + self._settings.duration_ns
        # Shortly before the first source's ticks: its operations have ended, and the tick finds warm caches.
        period_ns = self._settings.status_period_ns
        self._next_status_ns = first + period_ns - min(_STATUS_LEAD_NS, period_ns // 2)
        if self._settings.annotation is not None:
            name = f"annotation:{self._settings.host}:{self._settings.run_id}"
            text, at_ns = self._settings.annotation, self._clocks.wall_ns()
            self._annotation = event_row(name, "annotation", text, at_ns, host=self._settings.host)
            self.add(row_line("events", self._annotation))

    def _is_over(self) -> bool:
        if self._deadline_ns is not None and self._clocks.monotonic_ns() >= self._deadline_ns:
            return True
        return all(child.is_over for child in self.children)

    def _wait(self, wakeup: int) -> None:
        now = self._clocks.monotonic_ns()
        times = [self._next_status_ns, *(child.next_tick_ns for child in self.children if child.next_tick_ns)]
        if self._deadline_ns is not None:
            times.append(self._deadline_ns)
        _sleep(wakeup, max(0, min(times) - now) / NS)

    def _tidy(self) -> None:
        with self._noting_errors():
            self._spool.keep_within_limit()
        with self._noting_errors("baseline.json"):
            save_baselines(self._baselines, self._spool.folder)

    @contextlib.contextmanager
    def _noting_errors(self, name: str = "") -> Iterator[None]:
        """A disk that fails under the spool is reported in the status, and the agent goes on measuring."""
        try:
            yield
        except OSError as error:
            self._spool.message = f"{name or error.filename or self._spool.directory}: {error.strerror}"

    def _publish(self, state: str = "running") -> None:
        status = self.status(state)
        with self._noting_errors("status.json"):
            write_status(status, self._spool.folder)
        if self._on_status is not None:
            self._on_status(status)

    def _start_shipment(self, now: int, state: str) -> None:
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
                patience = self._settings.grace_ns * (15 if is_cleaning else 1)
                if not child.has_left and (self._stopping > 1 or now - child.last_message_ns > patience):
                    child.leave_behind()
            _sleep(wakeup, 0.02)
        wall = self._clocks.wall_ns()
        if self._annotation is not None:
            self.add(row_line("events", {**self._annotation, "end_ns": wall}))
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
                **{"message": spool.message, **(shipper.totals(spool.message) if shipper else {})},
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
