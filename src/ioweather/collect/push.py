"""The child that sends files of the spool to a server: standard library only.

    python -m ioweather.collect.push URL TOKEN_FILE FILE... < STATUS

The status of the agent goes first. It is from standard input, for a full disk may be what it tells of.

Prints `{"refused": [{"path", "message"}], "waiting": [path], "message": ...}`: what the server will never take, and
what it has not taken yet. Everything else is safe with the server, for it says so only when the file is on its disk. An
answer that is lost is no harm: the file is sent again, and nothing is in twice. Told to wait, it waits once.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from ioweather.collect.ship import check_url
from ioweather.core.errors import UsageError

TIMEOUT_SECONDS: Final = 120.0
_LONGEST_ANSWER: Final = 100_000
# The file itself is wrong (400, 413, 415, 422); anything else may be different next time.
_NEVER: Final = frozenset({400, 413, 415, 422})
# What a server says of a file that it keeps: in the lake (older servers), or on the way to it.
_TAKEN: Final = frozenset({"ok", "known", "partial", "accepted"})
# Told to come back later than this, the agent does so by itself, as after any failure.
_LONGEST_WAIT_SECONDS: Final = 60.0
# A hundred that were told to wait at once do not come back at once.
_JITTER: Final = 0.5
# A server that does not take a status: an older one.
_UNKNOWN: Final = frozenset({404, 405})
# No answer, or none that can be read.
_AWAY: Final = (OSError, HTTPException, ValueError, KeyError, TypeError)


@dataclass
class Sent:
    refused: list[dict[str, str]] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    message: str = ""


class _Refused(Exception):
    """The server's answer is no."""

    def __init__(self, code: int, message: str, after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.after_seconds = after_seconds


def read_token(file: Path) -> str:
    try:
        if file.stat().st_mode & 0o077:
            raise UsageError(f"{file} can be read by others.", hint=f"chmod 600 {file}")
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The token cannot be read from {file}: {error}.") from None


def host_of(path: Path) -> str:
    """As the segment's header says; of other documents, as this machine does."""
    try:
        with path.open("rb") as file:
            return str(json.loads(file.readline(4096))["host"])
    except (ValueError, KeyError, TypeError):
        import socket

        return socket.gethostname()


def push(
    url: str, token: str, files: Sequence[Path], timeout_seconds: float = TIMEOUT_SECONDS, *, status: bytes = b""
) -> Sent:
    """The status, then one file after the other; where the server is away or does not know us, the rest waits."""
    sent = Sent()
    post = _Patient()
    if status:
        try:
            post(url, token, (json.loads(status)["host"], "status"), status, timeout_seconds)
        except _Refused as error:
            if error.code not in _NEVER | _UNKNOWN:  # rows are worth more than a status that is not understood
                return _rest(sent, files, str(error))
        except _AWAY as error:
            return _rest(sent, files, f"{url}: {error}")
    for place, path in enumerate(files):
        try:
            data = path.read_bytes()
        except OSError as error:
            # Never said to be sent: perhaps it was given up meanwhile, because the spool was full.
            sent.waiting.append(str(path))
            sent.message = f"{path}: {error.strerror}"
            continue
        try:
            answer = post(url, token, (host_of(path), path.name), data, timeout_seconds)
            if answer["status"] not in _TAKEN:
                raise ValueError(f"the server answered {answer['status']!r}")
            if answer["status"] == "partial":
                sent.refused.append({"path": str(path), "message": answer["message"]})
        except _Refused as error:
            if error.code not in _NEVER:
                return _rest(sent, files[place:], str(error))
            sent.refused.append({"path": str(path), "message": str(error)})
        except _AWAY as error:
            return _rest(sent, files[place:], f"{url}: {error}")
    return sent


class _Patient:
    """Posts; the first time that the server says when to come back, it waits and tries again."""

    def __init__(self) -> None:
        self._has_waited = False

    def __call__(self, url: str, token: str, names: tuple[str, str], data: bytes, timeout_seconds: float) -> Any:
        try:
            return _post(url, token, names, data, timeout_seconds)
        except _Refused as error:
            if self._has_waited or error.after_seconds is None or error.after_seconds > _LONGEST_WAIT_SECONDS:
                raise
            self._has_waited = True
            time.sleep(error.after_seconds * random.uniform(1.0, 1.0 + _JITTER))
        return _post(url, token, names, data, timeout_seconds)


def _post(url: str, token: str, names: tuple[str, str], data: bytes, timeout_seconds: float) -> Any:
    """What the server answers. Neither redirects nor proxies of the environment: the token is for one server."""
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    address = "/".join((f"{parts.path}/api/v1/spool", *(quote(name, safe="") for name in names)))
    headers = {"authorization": f"Bearer {token}", "content-type": "application/octet-stream", "connection": "close"}
    with closing(kind(parts.hostname or "", parts.port, timeout=timeout_seconds)) as connection:
        connection.connect()
        # Who refuses may hang up before all is sent; the refusal is then there to be read.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request("POST", address, data, headers)
        response = connection.getresponse()
        body = response.read(_LONGEST_ANSWER)
    if response.status != 200:
        raise _Refused(response.status, _said(response.status, body), _after(response.getheader("retry-after")))
    return json.loads(body)


def _after(text: str | None) -> float | None:
    """Seconds. A date, which the header may also hold, is not waited for."""
    return float(text) if text is not None and text.isascii() and text.isdigit() else None


def _rest(sent: Sent, files: Sequence[Path], message: str) -> Sent:
    sent.waiting += [str(path) for path in files]
    sent.message = message
    return sent


def _said(code: int, body: bytes) -> str:
    try:
        error = json.loads(body)["error"]
        return f"{code}: {error['message']} {error['hint']}".strip()
    except (ValueError, KeyError, TypeError):
        return f"the server answered {code}"


def main(arguments: Sequence[str]) -> int:
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
