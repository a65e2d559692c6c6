"""The child that sends files of the spool to a server: standard library only.

    python -m ioweather.collect.push URL TOKEN_FILE FILE... < STATUS

The status of the agent goes first. It is from standard input, for a full disk may be what it tells of.

Prints `{"refused": [{"path", "message"}], "waiting": [path], "message": ...}`: what the server will never take, and
what it has not taken yet. Everything else is in the lake, for the server says so only after its ledger does. An answer
that is lost is no harm: the file is sent again, and nothing is in twice.
"""

from __future__ import annotations

import json
import sys
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

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


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
    if status:
        try:
            _post(url, token, (json.loads(status)["host"], "status"), status, timeout_seconds)
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
            answer = _post(url, token, (host_of(path), path.name), data, timeout_seconds)
            if answer["status"] not in ("ok", "known", "partial"):
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
        raise _Refused(response.status, _said(response.status, body))
    return json.loads(body)


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
