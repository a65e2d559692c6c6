"""Delivery of spool files: to a lake by `ioweather ingest`, or to a server by HTTP; and questions to a server.

    python -m ioweather.agent.delivery URL TOKEN_FILE FILE... < STATUS

The agent never imports the lake: short-lived children bring closed spool files to it, and files that were taken are
deleted here. A child may be killed at any moment and loses nothing.

The command above is the child that pushes to a server. It sends the agent's status first, from standard input because
the disk may be full. It prints `{"refused": [{"path", "message"}], "waiting": [path], "message": ...}`: files that the
server will never accept, and files that it did not accept yet. All others are on the server's disk. If the answer is
lost, the file is sent again, which adds nothing. If the server says when to come back, the child waits once.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import ip_address
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import quote, urlsplit

from ioweather.agent.spool import READABLE
from ioweather.core.errors import DataUnavailable, UnsafePlace, UsageError
from ioweather.core.safe_files import PrivateDirectory
from ioweather.core.units import HOUR_NS, MINUTE_NS

_MAX_FILES: Final = 200
_MAX_REFUSED: Final = 100
_MAX_MESSAGE: Final = 300


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
    _files: list[Path] = field(default_factory=list, init=False)
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _output: IO[bytes] | None = field(default=None, init=False)
    _next_ns: int = field(default=0, init=False)
    _wait_ns: int = field(default=0, init=False)

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
            command = [sys.executable, "-m", "ioweather.agent.delivery", self.server.url, token]
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


_TIMEOUT_SECONDS: Final = 120.0
_QUESTION_TIMEOUT_SECONDS: Final = 60.0
_MAX_ANSWER_BYTES: Final = 20_000_000
# The file itself is wrong; any other error may be gone next time.
_NEVER: Final = frozenset({400, 413, 415, 422})
# Answers of an old server, which does not know the status route.
_UNKNOWN_ROUTE: Final = frozenset({404, 405})
# Answers to an accepted file: in the lake (old servers) or in the queue.
_ACCEPTED: Final = frozenset({"ok", "known", "partial", "accepted"})
# For a longer time the agent waits by itself, as after any failure.
_LONGEST_WAIT_SECONDS: Final = 60.0
# So that a hundred senders that have to wait do not come back at once.
_JITTER: Final = 0.5


@dataclass
class Sent:
    """Result of `push`: files that were refused or that wait, and the last error."""

    refused: list[dict[str, str]] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    message: str = ""


class _Refused(Exception):
    def __init__(self, code: int, message: str, after_seconds: float | None) -> None:
        super().__init__(message)
        self.code = code
        self.after_seconds = after_seconds


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


def read_token(file: Path) -> str:
    """Return the token in a file that only its owner can read."""
    try:
        if file.stat().st_mode & 0o077:
            raise UsageError(f"{file} can be read by others.", hint=f"chmod 600 {file}")
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The token cannot be read from {file}: {error}.") from None


def push(
    url: str, token: str, files: Sequence[Path], timeout_seconds: float = _TIMEOUT_SECONDS, *, status: bytes = b""
) -> Sent:
    """Send the status, then each file; if the server is away or refuses this host, the remaining files wait."""
    sent, may_wait = Sent(), True

    def post(host: str, name: str, data: bytes) -> Any:
        nonlocal may_wait
        try:
            return _post(url, token, host, name, data, timeout_seconds)
        except _Refused as error:
            if not may_wait or error.after_seconds is None or error.after_seconds > _LONGEST_WAIT_SECONDS:
                raise
            may_wait = False
            time.sleep(error.after_seconds * random.uniform(1.0, 1.0 + _JITTER))
        return _post(url, token, host, name, data, timeout_seconds)

    for place, path in enumerate([None, *files] if status else files):
        left = [str(path) for path in files[place - bool(status) if path else 0 :]]
        try:
            if path is None:
                post(json.loads(status)["host"], "status", status)
                continue
            try:
                data = path.read_bytes()
            except OSError as error:  # perhaps dropped since, because the spool was full
                sent.waiting.append(str(path))
                sent.message = f"{path}: {error.strerror}"
                continue
            answer = post(_host_of(data), path.name, data)
            if answer["status"] not in _ACCEPTED:
                raise ValueError(f"the server answered {answer['status']!r}")
            if answer["status"] == "partial":
                sent.refused.append({"path": str(path), "message": answer["message"]})
        except _Refused as error:
            if path is not None and error.code in _NEVER:
                sent.refused.append({"path": str(path), "message": str(error)})
            elif path is not None or error.code not in _NEVER | _UNKNOWN_ROUTE:
                return Sent(sent.refused, [*sent.waiting, *left], str(error))
        except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
            return Sent(sent.refused, [*sent.waiting, *left], f"{url}: {error}")
    return sent


def _host_of(data: bytes) -> str:
    """Return the host in a segment's header; for other documents this machine."""
    try:
        return str(json.loads(data[:4096].partition(b"\n")[0])["host"])
    except (ValueError, KeyError, TypeError):
        return socket.gethostname()


