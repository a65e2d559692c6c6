"""Push of spool files to a server by HTTP, and questions to a server, with the standard library alone.

    python -m ioweather.agent.push URL TOKEN_FILE FILE... < STATUS

The agent's status comes first, from standard input because the disk may be full. The command prints `{"refused":
[{"path", "message"}], "waiting": [path], "message": ...}`: files that the server will never accept, and files that it
did not accept yet. All others are on the server's disk. If the answer is lost, the file is sent again, which adds
nothing. If the server says when to come back, the command waits once.
"""

from __future__ import annotations

import json
import os
import random
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from ioweather.agent.delivery import Server, check_url
from ioweather.core.errors import DataUnavailable, UsageError

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


def server_complaint(server: Server) -> str:
    """Return why rows cannot be pushed to the server, as far as it shows without pushing; empty if nothing is wrong."""
    try:
        read_token(server.token_file)
        response, _ = _request("GET", f"{server.url}/healthz", {}, None, 10.0)
    except UsageError as error:
        return str(error)
    except (OSError, HTTPException) as error:
        return f"{server.url} does not answer: {error}."
    return "" if response.status == 200 else f"{server.url} answered {response.status}."


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
