"""/api/v1/spool and remote write: other hosts push rows, and their agents' status."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path as FilePath
from typing import Annotated, Final, TypeAlias, TypeVar

import anyio.to_thread
from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, TypeAdapter, ValidationError

from ioweather.agent.status import STATUS_VERSION, Status, keep_status
from ioweather.core.clock import now_ns
from ioweather.core.errors import AccessDenied, Busy, CorruptInput, EmptyInput, LakeError, UsageError
from ioweather.core.units import MIB, format_bytes
from ioweather.ingestion.pushed_samples import receive_samples
from ioweather.ingestion.queue import draft_in
from ioweather.ingestion.receive import HOST, NAME, check_names, check_room, receive
from ioweather.lake.lake import Lake, open_lake
from ioweather.lake.tokens import Token
from ioweather.readers.prometheus.server import MOST_BYTES as REMOTE_WRITE_BYTES
from ioweather.ui.web.facilities import MAIN
from ioweather.ui.web.statuses import may_answer
from ioweather.ui.web.visible import Sender
from ioweather.ui.web.writer import LakeWriter

T = TypeVar("T")

router = APIRouter(prefix="/api/v1")
LIMIT_BYTES: Final = 64 * MIB
STATUS_LIMIT_BYTES: Final = MIB  # twice that of a hundred probed paths
_THREADS: Final = 4
_MOST_CHECKS_WAITING: Final = 100
_STATUS_LOCK: Final = threading.Lock()
_STATUS: Final = TypeAdapter(Status)
HostName: TypeAlias = Annotated[str, Path(pattern=f"^{HOST}$", max_length=253)]
_OCTETS: Final = {"requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}}
_ANSWERS: Final = may_answer(400, 401, 403, 404, 408, 422, 503)


class Taken(BaseModel):
    """`known`: it waits for the lake already. `partial`: what follows a wrong line was left out."""

    status: str
    rows: dict[str, int]
    message: str


class Kept(BaseModel):
    status: str = "ok"


# Before the route for segments, which matches any name.
@router.post("/spool/{host}/status", responses=_ANSWERS, openapi_extra=_OCTETS)
async def tell(request: Request, token: Sender, host: HostName) -> Kept:
    """The status of the agent of another host, as its status.json has it. It takes the place of the one before."""
    _check_token(token, host)
    status = read_told(b"".join([part async for part in _body(request, STATUS_LIMIT_BYTES, "status")]), host)
    await _checking(request, _keep, request.app.state.facilities.directory(MAIN), status)
    return Kept()


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
        raise CorruptInput(f"The status has version {status.version}, this server reads {STATUS_VERSION}.")
    if status.host != host:
        raise AccessDenied(f"The status is of {status.host}, and not of {host}.")
    return status


def _int64(text: str) -> int:
    value = int(text)
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{text[:30]} is beyond 64 bits")
    return value


def _keep(root: FilePath, status: Status) -> None:
    open_lake(root)
    try:
        with _STATUS_LOCK:
            keep_status(root, status, now_ns())
    except OSError as error:
        raise LakeError(f"The inbox cannot be written: {error.strerror}.") from None


def _check_token(token: Token, host: str) -> None:
    if not token.is_for(host):
        raise AccessDenied(f"The token {token.name} is not for {host}.")


@router.post("/spool/{host}/{segment}", responses=_ANSWERS, openapi_extra=_OCTETS)
async def bring(
    request: Request, token: Sender, host: HostName, segment: Annotated[str, Path(pattern=f"^{NAME}$", max_length=220)]
) -> Taken:
    """A file of the spool of another host, as the body. When this answers it was checked and is safe on the server's
    disk; the lake has it soon after. Sent again, it adds nothing."""
    check_names(host, segment)
    _check_token(token, host)
    root, writer = await _ready(request)
    try:
        with draft_in(root) as draft:
            with draft.open("wb") as file:
                async for part in _body(request, LIMIT_BYTES, "file"):
                    file.write(part)
            if not draft.stat().st_size:
                raise EmptyInput("The body is empty.")
            found = await _checking(request, receive, Lake(root), draft, host, segment, token.hosts)
    except OSError as error:
        raise LakeError(f"The queue cannot be used: {error.strerror}.") from None
    writer.wake()
    return Taken(**found._asdict())


@router.post("/remote-write", status_code=204, responses=_ANSWERS, openapi_extra=_OCTETS)
async def remote_write(request: Request, token: Sender) -> None:
    """What a Prometheus server pushes (remote write, version 1). When this answers, the samples that a mapping names
    are safe on the server's disk; the lake has them some minutes later. Sent again, they add nothing."""
    root, writer = await _ready(request)
    body = b"".join([part async for part in _body(request, REMOTE_WRITE_BYTES, "body")])
    try:
        if await _checking(request, receive_samples, Lake(root), body, token):
            writer.wake()
    except OSError as error:
        raise LakeError(f"The queue cannot be used: {error.strerror}.") from None


async def _ready(request: Request) -> tuple[FilePath, LakeWriter]:
    """The lake and its writer, if there is a lake and the queue has room."""
    root, writer = request.app.state.facilities.directory(MAIN), request.app.state.writer

    def check() -> None:
        open_lake(root)
        check_room(writer.waiting())

    await anyio.to_thread.run_sync(check)
    return root, writer


async def _body(request: Request, limit_bytes: int, what: str) -> AsyncIterator[bytes]:
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit_bytes:
            raise UsageError(f"The {what} is larger than {format_bytes(limit_bytes)}.")
        yield part


async def _checking(request: Request, check: Callable[..., T], *arguments: object) -> T:
    """Run the check in one of a few threads of its own, so that senders never occupy the threads of readers."""
    state = request.app.state
    if not hasattr(state, "checking"):  # needs a running loop
        state.checking = anyio.CapacityLimiter(_THREADS)
    if state.checking.statistics().tasks_waiting >= _MOST_CHECKS_WAITING:
        raise Busy("Too many hosts send at once.")
    return await anyio.to_thread.run_sync(check, *arguments, limiter=state.checking)
