"""What a child tells the agent, one line each: rows as they go to the spool, all else as a JSON list."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Mapping
from pathlib import Path

from ioweather.collect.spool import READABLE, row_line
from ioweather.core.private_directory import PrivateDirectory
from ioweather.sources.live.contract import Ready

_PROGRESS_NS = 500_000_000
_MOST_WAITING = 100


class Dismissed(Exception):
    """The agent wants no more, while the child still prepares."""


class PipeReporter:
    """The child's end. A child whose agent is gone goes on without being heard: it ends at its next tick."""

    def __init__(self, fd: int, documents: Path) -> None:
        self._fd = fd
        self._documents = documents
        self._last_progress_ns = 0
        self._waiting: list[str] = []
        self._ticks: select.poll | None = None

    def heed(self, ticks: int | None) -> None:
        """From now on `progress` looks whether this pipe was closed, and does not return then."""
        self._ticks = None
        if ticks is not None:
            self._ticks = select.poll()
            self._ticks.register(ticks, 0)  # a closed pipe is told unasked

    def begin(self, op: str, request_bytes: int, scheduled_ns: int | None) -> None:
        scheduled = "null" if scheduled_ns is None else scheduled_ns
        self._waiting.append(f'["begin","{op}",{request_bytes},{scheduled},{time.time_ns()},{time.monotonic_ns()}]')
        self._flush()

    def row(self, table: str, values: Mapping[str, object]) -> None:
        self.line(row_line(table, values))

    def line(self, text: str) -> None:
        """Goes with the next message: before anything that may hang there is one."""
        self._waiting.append(text)
        if len(self._waiting) >= _MOST_WAITING:
            self._flush()

    def document(self, name: str, text: str) -> None:
        with PrivateDirectory.named(self._documents, keep=READABLE) as folder:
            folder.replace(name, text.encode())
        self._send(["document", name])

    def progress(self, done: int, total: int | None, what: str) -> None:
        if self._ticks is not None and self._ticks.poll(0):
            raise Dismissed
        now = time.monotonic_ns()
        if now - self._last_progress_ns > _PROGRESS_NS or done == total:
            self._last_progress_ns = now
            self._send(["progress", done, total, what])

    def done(self) -> None:
        self._send(["done"])

    def ready(self, facts: Ready) -> None:
        self._send(["ready", facts.system, facts.access, facts.message])

    def end(self, duration_ns: int, ok: bool = True, message: str = "") -> None:
        self._send(["end", duration_ns, ok, message])

    def failed(self, message: str) -> None:
        self._send(["failed", message])

    def _send(self, body: list[object]) -> None:
        self._waiting.append(json.dumps(body, separators=(",", ":")))
        self._flush()

    def _flush(self) -> None:
        self._waiting.append("")
        data = "\n".join(self._waiting).encode()
        self._waiting.clear()
        try:  # not `suppress`: this stands between operations, nine times a cycle
            while data:
                data = data[os.write(self._fd, data) :]
        except BrokenPipeError:
            pass


def whole_lines(buffer: bytearray) -> list[str]:
    """Take the finished lines out of the buffer."""
    end = buffer.rfind(b"\n") + 1
    if not end:
        return []
    text = bytes(buffer[:end]).decode()
    del buffer[:end]
    return text.splitlines()
