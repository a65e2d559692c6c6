"""Asking a server for a job of one's own: standard library only, for a login node that has no lake."""

from __future__ import annotations

import json
import os
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ioweather.collect.push import read_token
from ioweather.collect.ship import check_url
from ioweather.core.errors import DataUnavailable, UsageError

_TIMEOUT_SECONDS: Final = 60.0
_LONGEST_ANSWER: Final = 20_000_000


def default_token_file() -> Path:
    """IOWEATHER_TOKEN_FILE, else under XDG config home."""
    if named := os.environ.get("IOWEATHER_TOKEN_FILE"):
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "ioweather" / "token"


def ask_server(url: str, token_file: Path | None, path: str) -> str:
    """The body of the answer. DataUnavailable where the server has no such job for this person."""
    try:
        parts = urlsplit(check_url(url))
    except ValueError as error:
        raise UsageError(f"--server: {error}.") from None
    file = token_file or default_token_file()
    is_known = token_file is not None or file.exists()  # without one, a server that shows all to all answers too
    headers = {"Authorization": f"Bearer {read_token(file)}"} if is_known else {}
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    try:
        with closing(connect(str(parts.hostname), parts.port, timeout=_TIMEOUT_SECONDS)) as connection:
            connection.request("GET", parts.path.rstrip("/") + path, headers=headers)
            answer = connection.getresponse()
            body = answer.read(_LONGEST_ANSWER).decode(errors="replace")
    except (OSError, HTTPException) as error:
        raise UsageError(f"{url} does not answer: {error}.") from None
    if answer.status == 200:
        return body
    message = _message(body) or f"it answered {answer.status}"
    if answer.status == 404:
        raise DataUnavailable(message)
    hint = f"Ask who runs it for a token, and keep it in {file} (mode 600)." if not is_known else ""
    raise UsageError(f"{url}: {message}", hint=hint)


def _message(body: str) -> str:
    try:
        found = json.loads(body)
        return str(found["error"]["message"] if isinstance(found.get("error"), dict) else found["error"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""
