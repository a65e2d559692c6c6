"""Receives rows of other hosts (/api/v1/spool), bounds request bodies, and runs the lake's writer."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Final, TypeAlias, TypeVar

import anyio
import anyio.to_thread
from fastapi import APIRouter, Request
from fastapi import Path as PathParam
from pydantic import TypeAdapter, ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ioweather.agent.status import STATUS_VERSION, Status, keep_status
from ioweather.core.errors import CorruptInput, IoweatherError, LakeError, SourceError
from ioweather.core.units import MIB, now_ns
from ioweather.ingestion.queue import Waiting, draft_in, waiting
from ioweather.ingestion.receive import HOST, NAME, Received, receive, require_room
from ioweather.lake.lake import Lake, open_lake
from ioweather.ui.web.queries import body_parts
from ioweather.ui.web.served_lake import Refreshed
from ioweather.ui.web.tokens import Token
from ioweather.ui.web.visible import Sender, may_answer

T = TypeVar("T")

router = APIRouter(prefix="/api/v1")
LIMIT_BYTES: Final = 64 * MIB
STATUS_LIMIT_BYTES: Final = MIB  # twice that of a hundred probed paths
# Most of their time is spent waiting for the disk.
_THREADS: Final = 8
_MOST_CHECKS_WAITING: Final = 100
_STATUS_LOCK: Final = threading.Lock()
_STATUS: Final = TypeAdapter(Status)
SegmentName: TypeAlias = Annotated[str, PathParam(pattern=f"^{NAME}$", max_length=220)]
HostName: TypeAlias = Annotated[str, PathParam(pattern=f"^{HOST}$", max_length=253)]
_OCTETS: Final = {"requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}}
_ANSWERS: Final = may_answer(400, 401, 403, 404, 408, 422, 503)


# Before the route for segments, which matches any name.
@router.post("/spool/{host}/status", responses=_ANSWERS, openapi_extra=_OCTETS)
async def tell(request: Request, token: Sender, host: HostName) -> dict[str, str]:
    """The status.json of an agent on another host. It replaces the previous status."""
    _check_token(token, host)
    status = read_told(b"".join([part async for part in body_parts(request, STATUS_LIMIT_BYTES, "status")]), host)
    await _checking(request, _keep, request.app.state.served.directory, status)
    return {"status": "ok"}


def read_told(data: bytes, host: str) -> Status:
    """The status, every field of its type: a wrong one must not break the page that shows all agents."""
    try:
        json.loads(data, parse_int=_int64)
        status = _STATUS.validate_json(data, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise CorruptInput(f"The status: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from None
    except (ValueError, RecursionError) as error:
        raise CorruptInput(f"The status is not JSON: {error}.") from None
    if status.version != STATUS_VERSION:
        raise CorruptInput(f"The status has version {status.version}, but this server reads version {STATUS_VERSION}.")
    if status.host != host:
        raise IoweatherError(f"The status is from {status.host}, not from {host}.", kind="AccessDenied")
    return status


def _int64(text: str) -> int:
    value = int(text)
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{text[:30]} exceeds 64 bits")
    return value


def _keep(root: Path, status: Status) -> None:
    open_lake(root)
    try:
        with _STATUS_LOCK:
            keep_status(root, status, now_ns())
    except OSError as error:
        raise LakeError(f"The inbox cannot be written: {error.strerror}.") from None


def _check_token(token: Token, host: str) -> None:
    if not token.is_for(host):
        raise IoweatherError(f"The token {token.name} is not for {host}.", kind="AccessDenied")


@router.post("/spool/{host}/{segment}", responses=_ANSWERS, openapi_extra=_OCTETS)
async def bring(request: Request, token: Sender, host: HostName, segment: SegmentName) -> Received:
    """A spool file of another host, as the request body. The response means that the file was checked and is safe on
    the server's disk. It is in the lake soon after. A repeated push adds nothing."""
    _check_token(token, host)
    root, writer = await _ready(request)
    try:
        with draft_in(root) as draft:
            with draft.open("wb") as file:
                async for part in body_parts(request, LIMIT_BYTES, "file"):
                    file.write(part)
            if not draft.stat().st_size:
                raise SourceError("The request body is empty.", kind="EmptyInput")
            found = await _checking(request, receive, Lake(root), draft, host, segment, token.hosts)
    except OSError as error:
        raise LakeError(f"The queue cannot be used: {error.strerror}.") from None
    writer.wake()
    return found


