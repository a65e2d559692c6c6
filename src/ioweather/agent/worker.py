"""A live source in a child process, so that the agent itself never touches anything that may hang.

The child is forked once, not per operation, and waits for ticks. The agent sends one only to a child that waits, so
nothing piles up behind a hanging operation. The agent never waits for a child: one in uninterruptible sleep cannot be
killed, and is left to the kernel.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import select
import signal
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from ioweather.agent.sensor import LiveSource, Ready, Reporter
from ioweather.agent.spool import READABLE, row_line
from ioweather.core.errors import IoweatherError
from ioweather.core.safe_files import PrivateDirectory

_PROGRESS_NS = 500_000_000
_TICK = struct.Struct("=q")
_PIPE_BYTES = 1 << 20
_READ_BYTES = 1 << 16
_CYCLES_PER_COLLECTION = 100


class Dismissed(Exception):
    """The agent stops while the child still prepares."""


class PipeReporter(Reporter):
    """The child's end: one JSON line per message. Without an agent the child goes on until its next tick."""

    def __init__(self, fd: int, documents: Path) -> None:
        self._fd = fd
        self._documents = documents
        self._last_progress_ns = 0
        self._ticks: select.poll | None = None

    def heed(self, ticks: int | None) -> None:
        """From now on `progress` raises Dismissed once this pipe is closed."""
        self._ticks = None
        if ticks is not None:
            self._ticks = select.poll()
            self._ticks.register(ticks, 0)  # a closed pipe is always reported

    def begin(self, op: str, request_bytes: int, scheduled_ns: int | None) -> None:
        self._send(["begin", op, request_bytes, scheduled_ns, time.time_ns(), time.monotonic_ns()])

    def row(self, table: str, values: Mapping[str, object]) -> None:
        self._write(row_line(table, values))

    def document(self, name: str, text: str) -> None:
        with PrivateDirectory.named(self._documents, keep=READABLE) as folder:
            folder.replace(name, text.encode())
        self._send(["document", name])

    def progress(self, done: int, total: int | None, what: str) -> None:
        if self._ticks is not None and self._ticks.poll(0):
            raise Dismissed
        now = time.monotonic_ns()
        if now - self._last_progress_ns > _PROGRESS_NS or done == total:
            self._last_progress_ns = now
            self._send(["progress", done, total, what])

    def done(self) -> None:
        self._send(["done"])

    def ready(self, facts: Ready) -> None:
        self._send(["ready", facts.system, facts.access, facts.message])

    def end(self, duration_ns: int, ok: bool = True, message: str = "") -> None:
        self._send(["end", duration_ns, ok, message])

    def failed(self, message: str) -> None:
        self._send(["failed", message])

    def _send(self, body: list[object]) -> None:
        self._write(json.dumps(body, separators=(",", ":")))

    def _write(self, line: str) -> None:
        data = f"{line}\n".encode()
        with contextlib.suppress(BrokenPipeError):
            while data:
                data = data[os.write(self._fd, data) :]


class Worker:
    def __init__(self, source: LiveSource, documents: Path) -> None:
        self._buffer = b""
        self.has_ended = False
        ticks_read, self._ticks = os.pipe()
        self._reports, reports_write = os.pipe()
        with contextlib.suppress(OSError):  # only room for more; the system may set a limit
            fcntl.fcntl(reports_write, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self.pid = os.fork()
        if self.pid == 0:
            _be_the_child(source, documents, ticks_read, reports_write)
        os.close(ticks_read)
        os.close(reports_write)
        os.set_blocking(self._reports, False)

    def tick(self, scheduled_ns: int) -> None:
        """Start a cycle. Eight bytes into an empty pipe do not block."""
        with contextlib.suppress(BrokenPipeError):  # it died; `lines` finds its end
            os.write(self._ticks, _TICK.pack(scheduled_ns))

    def lines(self) -> list[str]:
        """Complete messages since the last call; sets `has_ended` when the child is gone."""
        while not self.has_ended:
            try:
                data = os.read(self._reports, _READ_BYTES)
            except BlockingIOError:
                break
            self._buffer += data
            self.has_ended = not data
            if len(data) < _READ_BYTES:
                break
        *lines, self._buffer = self._buffer.split(b"\n")
        return [line.decode() for line in lines]

    def dismiss(self) -> None:
        """No more ticks: the child finishes and ends by itself."""
        if self._ticks >= 0:
            os.close(self._ticks)
            self._ticks = -1

    def abandon(self, *, kill: bool = True) -> None:
        """Kill it if that is possible, and do not wait. One that is left alive ends by itself."""
        self.dismiss()
        if kill:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)
        self.release()

    def release(self) -> None:
        """Reap it if it is dead; otherwise init does when the agent is gone."""
        self.dismiss()
        if self._reports >= 0:
            os.close(self._reports)
            self._reports = -1
        self.has_ended = True
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)


def _be_the_child(source: LiveSource, documents: Path, ticks: int, reports: int) -> None:
    """Never returns."""
    code = 1
    try:
        # The agent decides when to stop; a terminal or systemd signals the whole group.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        # Close the other children's pipes: they must end with the agent, not with their last sibling. A child that is
        # left behind must not keep a terminal or a pipe open either.
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        low = 3
        for fd in sorted((ticks, reports)):
            os.closerange(low, fd)
            low = fd + 1
        os.closerange(low, min(os.sysconf("SC_OPEN_MAX"), 1 << 16))
        os.chdir("/")  # no mount is held busy
        gc.freeze()
        gc.disable()  # no collection during a timed operation
        _serve(source, PipeReporter(reports, documents), ticks)
        code = 0
    finally:
        os._exit(code)


def _serve(source: LiveSource, reporter: PipeReporter, ticks: int) -> None:
    try:
        reporter.heed(ticks)
        try:
            ready = source.prepare(reporter)
        except (Dismissed, OSError, IoweatherError):  # a source that cannot begin, or need not, leaves nothing behind
            reporter.heed(None)
            with contextlib.suppress(OSError, IoweatherError):
                source.finish(reporter)
            raise
        reporter.heed(None)
        reporter.ready(ready)
        cycles = 0
        while len(data := os.read(ticks, _TICK.size)) == _TICK.size:
            started, ok, message = time.monotonic_ns(), True, ""
            try:
                source.cycle(_TICK.unpack(data)[0], reporter)
            except (OSError, IoweatherError) as error:
                ok, message = False, str(error)
            reporter.end(time.monotonic_ns() - started, ok, message)
            cycles += 1
            if cycles % _CYCLES_PER_COLLECTION == 0:
                gc.collect()
        source.finish(reporter)
    except Dismissed:
        pass
    except (OSError, IoweatherError) as error:
        reporter.failed(str(error))
    except Exception as error:
        reporter.failed(f"{type(error).__name__}: {error}. Please report this.")
