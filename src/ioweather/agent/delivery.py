"""Delivery of spool files: to a lake by `ioweather ingest`, or to a server by HTTP with the standard library alone.

The agent never imports the lake: short-lived children bring closed spool files to it, and files that were taken are
deleted here. A child may be killed at any moment and loses nothing. The child that pushes is

    python -m ioweather.agent.delivery URL TOKEN_FILE FILE... < STATUS

The agent's status comes first, from standard input because the disk may be full. The command prints `{"refused":
[{"path", "message"}], "waiting": [path], "message": ...}`: files that the server will never accept, and files that it
did not accept yet. All others are on the server's disk. If the answer is lost, the file is sent again, which adds
nothing.
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
from ipaddress import ip_address
from pathlib import Path
from typing import IO, Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from ioweather.agent.spool import READABLE
from ioweather.core.errors import DataUnavailable, UnsafePlace, UsageError
from ioweather.core.safe_files import PrivateDirectory
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS

# A new lake shows something soon, and the first rows are enough to be worth an ingest.
FIRST_SHIPMENT_NS: Final = 20 * NS
_MAX_FILES: Final = 200
_MAX_REFUSED: Final = 100
_MAX_MESSAGE: Final = 300
# The one-file agent (`ioweather agent bundle`) is a zip file that Python imports from.
_ARCHIVE: Final = getattr(__spec__.loader, "archive", None) if __spec__ else None
_PUSH: Final = (str(Path(_ARCHIVE).absolute()), "push") if _ARCHIVE else ("-m", "ioweather.agent.delivery")


class Server(NamedTuple):
    """Address of a server, and the file with the token for it."""

    url: str
    token_file: Path


class Shipment(NamedTuple):
    """Result of one attempt. `shipped` files are in the lake and deleted; `refused` ones were moved aside, and
    `refused_why` names one of them."""

    ok: bool
    shipped: int = 0
    refused: int = 0
    message: str = ""
    refused_why: str = ""


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
    _output: IO[bytes] = field(init=False)
    _next_ns: int = field(default=0, init=False)
    _wait_ns: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        # A server learns at once that the agent runs; a lake gets rows that are worth an ingest.
        self._next_ns = 0 if self.server else time.monotonic_ns() + min(FIRST_SHIPMENT_NS, self.every_ns)
        self.message = ""  # of the last attempt
        # Fields of SpoolStatus.
        self.totals: dict[str, Any] = {"shipped_files": 0, "refused_files": 0, "refused_why": ""}

    @property
    def is_busy(self) -> bool:
        return self._child is not None

    def is_due(self, now_ns: int) -> bool:
        """Return whether it is time to start a child."""
        return self._child is None and now_ns >= self._next_ns

    def start(self, files: Sequence[Path], now_ns: int, status: bytes = b"") -> None:
        """Ship the files by a child in a session of its own, at low priority. A server also gets the status, even
        without rows: perhaps everything hangs."""
        self._next_ns = now_ns + self.every_ns
        self._files = [path.absolute() for path in files[:_MAX_FILES]]  # the child runs in another directory
        if self.server is not None:
            command = [sys.executable, *_PUSH, self.server.url, str(self.server.token_file.absolute())]
        else:
            command = [*self.command, "--json", "--lake", str(self.lake), "--workers", "1"]
            command += ["--no-create"] if self.lake_was_there else []
        if not self._files and not (self.server and status):
            return
        self._output = _in_memory()
        with _in_memory(status if self.server else b"") as given:
            self._child = subprocess.Popen(
                [*command, *map(str, self._files)],
                stdin=given,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: os.nice(10),
                cwd="/",
            )

    def poll(self, now_ns: int, wall_ns: int = 0) -> Shipment | None:
        """Return the outcome, once, after the child ended."""
        if self._child is None or self._child.poll() is None:
            return None
        code, self._child = self._child.returncode, None
        with self._output:
            self._output.seek(0)
            text = self._output.read().decode(errors="replace").strip()
        if code in (0, 1):
            self.lake_was_there = True
            try:
                outcome = self._apply_answer(text)
            except UnsafePlace as error:
                outcome = Shipment(False, message=str(error)[:_MAX_MESSAGE])
        else:
            last = (text.splitlines() or [f"exit code {code}"])[-1]
            outcome = Shipment(False, message=f"the lake accepted no rows: {last}"[:_MAX_MESSAGE])
        if outcome.ok or outcome.shipped:
            self._wait_ns = 0
        else:
            self._wait_ns = min(max(2 * self._wait_ns, self.every_ns), HOUR_NS)
            # Not all at once: many agents were refused together.
            self._next_ns = now_ns + round(self._wait_ns * random.uniform(1.0, 1.5))
        self.totals["shipped_files"] += outcome.shipped
        self.totals["refused_files"] += outcome.refused
        self.totals["refused_why"] = outcome.refused_why or self.totals["refused_why"]
        self.totals |= {"last_ship_ns": wall_ns, "last_ship_ok": outcome.ok}
        self.message = outcome.message
        return outcome

    def _apply_answer(self, text: str) -> Shipment:
        """Delete files that are in the lake, set refused ones aside, and leave those that wait, as the child says."""
        try:
            body = json.loads(text)
            # The disk failed, not the file: it may be readable tomorrow.
            unreadable = {e["path"]: e["message"] for e in body["refused"] if e.get("reason") == "unreadable"}
            refused = {e["path"]: e["message"] for e in body["refused"] if e["path"] not in unreadable}
            waiting = {*body.get("waiting", ()), *unreadable}
        except (ValueError, KeyError, TypeError):
            return Shipment(False, message=f"the child process returned invalid JSON: {text[:200]!r}")
        for path in self._files:
            if str(path) not in waiting:
                _delete_or_set_aside(path, refused=str(path) in refused)
        why = ""
        if refused:  # by its name only: the file was moved
            path, name = next(iter(refused)), Path(next(iter(refused))).name
            reason = (refused[path] or "no reason given").replace(path, name)
            why = (reason if name in reason else f"{name}: {reason}")[:_MAX_MESSAGE]
        taken = len(self._files) - len(refused) - len(waiting)
        if waiting or body.get("message"):
            reason = body.get("message") or next(iter(unreadable.values()), "")
            message = f"the {'server' if self.server else 'lake'} accepted {taken} files: {reason}"
            return Shipment(False, taken, len(refused), message[:_MAX_MESSAGE], why)
        return Shipment(True, taken, len(refused), why, why)


def _in_memory(data: bytes = b"") -> IO[bytes]:
    """Return an open file with these data, in memory if possible: a disk may be full."""
    has_memfd = hasattr(os, "memfd_create")
    file: IO[bytes] = os.fdopen(os.memfd_create("child"), "w+b") if has_memfd else tempfile.TemporaryFile()  # noqa: SIM115 - closed by the caller
    file.write(data)
    file.seek(0)
    return file


def _delete_or_set_aside(path: Path, *, refused: bool) -> None:
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


# Requests to a server.

_TIMEOUT_SECONDS: Final = 120.0
_QUESTION_TIMEOUT_SECONDS: Final = 60.0
_MAX_ANSWER_BYTES: Final = 20_000_000
# The file itself is wrong; any other error may be gone next time.
_NEVER: Final = frozenset({400, 413, 415, 422})
# Answers to an accepted file: new, or sent before.
_ACCEPTED: Final = frozenset({"ok", "known"})


def check_url(url: str) -> str:
    """Return the URL without a trailing slash. Raises ValueError unless it is https or this machine, since a token must
    not cross a network in clear."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is not a server URL such as https://weather.example.org")
    is_loopback = parts.hostname == "localhost"
    with suppress(ValueError):
        is_loopback = is_loopback or ip_address(parts.hostname).is_loopback
    if parts.scheme == "http" and not is_loopback:
        raise ValueError(f"{url!r} would send the token unencrypted; use https")
    return url.rstrip("/")


