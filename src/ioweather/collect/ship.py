"""Shipping: a short-lived child brings closed files of the spool to the lake; what is in is deleted here.

The child is `ioweather ingest`, or `collect.push` where the lake is behind a server. Both speak of a file as taken only
when the ledger does. The server gets the agent's status too. The agent never imports the lake.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from ioweather.collect.spool import READABLE
from ioweather.core.errors import UnsafePlace
from ioweather.core.private_directory import PrivateDirectory
from ioweather.core.units import HOUR_NS, MINUTE_NS

_MOST_FILES = 200
_MOST_REFUSED = 100
_REFUSED = "refused"


@dataclass(frozen=True)
class Shipment:
    """What became of it. `shipped` files are in the lake and deleted; `refused` ones were moved aside, and
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


def check_url(url: str) -> str:
    """https, or this machine: a token must not cross a network in clear."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is not an address of a server, such as https://weather.example.org")
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise ValueError(f"{url!r} would send the token in clear; use https")
    return url.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass
class Shipper:
    """At most one child at a time; after a failure the next try waits twice as long, up to an hour."""

    lake: Path
    every_ns: int = 5 * MINUTE_NS
    command: Sequence[str] = (sys.executable, "-m", "ioweather", "ingest")
    server: Server | None = None
    # A lake that was there and is gone (not mounted, moved) is waited for, not made again in its place.
    lake_was_there: bool = False
    _child: subprocess.Popen[bytes] | None = None
    _output: IO[bytes] | None = None
    _files: list[Path] = field(default_factory=list)
    _next_ns: int = 0
    _wait_ns: int = 0

    @property
    def is_busy(self) -> bool:
        return self._child is not None

    def is_due(self, now_ns: int) -> bool:
        return self._child is None and now_ns >= self._next_ns

    def start(self, files: Sequence[Path], now_ns: int, status: bytes = b"") -> None:
        """A server is also told how things stand, even where there are no rows: perhaps everything hangs."""
        self._next_ns = now_ns + self.every_ns
        self._files = [path.absolute() for path in files[:_MOST_FILES]]  # the child stands elsewhere
        if not self._files and not (self.server and status):
            return
        self._output = in_memory()
        with in_memory(status if self.server else b"") as told:
            self._child = start_quietly([*self._child_command(), *map(str, self._files)], told, self._output)

    def _child_command(self) -> list[str]:
        if self.server is None:
            there = ["--no-create"] if self.lake_was_there else []
            return [*self.command, "--json", "--lake", str(self.lake), "--workers", "1", *there]
        return [sys.executable, "-m", "ioweather.collect.push", self.server.url, str(self.server.token_file.absolute())]

    def poll(self, now_ns: int) -> Shipment | None:
        """The outcome, once, when the child has ended."""
        if self._child is None or self._child.poll() is None or self._output is None:
            return None
        code, self._child = self._child.returncode, None
        self._output.seek(0)
        text = self._output.read().decode(errors="replace")
        self._output.close()
        if code not in (0, 1):
            self._wait_longer(now_ns)
            last = text.strip().splitlines()[-1:] or [f"exit code {code}"]
            return Shipment(False, message=f"the lake took nothing: {last[0][:300]}")
        self.lake_was_there = True
        try:
            outcome = self._settle(text)
        except UnsafePlace as error:
            outcome = Shipment(False, message=str(error)[:300])
        if outcome.ok or outcome.shipped:
            self._wait_ns = 0
        else:
            self._wait_longer(now_ns)
        return outcome

    def _wait_longer(self, now_ns: int) -> None:
        self._wait_ns = min(max(2 * self._wait_ns, self.every_ns), HOUR_NS)
        self._next_ns = now_ns + self._wait_ns

    def _settle(self, text: str) -> Shipment:
        try:
            body = json.loads(text)
            # What cannot be read now may be tomorrow: the disk is wrong, not the file.
            unreadable = {e["path"]: e["message"] for e in body["refused"] if e.get("reason") == "unreadable"}
            refused = {e["path"]: e["message"] for e in body["refused"] if e["path"] not in unreadable}
            waiting = {*body.get("waiting", ()), *unreadable}
        except (ValueError, KeyError, TypeError):
            return Shipment(False, message=f"the child said what is not JSON: {text[:200]!r}")
        for path in self._files:
            if str(path) not in waiting:
                _put_away(path, refused=str(path) in refused)
        why = _first_refusal(refused)
        taken = len(self._files) - len(refused) - len(waiting)
        if waiting or body.get("message"):
            said = body.get("message") or next(iter(unreadable.values()), "")
            who = "server" if self.server else "lake"
            return Shipment(False, taken, len(refused), f"the {who} took {taken} files: {said}"[:300], why)
        return Shipment(True, taken, len(refused), why, why)


def _first_refusal(refused: Mapping[str, str | None]) -> str:
    """With the name of the file, and not where it lay: it was moved aside."""
    if not refused:
        return ""
    path, message = next(iter(refused.items()))
    name = Path(path).name
    said = (message or "no reason given").replace(path, name)
    return (said if name in said else f"{name}: {said}")[:300]


def in_memory(data: bytes = b"") -> IO[bytes]:
    """Not on a disk, where there is another way: a full one is among the news."""
    file: IO[bytes] = (
        os.fdopen(os.memfd_create("shipment"), "w+b") if hasattr(os, "memfd_create") else tempfile.TemporaryFile()  # noqa: SIM115 - closed by who asked
    )
    file.write(data)
    file.seek(0)
    return file


def start_quietly(command: list[str], said: IO[bytes] | int, output: IO[bytes]) -> subprocess.Popen[bytes]:
    """A child in a session of its own that yields to others; all that it says goes to `output`."""
    return subprocess.Popen(
        command,
        stdin=said,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=_yield_to_others,
        cwd="/",
    )


def _yield_to_others() -> None:
    os.nice(10)


def _put_away(path: Path, *, refused: bool) -> None:
    """What is in the lake is deleted; what was refused is kept for a person to look at, but not for ever."""
    with PrivateDirectory.at(path.parent, keep=READABLE) as segments:
        if not refused:
            segments.unlink(path.name)
            return
        with PrivateDirectory.at(path.parent.with_name(_REFUSED), keep=READABLE) as aside:
            with suppress(FileNotFoundError):
                segments.rename(path.name, aside, path.name)
            changed = {name: aside.check(name).st_mtime_ns for name in aside.names()}
            for old in sorted(changed, key=lambda name: changed[name])[:-_MOST_REFUSED]:
                aside.unlink(old)
