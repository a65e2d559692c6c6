"""Delivery of spool files to a lake by `ioweather ingest`, or to a server by `agent.push`.

The agent never imports the lake: short-lived children bring closed spool files to it, and files that were taken are
deleted here. A child may be killed at any moment and loses nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

from ioweather.agent.spool import READABLE
from ioweather.core.errors import UnsafePlace
from ioweather.core.safe_files import PrivateDirectory
from ioweather.core.units import HOUR_NS, MINUTE_NS

_MAX_FILES: Final = 200
_MAX_REFUSED: Final = 100
_MAX_MESSAGE: Final = 300
# The one-file agent (`ioweather agent bundle`) is a zip file that Python imports from.
_ARCHIVE: Final = getattr(__spec__.loader, "archive", None) if __spec__ else None
_PUSH: Final = (
    (sys.executable, str(Path(_ARCHIVE).absolute()), "push")
    if _ARCHIVE
    else (sys.executable, "-m", "ioweather.agent.push")
)


@dataclass(frozen=True)
class Shipment:
    """Result of one attempt. `shipped` files are in the lake and deleted; `refused` ones were moved aside, and
    `refused_why` names one of them."""

    ok: bool
    shipped: int = 0
    refused: int = 0
    message: str = ""
    refused_why: str = ""


def check_url(url: str) -> str:
    """Return the URL without a trailing slash. Raises ValueError unless it is https or this machine, since a token must
    not cross a network in clear."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is not an address of a server, such as https://weather.example.org")
    is_loopback = parts.hostname == "localhost"
    with suppress(ValueError):
        is_loopback = is_loopback or ip_address(parts.hostname).is_loopback
    if parts.scheme == "http" and not is_loopback:
        raise ValueError(f"{url!r} would send the token in clear; use https")
    return url.rstrip("/")


@dataclass(frozen=True)
class Server:
    """Address of a server, and the file with the token for it."""

    url: str
    token_file: Path


def _in_memory(data: bytes = b"") -> IO[bytes]:
    """Return a file with these data; not on a disk if possible, since it may be full."""
    has_memfd = hasattr(os, "memfd_create")
    file: IO[bytes] = os.fdopen(os.memfd_create("child"), "w+b") if has_memfd else tempfile.TemporaryFile()  # noqa: SIM115 - closed by the caller
    file.write(data)
    file.seek(0)
    return file


@dataclass
class Shipper:
    """Brings closed spool files to the lake, or to a server, by one child at a time; after each failure the pause
    doubles, up to an hour."""

    lake: Path
    every_ns: int = 5 * MINUTE_NS
    command: Sequence[str] = (sys.executable, "-m", "ioweather", "ingest")
    server: Server | None = None
    # A lake that existed and is gone (not mounted, moved) is not created again in its place.
    lake_was_there: bool = False
    first_ns: int = 0  # how long rows are collected before the first attempt
    _files: list[Path] = field(default_factory=list, init=False)
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _output: IO[bytes] | None = field(default=None, init=False)
    _next_ns: int = field(default=0, init=False)
    _wait_ns: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._next_ns = time.monotonic_ns() + self.first_ns if self.first_ns else 0

    @property
    def is_busy(self) -> bool:
        return self._child is not None

    def is_due(self, now_ns: int) -> bool:
        """Return whether it is time to start a child."""
        return self._child is None and now_ns >= self._next_ns

    def start(self, files: Sequence[Path], now_ns: int, status: bytes = b"") -> None:
        """Ship the files. A server also gets the status, even without rows: perhaps everything hangs."""
        self._next_ns = now_ns + self.every_ns
        self._files = [path.absolute() for path in files[:_MAX_FILES]]  # the child runs in another directory
        if self.server is None:
            existing = ["--no-create"] if self.lake_was_there else []
            command = [*self.command, "--json", "--lake", str(self.lake), "--workers", "1", *existing]
        else:
            token = str(self.server.token_file.absolute())
            command = [*_PUSH, self.server.url, token]
        if self._files or (self.server and status):
            self._run([*command, *map(str, self._files)], status if self.server else b"")

    def _run(self, command: Sequence[str], stdin: bytes = b"") -> None:
        """Start a child in a session of its own, at low priority; its output goes to memory."""
        self._output = _in_memory()
        with _in_memory(stdin) as given:
            self._child = subprocess.Popen(
                command,
                stdin=given,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: os.nice(10),
                cwd="/",
            )

    def _result(self) -> tuple[int, str] | None:
        """Return exit code and output, once, after the child ended."""
        if self._child is None or self._output is None or self._child.poll() is None:
            return None
        code, self._child = self._child.returncode, None
        with self._output:
            self._output.seek(0)
            return code, self._output.read().decode(errors="replace").strip()

    def poll(self, now_ns: int) -> Shipment | None:
        """Return the outcome, once, after the child ended."""
        result = self._result()
        if result is None:
            return None
        code, text = result
        if code in (0, 1):
            self.lake_was_there = True
            try:
                outcome = self._settle(text)
            except UnsafePlace as error:
                outcome = Shipment(False, message=str(error)[:_MAX_MESSAGE])
        else:
            last = (text.splitlines() or [f"exit code {code}"])[-1]
            outcome = Shipment(False, message=f"the lake took nothing: {last}"[:_MAX_MESSAGE])
        if outcome.ok or outcome.shipped:
            self._wait_ns = 0
        else:
            self._wait_ns = min(max(2 * self._wait_ns, self.every_ns), HOUR_NS)
            self._next_ns = now_ns + self._wait_ns
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
        for path, message in [*refused.items()][:1]:  # by its name only: the file was moved
            name = Path(path).name
            reason = (message or "no reason given").replace(path, name)
            why = (reason if name in reason else f"{name}: {reason}")[:_MAX_MESSAGE]
        taken = len(self._files) - len(refused) - len(waiting)
        if waiting or body.get("message"):
            reason = body.get("message") or next(iter(unreadable.values()), "")
            message = f"the {'server' if self.server else 'lake'} took {taken} files: {reason}"
            return Shipment(False, taken, len(refused), message[:_MAX_MESSAGE], why)
        return Shipment(True, taken, len(refused), why, why)


def _put_away(path: Path, *, refused: bool) -> None:
    """Delete a file, or keep a refused one for an operator, up to a number of them."""
    with PrivateDirectory.at(path.parent, keep=READABLE) as segments:
        if not refused:
            segments.unlink(path.name)
            return
        with PrivateDirectory.at(path.parent.with_name("refused"), keep=READABLE) as aside:
            with suppress(FileNotFoundError):
                segments.rename(path.name, aside, path.name)
            changed = {name: aside.check(name).st_mtime_ns for name in aside.names()}
            for old in sorted(changed, key=lambda name: changed[name])[:-_MAX_REFUSED]:
                aside.unlink(old)
