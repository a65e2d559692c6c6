"""Connections: a bounded number, and each asks in time or is closed.

uvicorn waits for the head of a request for as long as the other side likes.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS: Final = 10.0
# Well below the 1024 open files that a process has by default.
MOST_CONNECTIONS: Final = 500


class Connection(H11Protocol):
    _deadline: asyncio.TimerHandle | None = None
    _made_at: float = 0.0

    @property
    def waits_for_request(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._made_at = self.loop.time()
        if len(self.connections) > MOST_CONNECTIONS:
            self._make_room()
        self._expect_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.waits_for_request:
            self._expect_request()
        else:
            self._stop_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def _expect_request(self) -> None:
        """From the first byte on: what comes later does not make it longer."""
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._hang_up)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _hang_up(self) -> None:
        self._deadline = None
        if self.waits_for_request:
            self.transport.abort()

    def _make_room(self) -> None:
        """The one that has waited longest without asking; perhaps this one."""
        idle = [one for one in self.connections if isinstance(one, Connection) and one.waits_for_request]
        oldest = min(idle, key=lambda one: one._made_at)
        self.connections.discard(oldest)
        oldest.transport.abort()
