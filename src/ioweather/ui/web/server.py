"""The application under uvicorn, in this thread or in another."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from ioweather.core.errors import UsageError
from ioweather.core.facility import Visibility
from ioweather.ui.web.facilities import Facilities
from ioweather.ui.web.live import Feed

# Connections: a bounded number, and each asks in time or is closed.
#
# uvicorn waits for the head of a request for as long as the other side likes.

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


_LONGEST_HEAD_BYTES = 64 << 10


def bind(host: str, port: int) -> socket.socket:
    """Bound before anything is started, so that a taken port is one clear line."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(128)  # who comes before the server is ready waits, and is not turned away
    except OSError as error:
        bound.close()
        raise UsageError(f"Cannot listen at {host}:{port}: {error.strerror}.", hint="Choose another --port.") from None
    return bound


def check_reach(host: str, visibility: Visibility) -> None:
    """Only who has said in facility.toml who sees what may listen to other machines."""
    if visibility.is_said or host == "localhost":
        return
    try:
        if ip_address(host).is_loopback:
            return
    except ValueError:
        pass
    raise UsageError(
        f"Listening on {host} would show everyone's jobs to other machines.",
        hint='Say who may in facility.toml: [visibility] mode = "own", or "open" if they may.',
    )


def address_of(bound: socket.socket) -> str:
    if bound.family == socket.AF_UNIX:
        return str(bound.getsockname())
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def bind_socket(path: Path) -> socket.socket:
    """A socket in the file system, for a proxy of the same group: what others on this machine cannot reach."""
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.is_socket():
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as before:
                if before.connect_ex(str(path)) == 0:
                    raise OSError(errno.EADDRINUSE, "a server answers there")
            path.unlink()  # left by one that was killed
        mask = os.umask(0o117)
        try:
            bound.bind(str(path))
        finally:
            os.umask(mask)
        bound.listen(128)
    except OSError as error:
        bound.close()
        raise UsageError(f"Cannot listen at {path}: {error.strerror or error}.") from None
    return bound


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, feed: Feed, facilities: Facilities) -> None:
        super().__init__(config)
        self._feed = feed
        self._facilities = facilities

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._feed.end()
        self._facilities.stop()
        await super().shutdown(sockets)


def _server(app: FastAPI) -> uvicorn.Server:
    # proxy_headers would put the browser's address in place of the proxy's, by which the proxy is known.
    settings = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=1,
        proxy_headers=False,
        server_header=False,
        http=Connection,
        h11_max_incomplete_event_size=_LONGEST_HEAD_BYTES,
    )
    return _Server(settings, app.state.feed, app.state.facilities)


def run(app: FastAPI, bound: socket.socket) -> None:
    """Until Ctrl-C or SIGTERM."""
    with app.state.writer.running():
        _server(app).run(sockets=[bound])


@contextmanager
def running(app: FastAPI, bound: socket.socket) -> Iterator[str]:
    """In a thread, for as long as the block lasts."""
    server = _server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True, name="dashboard")
    with app.state.writer.running():
        thread.start()
        try:
            yield address_of(bound)
        finally:
            server.should_exit = True
            thread.join(timeout=5)
