"""Limits on request bodies: each has its time, and all together have a number and a size.

A slow sender is cut off with 408, sooner when other requests need the room.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ioweather.core.errors import Busy, SlowSender
from ioweather.core.units import KIB, MIB

# Time for a body: this long, and a second more for every so many bytes that came.
GRACE_SECONDS: Final = 15.0
LEAST_BYTES_PER_SECOND: Final = 64 * KIB
# Bodies at once; beyond that the slowest one that is not new is cut off.
MOST_AT_ONCE: Final = 256
MOST_BYTES: Final = 512 * MIB
_NEW_SECONDS: Final = 2.0
# Read at most so much more of a refused body before the answer.
HEARD_OUT_BYTES: Final = 64 * MIB


@dataclass(eq=False)
class _Body:
    began: float = field(default_factory=time.monotonic)
    bytes: int = 0
    more: bool = True
    is_cut: bool = False
    waiting: anyio.CancelScope | None = None

    @property
    def age(self) -> float:
        return time.monotonic() - self.began


class Bodies:
    """Reads the rest of a body before an answer: an answer to half a request closes the connection, and the sender
    would see a broken pipe instead of the reason."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._coming: set[_Body] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        body = _Body()

        async def receive_watched() -> Message:
            return await self._next(body, receive) if body.more else await receive()

        async def send_after(message: Message) -> None:
            if message["type"] == "http.response.start":
                most = body.bytes + HEARD_OUT_BYTES
                with suppress(SlowSender, Busy):
                    while body.more and body.bytes < most:
                        await receive_watched()
            await send(message)

        try:
            await self._app(scope, receive_watched, send_after)
        finally:
            self._coming.discard(body)

    async def _next(self, body: _Body, receive: Receive) -> Message:
        if body not in self._coming:
            self._make_room()
            self._coming.add(body)
        left = GRACE_SECONDS + body.bytes / LEAST_BYTES_PER_SECOND - body.age
        if not body.is_cut:
            with anyio.move_on_after(left) as body.waiting:
                message = await receive()
                body.bytes += len(message.get("body", b""))
                body.more = bool(message.get("more_body"))  # false in the last part and after a disconnect
                if not body.more:
                    self._coming.discard(body)
                return message
        body.more = False
        self._coming.discard(body)
        raise SlowSender(f"Only {body.bytes:,} bytes of the request came in {body.age:.0f} s.")

    def _make_room(self) -> None:
        while len(self._coming) >= MOST_AT_ONCE or sum(body.bytes for body in self._coming) > MOST_BYTES:
            slow = [body for body in self._coming if body.age > _NEW_SECONDS]
            if not slow:
                raise Busy("Too many send at once.")
            slowest = min(slow, key=lambda body: body.bytes / body.age)
            self._coming.discard(slowest)
            slowest.is_cut = True
            if slowest.waiting is not None:
                slowest.waiting.cancel()