def read_token(file: Path) -> str:
    """Return the token in a file that only its owner can read."""
    try:
        if file.stat().st_mode & 0o077:
            raise UsageError(f"Other users can read {file}.", hint=f"Run: chmod 600 {file}")
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"Cannot read the token from {file}: {error}.") from None


@dataclass
class Sent:
    """Result of `push`: files that were refused or that wait, and the last error."""

    refused: list[dict[str, str]] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    message: str = ""


def push(
    url: str, token: str, files: Sequence[Path], timeout_seconds: float = _TIMEOUT_SECONDS, *, status: bytes = b""
) -> Sent:
    """Send the status, then each file. If the server does not answer or refuses this host, the remaining files wait."""
    sent = Sent()
    if status:
        host = str(json.loads(status)["host"])
        code, message = _post(url, token, host, "status", status, timeout_seconds)
        if code not in _NEVER | {200}:
            return Sent(waiting=[str(path) for path in files], message=message)
    for place, path in enumerate(files):
        try:
            data = path.read_bytes()
        except OSError as error:  # perhaps dropped since, because the spool was full
            sent.waiting.append(str(path))
            sent.message = f"{path}: {error.strerror}"
            continue
        try:
            host = str(json.loads(data[:4096].partition(b"\n")[0])["host"])
        except (ValueError, KeyError, TypeError):
            host = socket.gethostname()  # a document, without the header of a segment
        code, message = _post(url, token, host, path.name, data, timeout_seconds)
        if code in _NEVER:
            sent.refused.append({"path": str(path), "message": message})
        elif code != 200:
            return Sent(sent.refused, [*sent.waiting, *map(str, files[place:])], message)
    return sent