def _post(url: str, token: str, host: str, name: str, data: bytes, timeout_seconds: float) -> Any:
    address = f"{url}/api/v1/spool/{quote(host, safe='')}/{quote(name, safe='')}"
    headers = {"authorization": f"Bearer {token}", "content-type": "application/octet-stream", "connection": "close"}
    response, body = _request("POST", address, headers, data, timeout_seconds)
    if response.status == 200:
        return json.loads(body)
    after = response.getheader("retry-after") or ""
    message = _error_in(body, "message", "hint")
    raise _Refused(
        response.status,
        f"{response.status}: {message}" if message else f"the server answered {response.status}",
        float(after) if after.isascii() and after.isdigit() else None,  # the form with a date is ignored
    )


def _request(
    method: str, url: str, headers: Mapping[str, str], data: bytes | None, timeout_seconds: float
) -> tuple[HTTPResponse, bytes]:
    """Send a request without redirects and without proxies of the environment: the token is for one server."""
    parts = urlsplit(url)
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    with closing(connect(parts.hostname or "", parts.port, timeout=timeout_seconds)) as connection:
        connection.connect()
        # A server that refuses may close before all is sent; its answer can still be read.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, f"{parts.path}{f'?{parts.query}' if parts.query else ''}", data, dict(headers))
        response = connection.getresponse()
        return response, response.read(_MAX_ANSWER_BYTES)


def _error_in(body: bytes, *keys: str) -> str:
    try:
        error = json.loads(body)["error"]
        return " ".join(error[key] for key in keys).strip() if isinstance(error, dict) else str(error)
    except (ValueError, KeyError, TypeError):
        return ""


def ask_server(url: str, token_file: Path | None, path: str) -> str:
    """Return the body of a server's answer, for a login node without a lake. The token is in `token_file`, else in
    IOWEATHER_TOKEN_FILE, else under XDG config home. Raises DataUnavailable if the server has no such job for this
    user."""
    try:
        checked = check_url(url)
    except ValueError as error:
        raise UsageError(f"--server: {error}.") from None
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    file = token_file or Path(os.environ.get("IOWEATHER_TOKEN_FILE") or Path(config) / "ioweather" / "token")
    has_token = token_file is not None or file.exists()  # a server without visibility rules answers without one
    headers = {"authorization": f"Bearer {read_token(file)}"} if has_token else {}
    try:
        response, body = _request("GET", checked + path, headers, None, _QUESTION_TIMEOUT_SECONDS)
    except (OSError, HTTPException) as error:
        raise UsageError(f"{url} does not answer: {error}.") from None
    if response.status == 200:
        return body.decode(errors="replace")
    message = _error_in(body, "message") or f"it answered {response.status}"
    if response.status == 404:
        raise DataUnavailable(message)
    hint = "" if has_token else f"Ask who runs it for a token, and keep it in {file} (mode 600)."
    raise UsageError(f"{url}: {message}", hint=hint)


def main(arguments: Sequence[str]) -> int:
    """Push files to a server and print the result; return the exit code."""
    url, token_file, *files = arguments
    try:
        token = read_token(Path(token_file))
        sent = push(check_url(url), token, [Path(name) for name in files], status=sys.stdin.buffer.read())
    except (UsageError, ValueError) as error:
        print(error)
        return 2
    print(json.dumps(vars(sent)))
    return 1 if sent.refused or sent.message else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