async def _ready(request: Request) -> tuple[Path, LakeWriter]:
    """The lake and its writer, if there is a lake and the queue has room."""
    root, writer = request.app.state.served.directory, request.app.state.writer

    def check() -> None:
        open_lake(root)
        require_room(writer.queue.get() or Waiting())

    await anyio.to_thread.run_sync(check)
    return root, writer


async def _checking(request: Request, check: Callable[..., T], *arguments: object) -> T:
    """Run the check in one of a few threads of its own, so that senders never occupy the threads of readers."""
    state = request.app.state
    if not hasattr(state, "checking"):  # needs a running loop
        state.checking = anyio.CapacityLimiter(_THREADS)
    if state.checking.statistics().tasks_waiting >= _MOST_CHECKS_WAITING:
        raise IoweatherError("Too many hosts are sending.", kind="Busy")
    return await anyio.to_thread.run_sync(check, *arguments, limiter=state.checking)


# The next part of a body arrives within this time, or the request is refused.
PART_SECONDS: Final = 30.0
# Read at most so much more of a refused body before the answer.
REST_BYTES: Final = 64 * MIB


def read_whole_bodies(app: ASGIApp) -> ASGIApp:
    """Read the rest of a body before the answer, at most REST_BYTES: an answer to half a request closes the connection,
    and the sender would see a broken pipe instead of the reason."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await app(scope, receive, send)
            return
        size, more = 0, True

        async def receive_part() -> Message:
            nonlocal size, more
            if not more:
                return await receive()
            try:
                with anyio.fail_after(PART_SECONDS):
                    message = await receive()
            except TimeoutError:
                more = False
                raise IoweatherError(
                    f"Only {size:,} bytes of the request arrived in time.", kind="SlowSender"
                ) from None
            size += len(message.get("body", b""))
            more = bool(message.get("more_body"))  # false in the last part and after a disconnect
            return message

        async def send_after_body(message: Message) -> None:
            if message["type"] == "http.response.start":
                most = size + REST_BYTES
                with suppress(IoweatherError):
                    while more and size < most:
                        await receive_part()
            await send(message)

        await app(scope, receive_part, send_after_body)

    return answer


_LOG = logging.getLogger("ioweather.web")
_LOOK_SECONDS: Final = 2.0
# Between two passes: every commit adds a file to each table, and small files make reading slow.
_PAUSE_SECONDS: Final = 5.0
_LONGEST_PAUSE_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 2.0
_COUNT_EVERY_SECONDS: Final = 1.0


class LakeWriter:
    """At most one pass at a time; it rests as long as it worked, and longer after each failure."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._child: subprocess.Popen[bytes] | None = None
        self._came = threading.Event()
        self._ending = threading.Event()
        self.queue = Refreshed(lambda: waiting(root), _COUNT_EVERY_SECONDS)  # its files and bytes, a second old

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None and self._child.poll() is None else None

    def wake(self) -> None:
        """A file was put into the queue."""
        self._came.set()

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run, daemon=True, name="writer")
        thread.start()
        try:
            yield
        finally:
            self._ending.set()
            self._came.set()
            if self._child is not None:
                self._child.terminate()
            thread.join(_STOP_SECONDS)
            if thread.is_alive() and self._child is not None:  # the queue has everything: a kill loses nothing
                self._child.kill()
            thread.join()

    def _run(self) -> None:
        failures = 0
        while not self._ending.is_set():
            self._came.wait(_LOOK_SECONDS)
            self._came.clear()
            if self._ending.is_set() or not waiting(self._root).files:
                continue
            began = time.monotonic()
            code = self._run_pass()
            took = time.monotonic() - began
            failures = failures + 1 if code else 0
            if code and not self._ending.is_set():
                _LOG.error("The lake writer exited with %d after %.0f s; pushed files stay queued.", code, took)
            # The first failure may be a kill: try again at once.
            pause = max(_PAUSE_SECONDS, took) if not failures else 2.0 ** (failures - 2)
            self._ending.wait(min(pause, _LONGEST_PAUSE_SECONDS))

    def _run_pass(self) -> int:
        command = [sys.executable, "-m", "ioweather.ingestion.drain", str(self._root.absolute())]
        try:
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True, cwd="/"
            )
        except OSError as error:
            _LOG.error("The lake writer cannot be started: %s.", error)
            return 2
        if self._ending.is_set():
            self._child.terminate()
        return self._child.wait()
