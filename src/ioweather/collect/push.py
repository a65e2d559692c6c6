"""The child that sends files of the spool to a server: standard library only.

    python -m ioweather.collect.push URL TOKEN_FILE FILE...

Prints `{"refused": [{"path", "message"}], "waiting": [path], "message": ...}`: what the server will never take, and
what it has not taken yet. Everything else is in the lake, for the server says so only after its ledger does. An answer
that is lost is no harm: the file is sent again, and nothing is in twice.
"""

from __future__ import annotations

import json
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from ioweather.collect.ship import check_url
from ioweather.core.errors import UsageError

TIMEOUT_SECONDS: Final = 120.0
# The file itself is wrong (400, 413, 415, 422); anything else may be different next time.
_NEVER: Final = frozenset({400, 413, 415, 422})


@dataclass
class Sent:
    refused: list[dict[str, str]] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    message: str = ""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The token is for one server, not for where that sends us."""

    def redirect_request(self, *_: Any) -> None:
        return None


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


def push(url: str, token: str, files: Sequence[Path], timeout_seconds: float = TIMEOUT_SECONDS) -> Sent:
    """One file after the other; where the server is away or does not know us, the rest waits."""
    # No proxy of the environment: the address says where to go.
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
    sent = Sent()
    for place, path in enumerate(files):
        try:
            data = path.read_bytes()
        except OSError as error:
            # Never said to be sent: perhaps it was given up meanwhile, because the spool was full.
            sent.waiting.append(str(path))
            sent.message = f"{path}: {error.strerror}"
            continue
        address = f"{url}/api/v1/spool/{quote(host_of(path), safe='')}/{quote(path.name, safe='')}"
        headers = {"authorization": f"Bearer {token}", "content-type": "application/octet-stream"}
        request = urllib.request.Request(address, data=data, headers=headers, method="POST")
        try:
            with opener.open(request, timeout=timeout_seconds) as response:
                answer = json.load(response)
            if answer["status"] not in ("ok", "known", "partial"):
                raise ValueError(f"the server answered {answer['status']!r}")
            if answer["status"] == "partial":
                sent.refused.append({"path": str(path), "message": answer["message"]})
        except urllib.error.HTTPError as error:
            message = _said(error)
            if error.code not in _NEVER:
                return _rest(sent, files[place:], message)
            sent.refused.append({"path": str(path), "message": message})
        except (OSError, HTTPException, ssl.SSLError, ValueError, KeyError, TypeError) as error:
            return _rest(sent, files[place:], f"{url}: {error}")
    return sent


def _rest(sent: Sent, files: Sequence[Path], message: str) -> Sent:
    sent.waiting += [str(path) for path in files]
    sent.message = message
    return sent


def _said(error: urllib.error.HTTPError) -> str:
    try:
        body = json.loads(error.read(10_000))["error"]
        return f"{error.code}: {body['message']} {body['hint']}".strip()
    except (OSError, ValueError, KeyError, TypeError):
        return f"the server answered {error.code}"


def main(arguments: Sequence[str]) -> int:
    url, token_file, *files = arguments
    try:
        sent = push(check_url(url), read_token(Path(token_file)), [Path(name) for name in files])
    except (UsageError, ValueError) as error:
        print(error)
        return 2
    print(json.dumps(vars(sent)))
    return 1 if sent.refused or sent.waiting else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
