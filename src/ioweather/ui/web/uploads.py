"""A Darshan log that somebody sends: looked at in a temporary folder, answered, gone."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fastapi import Request

from ioweather.core.errors import Busy, CorruptInput, EmptyInput, IoweatherError, UsageError
from ioweather.core.results import Answer
from ioweather.core.units import MIB, format_bytes
from ioweather.lake.lake import Lake
from ioweather.topics.ask import ask
from ioweather.topics.source import SharedResults
from ioweather.ui.web.visible import View

LIMIT_BYTES: Final = 64 * MIB
_AT_ONCE: Final = threading.BoundedSemaphore(4)


@contextmanager
def few_at_once() -> Iterator[None]:
    """A log is in memory while it is looked at."""
    if not _AT_ONCE.acquire(blocking=False):
        raise Busy("Others are sending logs.", hint="Try again in some seconds.")
    try:
        yield
    finally:
        _AT_ONCE.release()


async def received(request: Request) -> bytes:
    """The body, as long as it is not too long."""
    # Another site's form cannot send this type without asking, and it is not asked.
    if not request.headers.get("content-type", "").startswith("application/octet-stream"):
        raise UsageError("Send the log as application/octet-stream.")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > LIMIT_BYTES:
            raise UsageError(
                f"The file is larger than {format_bytes(LIMIT_BYTES)}.", hint="Use `ioweather why FILE` for it."
            )
        parts.append(part)
    if not size:
        raise EmptyInput("The file is empty.")
    return b"".join(parts)


def answers_for_log(data: bytes, view: View) -> tuple[Answer, Answer]:
    """Why it took as long as it did, and what it did; compared with runs that the one who asks may see."""
    with tempfile.TemporaryDirectory(prefix="ioweather-upload-") as folder:
        path = Path(folder) / "upload.darshan"
        path.write_bytes(data)
        lake = _lake(view)
        try:
            shared = SharedResults()  # the log is read once
            why, job = (ask(name, lake, {"job": str(path)}, shared=shared) for name in ("why", "job"))
            return why, job
        except IoweatherError as error:
            text = error.message.replace(str(path), "the file")
            raise type(error)(text, hint=error.hint.replace(str(path), "the file")) from None
        except Exception as error:  # whatever a hostile file makes of the reader
            raise CorruptInput("The file is not a Darshan log that can be read.") from error


def _lake(view: View) -> Lake | None:
    """Without a lake a log is answered from itself alone."""
    view.facilities.directory(view.name)
    try:
        return view.lake
    except IoweatherError:
        return None
