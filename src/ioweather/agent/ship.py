"""Short-lived children of the agent: one brings closed spool files to the lake, one runs `ioweather ingest --watch`.

Files go to the lake by `ioweather ingest`, or by `collect.push` if the lake is behind a server. The agent never imports
the lake. Files that the lake has are deleted here. A child may be stopped at any moment and loses nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ioweather.agent.spool import READABLE
from ioweather.agent.status import SourceStatus
from ioweather.core.errors import UnsafePlace
from ioweather.core.safe_files import PrivateDirectory
from ioweather.core.units import HOUR_NS, MINUTE_NS

_MOST_FILES = 200
_MOST_REFUSED = 100
# Catching up rests four times as long as it worked: a directory that is slow to list is listed less often.
_REST = 4


@dataclass(frozen=True)
class Shipment:
    """Result of one attempt. `shipped` files are in the lake and deleted; `refused` ones were moved aside, and
    `refused_why` names one of them."""

    ok: bool
    shipped: int = 0
    refused: int = 0
    message: str = ""
    refused_why: str = ""


@dataclass(frozen=True)
class Server:
    """Where to push to, and the file with the token."""

    url: str
    token_file: Path


@dataclass
class _Program:
    """At most one child at a time; after each failure the pause doubles, up to an hour."""

    lake: Path
    every_ns: int
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _output: IO[bytes] | None = field(default=None, init=False)
    _next_ns: int = field(default=0, init=False)
    _wait_ns: int = field(default=0, init=False)

    @property
    def is_busy(self) -> bool:
        return self._child is not None

    def is_due(self, now_ns: int) -> bool:
        return self._child is None and now_ns >= self._next_ns

    def _run(self, command: Sequence[str], stdin: bytes = b"") -> None:
        """Start a child in a session of its own, at low priority; its output goes to memory."""
        self._output = _in_memory()
        with _in_memory(stdin) as given:
            self._child = subprocess.Popen(
                command, stdin=given, stdout=self._output, stderr=subprocess.STDOUT, start_new_session=True,
                preexec_fn=lambda: os.nice(10), cwd="/",
            )  # fmt: skip

    def _result(self) -> tuple[int, str] | None:
        """Exit code and output, once, after the child ended."""
        if self._child is None or self._output is None or self._child.poll() is None:
            return None
        code, self._child = self._child.returncode, None
        with self._output:
            self._output.seek(0)
            return code, self._output.read().decode(errors="replace").strip()

    def _pause(self, now_ns: int, *, ok: bool, least_ns: int) -> None:
        self._wait_ns = 0 if ok else min(max(2 * self._wait_ns, self.every_ns), HOUR_NS)
        self._next_ns = now_ns + max(self._wait_ns, least_ns)

    def stop(self) -> None:
        """End the child without waiting for its work."""
        if self._child is not None:
            with suppress(ProcessLookupError):
                self._child.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(1.0)
            self._child = None
        if self._output is not None:
            self._output.close()


def _in_memory(data: bytes = b"") -> IO[bytes]:
    """Not on a disk where possible: it may be full."""
    has_memfd = hasattr(os, "memfd_create")
    file: IO[bytes] = os.fdopen(os.memfd_create("child"), "w+b") if has_memfd else tempfile.TemporaryFile()  # noqa: SIM115 - closed by the caller
    file.write(data)
    file.seek(0)
    return file


def _last_line(code: int, text: str) -> str:
    return (text.splitlines()[-1:] or [f"exit code {code}"])[0][:300]


@dataclass
class Shipper(_Program):
    every_ns: int = 5 * MINUTE_NS
    command: Sequence[str] = (sys.executable, "-m", "ioweather", "ingest")
    server: Server | None = None
    # A lake that existed and is gone (not mounted, moved) is not created again in its place.
    lake_was_there: bool = False
    _files: list[Path] = field(default_factory=list, init=False)

    def start(self, files: Sequence[Path], now_ns: int, status: bytes = b"") -> None:
        """Ship the files. A server also gets the status, even without rows: perhaps everything hangs."""
        self._next_ns = now_ns + self.every_ns
        self._files = [path.absolute() for path in files[:_MOST_FILES]]  # the child runs in another directory
        if self.server is None:
            there = ["--no-create"] if self.lake_was_there else []
            command = [*self.command, "--json", "--lake", str(self.lake), "--workers", "1", *there]
        else:
            token = str(self.server.token_file.absolute())
            command = [sys.executable, "-m", "ioweather.agent.push", self.server.url, token]
        if self._files or (self.server and status):
            self._run([*command, *map(str, self._files)], status if self.server else b"")

    def poll(self, now_ns: int) -> Shipment | None:
        """The outcome, once, after the child ended."""
        result = self._result()
        if result is None:
            return None
        code, text = result
        if code in (0, 1):
            self.lake_was_there = True
            try:
                outcome = self._settle(text)
            except UnsafePlace as error:
                outcome = Shipment(False, message=str(error)[:300])
        else:
            outcome = Shipment(False, message=f"the lake took nothing: {_last_line(code, text)}")
        if outcome.ok or outcome.shipped:
            self._wait_ns = 0
        else:
            self._pause(now_ns, ok=False, least_ns=0)
        return outcome

    def _settle(self, text: str) -> Shipment:
        """Delete files that are in the lake, move refused ones aside, and leave those that wait."""
        try:
            body = json.loads(text)
            # The disk failed, not the file: it may be readable tomorrow.
            unreadable = {e["path"]: e["message"] for e in body["refused"] if e.get("reason") == "unreadable"}
            refused = {e["path"]: e["message"] for e in body["refused"] if e["path"] not in unreadable}
            waiting = {*body.get("waiting", ()), *unreadable}
        except (ValueError, KeyError, TypeError):
            return Shipment(False, message=f"the child said what is not JSON: {text[:200]!r}")
        for path in self._files:
            if str(path) not in waiting:
                _put_away(path, refused=str(path) in refused)
        why = ""
        for path, message in [*refused.items()][:1]:  # with the name alone: the file was moved
            name = Path(path).name
            said = (message or "no reason given").replace(path, name)
            why = (said if name in said else f"{name}: {said}")[:300]
        taken = len(self._files) - len(refused) - len(waiting)
        if waiting or body.get("message"):
            said = body.get("message") or next(iter(unreadable.values()), "")
            who = "server" if self.server else "lake"
            return Shipment(False, taken, len(refused), f"the {who} took {taken} files: {said}"[:300], why)
        return Shipment(True, taken, len(refused), why, why)


def _put_away(path: Path, *, refused: bool) -> None:
    """Delete a file, or keep a refused one for an operator: a limited number."""
    with PrivateDirectory.at(path.parent, keep=READABLE) as segments:
        if not refused:
            segments.unlink(path.name)
            return
        with PrivateDirectory.at(path.parent.with_name("refused"), keep=READABLE) as aside:
            with suppress(FileNotFoundError):
                segments.rename(path.name, aside, path.name)
            changed = {name: aside.check(name).st_mtime_ns for name in aside.names()}
            for old in sorted(changed, key=lambda name: changed[name])[:-_MOST_REFUSED]:
                aside.unlink(old)


@dataclass
class CatchUp(_Program):
    """Reads new files of watched directories and judges finished runs, again and again."""

    every_ns: int = MINUTE_NS
    accounting: bool = True
    command: Sequence[str] = (sys.executable, "-m", "ioweather", "ingest", "--watch", "--once")
    _began: tuple[int, int] = field(default=(0, 0), init=False)  # monotonic and wall time
    _done: SourceStatus = field(init=False)

    def __post_init__(self) -> None:
        self._done = SourceStatus("catch-up", "waiting", self.every_ns)

    def step(self, now_ns: int, wall_ns: int) -> None:
        """Take the result of a child that ended; start the next one when it is due."""
        if self.is_due(now_ns):
            more = () if self.accounting else ("--no-accounting",)
            self._began = (now_ns, wall_ns)
            self._run([*self.command, "--json", "--lake", str(self.lake.absolute()), *more])
        elif result := self._result():
            ok, message, rows = _read_answer(*result)
            took, done = now_ns - self._began[0], self._done
            self._done = SourceStatus(
                done.name, "waiting", self.every_ns, None, done.runs + 1, done.failed_runs + (not ok), 0,
                done.rows + rows, self._began[1], took, ok, message,
            )  # fmt: skip
            self._pause(now_ns, ok=ok, least_ns=max(self.every_ns - took, _REST * took))

    def status(self) -> SourceStatus:
        if self._child is None:
            return self._done
        return SourceStatus(**{**vars(self._done), "state": "running", "pid": self._child.pid})


def _read_answer(code: int, text: str) -> tuple[bool, str, int]:
    """Whether catching up succeeded, its message, and the number of new rows and verdicts."""
    if code not in (0, 1):
        return False, _last_line(code, text), 0
    try:
        body = json.loads(text)
        messages = [*body["troubles"], *body["refused"].values()]
        return True, "; ".join(messages[:2])[:300], sum(body["rows_added"].values()) + body["verdicts"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return False, f"the child said what is not JSON: {text[:200]!r}", 0
