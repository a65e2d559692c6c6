"""The weather as server-sent events: one reader for all who listen, and none while nobody does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import anyio.to_thread

from ioweather.core.errors import Busy, IoweatherError

MOST_LISTENERS: Final = 64
_LOOK_SECONDS: Final = 2.0
_HEARTBEAT_SECONDS: Final = 15.0


@dataclass
class Feed:
    """`read` gives the weather as JSON has it. An event is sent when it changed, and at every heartbeat a comment, by
    which a connection that is gone is noticed."""

    read: Callable[[], dict[str, Any]]
    look_seconds: float = _LOOK_SECONDS
    heartbeat_seconds: float = _HEARTBEAT_SECONDS
    most: int = MOST_LISTENERS
    listeners: int = 0
    looks: int = 0
    is_over: bool = False
    _number: int = 0
    _event: bytes = b""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _reader: asyncio.Task[None] | None = None

    def join(self) -> AsyncIterator[bytes]:
        """Refused here, before an answer has begun; of many who come at the same moment, the last end at once."""
        if self.listeners >= self.most:
            raise Busy(f"{self.most} listen already.", hint="Ask /api/v1/now from time to time.")
        return self._listen()

    async def _listen(self) -> AsyncIterator[bytes]:
        if self.is_over or self.listeners >= self.most:
            return
        self.listeners += 1
        if self._reader is None or self._reader.done():
            self._reader = asyncio.create_task(self._look())
        seen = 0
        try:
            yield b"retry: 5000\n\n"
            while not self.is_over:
                changed = self._changed
                if self._event and self._number > seen:
                    seen = self._number
                    yield self._event
                    continue
                try:
                    await asyncio.wait_for(changed.wait(), self.heartbeat_seconds)
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self.listeners -= 1
            if not self.listeners and self._reader is not None:
                self._reader.cancel()
                self._reader = None
                self._event = b""

    def end(self) -> None:
        """The server stops: it would wait for those who listen, and they for it."""
        self.is_over = True
        self._changed.set()

    async def _look(self) -> None:
        last = ""
        while True:
            self.looks += 1
            try:
                body = await anyio.to_thread.run_sync(self.read)
                name = "now"
            except IoweatherError as error:
                body, name = {"message": error.message, "hint": error.hint}, "unavailable"
            text = json.dumps(body)
            if text != last:
                last = text
                self._number += 1
                self._event = f"id: {self._number}\nevent: {name}\ndata: {text}\n\n".encode()
                self._changed.set()
                self._changed = asyncio.Event()
            await asyncio.sleep(self.look_seconds)