def _post(url: str, token: str, host: str, name: str, data: bytes, timeout_seconds: float) -> tuple[int, str]:
    """Return the code of the answer, and what it says if the data were not taken; 0 without an answer, and 422 for a
    file of which the server took a part."""
    address = f"{url}/api/v1/spool/{quote(host, safe='')}/{quote(name, safe='')}"
    headers = {"authorization": f"Bearer {token}", "content-type": "application/octet-stream", "connection": "close"}
    try:
        code, body = _request("POST", address, headers, data, timeout_seconds)
        if code != 200:
            message = _error_in(body, "message", "hint")
            named = f"{code}: {message}" if message else f"the server returned status {code}"
            return code, named
        answer = json.loads(body) if name != "status" else {"status": "ok"}
        if answer["status"] == "partial":
            return 422, str(answer["message"])
        if answer["status"] not in _ACCEPTED:
            raise ValueError(f"the server returned {answer['status']!r}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        return 0, f"{url}: {error}"
    return 200, ""


def _request(
    method: str, url: str, headers: Mapping[str, str], data: bytes | None, timeout_seconds: float
) -> tuple[int, bytes]:
    """Send a request; return code and body. Without redirects and without proxies of the environment: the token is for
    one server."""
    from http.client import HTTPConnection, HTTPException, HTTPSConnection  # with TLS: 4 MB, for the child that pushes

    parts = urlsplit(url)
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    try:
        with closing(connect(parts.hostname or "", parts.port, timeout=timeout_seconds)) as connection:
            connection.connect()
            path = f"{parts.path}{f'?{parts.query}' if parts.query else ''}"
            # A server that refuses may close before all is sent; its answer can still be read.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, data, dict(headers))
            response = connection.getresponse()
            return response.status, response.read(_MAX_ANSWER_BYTES)
    except HTTPException as error:
        raise OSError(f"{type(error).__name__}: {error}") from None


def _error_in(body: bytes, *keys: str) -> str:
    """Return these parts of the error in the JSON answer of a server; empty if there is none."""
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
        code, body = _request("GET", checked + path, headers, None, _QUESTION_TIMEOUT_SECONDS)
    except OSError as error:
        raise UsageError(f"No response from {url}: {error}.") from None
    if code == 200:
        return body.decode(errors="replace")
    message = _error_in(body, "message") or f"the server returned status {code}"
    if code == 404:
        raise DataUnavailable(message)
    hint = "" if has_token else f"Ask its administrator for a token and store it in {file} (mode 600)."
    raise UsageError(f"{url}: {message}", hint=hint)


def server_complaint(server: Server) -> str:
    """Return why rows cannot be pushed to the server, as far as it shows without pushing; empty if nothing is wrong."""
    try:
        read_token(server.token_file)
        code, _ = _request("GET", f"{server.url}/healthz", {}, None, 10.0)
    except UsageError as error:
        return str(error)
    except OSError as error:
        return f"no response from {server.url}: {error}"
    return "" if code == 200 else f"{server.url} returned status {code}"


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
