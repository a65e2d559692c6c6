"""The agent: one loop that hands out ticks, gathers rows into the spool, ships them, and says how things stand.

It wakes for ticks and for its status, not for every message of a child: nothing runs beside a timed operation that need
not. It opens nothing on a probed file system, so that nothing there can stop it.
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
from ioweather.agent.live_baseline import load_baselines, save_baselines
from ioweather.agent.member import Member, StartChild
from ioweather.agent.sensor import LiveSource, Origin, event_row
from ioweather.agent.ship import CatchUp, Shipment, Shipper
from ioweather.agent.spool import Spool, row_line
from ioweather.agent.status import SpoolStatus, Status, read_status, status_bytes, write_status
from ioweather.agent.worker import Worker
from ioweather.core.clock import boot_id
from ioweather.core.counters.growth import Clocks
from ioweather.core.errors import IoweatherError
from ioweather.core.safe_files import system_of
from ioweather.core.units import MINUTE_NS, NS

_LAST_SHIP_NS = 2 * MINUTE_NS
_BASELINE_NS = MINUTE_NS
_STATUS_LEAD_NS = 20_000_000  # long enough to write it on a busy machine
# Between two statuses a look at children that are busy: one that hangs is told of at once, not with the next status.
_LOOK_NS = NS // 2
_LATE_NS = NS // 4
_PROBES = ("probe", "sample")


def new_run_id() -> str:
    return uuid.uuid4().hex[:12]


@dataclass
class AgentSettings:
    run_id: str = field(default_factory=new_run_id)
    host: str = field(default_factory=socket.gethostname)
    duration_ns: int | None = None  # counted from when every source is ready
    status_period_ns: int = NS
    grace_ns: int = 2 * NS  # how long a child that says nothing is waited for at the end
    annotation: str | None = None
    retry: bool = True  # start a source again that failed; else it is over
    record_gap: bool = False  # write down the time since the agent before


class Agent:
    def __init__(
        self,
        sources: Sequence[LiveSource],
        spool: Spool,
        settings: AgentSettings,
        *,
        shipper: Shipper | None = None,
        catch_up: CatchUp | None = None,
        clocks: Clocks | None = None,
        start_child: StartChild = Worker,
        on_status: Callable[[Status], None] | None = None,
        on_row: Callable[[str], None] | None = None,
    ) -> None:
        self._spool, self._settings, self._shipper, self._catch_up = spool, settings, shipper, catch_up
        self._clocks = clocks or Clocks()
        self._on_status, self._on_row = on_status, on_row
        self._started_ns = self._clocks.wall_ns()
        self._next_status_ns = self._clocks.monotonic_ns()
        self._next_baseline_ns = self._next_status_ns + _BASELINE_NS
        self._look_ns = 0
        self._deadline_ns: int | None = None
        self._stopping = 0
        self._shipped = self._refused = 0
        self._refused_why = ""
        self._last_ship: tuple[int, bool, str] | None = None
        self._annotation: dict[str, object] | None = None
        self._boot_id = boot_id()
        self._baselines = load_baselines(spool.directory)
        self._write_gap()
        self.members = [
            Member(
                source, self._origin(source), self.add, self._clocks, start_child=start_child, documents=spool.segments,
                baselines=self._baselines, retry=settings.retry, phase_ns=place * source.period_ns // len(sources),
            )
            for place, source in enumerate(sources)
        ]  # fmt: skip

    def _origin(self, source: LiveSource) -> Origin:
        system = system_of(source.label) if source.name in _PROBES else self._settings.host
        return Origin(self._settings.host, source.label, system, self._settings.run_id)

    # Rows from members

    def add(self, line: str) -> None:
        self._spool.add(line)
        if self._on_row is not None:
            self._on_row(line)

    # The loop

    def run(self) -> Status:
        """Until the time is over, every source is, or a signal comes."""
        gc.freeze()  # what is here before the fork stays shared with the children
        with self._signals() as wakeup:
            for member in self.members:
                member.start()
            while not self._stopping and not self._is_over():
                self.step()
                self._wait(wakeup)
            self._shut_down(wakeup)
        return self.status("stopped")

    def step(self) -> None:
        """One turn: hear the children, hand out ticks; every status period also write everything down."""
        now = self._clocks.monotonic_ns()
        writes, late = now >= self._next_status_ns, False
        for member in self.members:
            # A child that waits has said all; one that is busy may have become free for the tick that is due.
            if writes or member.is_busy:
                member.poll()
            late = late or member.is_in_flight_since(now - _LATE_NS)
            member.tick()
            if member.is_busy and self._look_ns <= now:
                self._look_ns = now + _LOOK_NS
        self._begin_measuring(now)
        if late and not writes:
            self._publish(self.status("running"))
        if writes:
            self._next_status_ns += self._settings.status_period_ns
            if self._next_status_ns <= now:
                self._next_status_ns = now + self._settings.status_period_ns
            self._write_down()

    def _begin_measuring(self, now: int) -> None:
        """When all are prepared, or wait for what they need: the time given by --for begins, and so does the
        annotation."""
        if self._deadline_ns is not None:
            return
        if not all(member.is_ready or member.is_over or member.failed for member in self.members):
            return
        first = max([member.began_ns or 0 for member in self.members], default=0) or now
        self._deadline_ns = 1 << 62 if self._settings.duration_ns is None else first + self._settings.duration_ns
        # Shortly before the first source's ticks: its operations are through, and the tick finds the processor warm.
        self._next_status_ns = (
            first + self._settings.status_period_ns - min(_STATUS_LEAD_NS, self._settings.status_period_ns // 2)
        )
        if self._settings.annotation is not None:
            name = f"annotation:{self._settings.host}:{self._settings.run_id}"
            text, at_ns = self._settings.annotation, self._clocks.wall_ns()
            self._annotation = event_row(name, "annotation", text, at_ns, host=self._settings.host)
            self.add(row_line("events", self._annotation))

    def _is_over(self) -> bool:
        if self._deadline_ns is not None and self._clocks.monotonic_ns() >= self._deadline_ns:
            return True
        return all(member.is_over for member in self.members)

    def _wait(self, wakeup: int) -> None:
        ticks = [member.next_tick_ns for member in self.members if member.next_tick_ns is not None]
        if self._look_ns > self._clocks.monotonic_ns():
            ticks.append(self._look_ns)
        until = min([self._next_status_ns, *ticks, *([self._deadline_ns] if self._deadline_ns else [])])
        seconds = max(0, until - self._clocks.monotonic_ns()) / NS
        if select.select([wakeup], [], [], seconds)[0]:
            os.read(wakeup, 4096)

    def _write_down(self) -> None:
        wall, now = self._clocks.wall_ns(), self._clocks.monotonic_ns()
        self._spool.flush(wall)
        with self._going_on():
            self._spool.rotate(wall)
            self._ship(wall, now)
            if self._catch_up is not None:
                self._catch_up.step(now, wall)
        if now >= self._next_baseline_ns:
            self._next_baseline_ns = now + _BASELINE_NS
            with self._going_on():
                self._spool.keep_within_limit()
            self._save_baselines()
        self._publish(self.status("running"))

    @contextlib.contextmanager
    def _going_on(self) -> Iterator[None]:
        """A disk that fails under the spool is told in the status, and the agent measures on."""
        try:
            yield
        except OSError as error:
            self._spool.message = f"{error.filename or self._spool.directory}: {error.strerror}"

    def _publish(self, status: Status) -> None:
        try:
            write_status(status, self._spool.folder)
        except OSError as error:
            self._spool.message = f"status.json: {error.strerror}"
        if self._on_status is not None:
            self._on_status(status)

    def _save_baselines(self) -> None:
        try:
            save_baselines(self._baselines, self._spool.folder)
        except OSError as error:
            self._spool.message = f"baseline.json: {error.strerror}"

    # Shipping

    def _ship(self, wall: int, now: int) -> None:
        if self._shipper is None:
            return
        outcome = self._shipper.poll(now)
        if outcome is not None:
            self._note(outcome, wall)
            self._spool.keep_within_limit()
        if self._shipper.is_due(now):
            self._spool.rotate(wall, force=True)
            self._shipper.start(self._spool.closed_files(), now, status_bytes(self.status("running")))

    def _note(self, outcome: Shipment, wall: int) -> None:
        self._shipped += outcome.shipped
        self._refused += outcome.refused
        self._refused_why = outcome.refused_why or self._refused_why
        self._last_ship = (wall, outcome.ok, outcome.message)

    def _ship_the_rest(self, wakeup: int) -> None:
        """What is left, as long as the lake takes it and nobody is impatient."""
        if self._shipper is None:
            return
        until = self._clocks.monotonic_ns() + _LAST_SHIP_NS
        started = False
        while self._stopping < 2 and (now := self._clocks.monotonic_ns()) < until:
            outcome = self._shipper.poll(now)
            if outcome is not None:
                self._note(outcome, self._clocks.wall_ns())
                if not outcome.ok:
                    break
            if not self._shipper.is_busy:
                files = self._spool.closed_files()
                if started and (not files or outcome is None):
                    break
                self._shipper.start(files, now, status_bytes(self.status("stopped")))
                started = True
            if select.select([wakeup], [], [], 0.05)[0]:
                os.read(wakeup, 4096)
        self._spool.keep_within_limit()

    # The end

    def _shut_down(self, wakeup: int) -> None:
        """Children that answer may clean up; one that hangs is left behind, and what it was doing is written down."""
        now = self._clocks.monotonic_ns()
        if self._catch_up is not None:
            self._catch_up.stop()
        for member in self.members:
            member.poll()
            if self._deadline_ns is not None:
                member.miss_until(min(now, self._deadline_ns))
            member.stop()
        while any(not member.has_left for member in self.members):
            now = self._clocks.monotonic_ns()
            for member in self.members:
                member.poll()
                patience = self._settings.grace_ns * (15 if member.is_cleaning else 1)
                if not member.has_left and (self._stopping > 1 or now - member.heard_ns > patience):
                    member.leave_behind()
            if select.select([wakeup], [], [], 0.02)[0]:
                os.read(wakeup, 4096)
        wall = self._clocks.wall_ns()
        if self._annotation is not None:
            self.add(row_line("events", {**self._annotation, "end_ns": wall}))
        self._spool.flush(wall)
        self._spool.flush(wall, last=True)  # once more: a fault of a moment shall cost no rows
        self._spool.close_segment()
        self._save_baselines()
        with self._going_on():
            self._spool.keep_within_limit()
        self._publish(self.status("stopped"))
        with self._going_on():
            self._ship_the_rest(wakeup)
        self._publish(self.status("stopped"))
        self._spool.close(wall)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[int]:
        """SIGTERM, SIGINT and SIGHUP ask to stop; asked twice, nothing is waited for."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        before_fd = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        before = {number: signal.signal(number, self._ask_to_stop) for number in numbers}
        try:
            yield reader
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(before_fd)
            os.close(reader)
            os.close(writer)

    def _ask_to_stop(self, number: int, frame: object) -> None:
        self._stopping += 1

    # What is known

    def status(self, state: str) -> Status:
        spool, ship = self._spool, self._last_ship
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
                shipped_files=self._shipped,
                refused_files=self._refused,
                last_ship_ns=ship[0] if ship else None,
                last_ship_ok=ship[1] if ship else None,
                message=spool.message or (ship[2] if ship else ""),
                dropped_why=spool.dropped_why,
                refused_why=self._refused_why,
            ),
            targets=tuple(member.target_status() for member in self.members if member.source.name in _PROBES),
            sources=(
                *(member.source_status() for member in self.members),
                *([self._catch_up.status()] if self._catch_up is not None else []),
            ),
            software_version=__version__,
            ship_period_ns=self._shipper.every_ns if self._shipper and self._shipper.server else None,
        )

    def _write_gap(self) -> None:
        """The time between the agent before and this one was measured by nobody."""
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
