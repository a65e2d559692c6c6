"""/api/v1/spool: agents of other hosts bring files of their spools. The one thing in this server that writes rows."""

from __future__ import annotations

import os
import secrets
import threading
from pathlib import Path as FilePath
from typing import Annotated, Final

import anyio.to_thread
from fastapi import APIRouter, Path, Request
from pydantic import BaseModel

from ioweather.core.errors import AccessDenied, Busy, EmptyInput, LakeError, UsageError
from ioweather.core.units import MIB, format_bytes
from ioweather.store.lake import open_lake
from ioweather.store.tokens import Token
from ioweather.web.errors import may_answer
from ioweather.web.facilities import MAIN, Facilities
from ioweather.web.visible import Sender
from ioweather.workflows.receive import HOST, NAME, Received, check_names, inbox, receive

router = APIRouter(prefix="/api/v1")
LIMIT_BYTES: Final = 64 * MIB
_AT_ONCE: Final = threading.BoundedSemaphore(8)


class Taken(BaseModel):
    """`known`: it was in already. `partial`: what follows a wrong line was left out."""

    status: str
    rows: dict[str, int]
    rows_added: dict[str, int]
    message: str


@router.post(
    "/spool/{host}/{segment}",
    responses=may_answer(400, 401, 403, 404, 422, 503),
    openapi_extra={"requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}},
)
async def bring(
    request: Request,
    token: Sender,
    host: Annotated[str, Path(pattern=f"^{HOST}$", max_length=253)],
    segment: Annotated[str, Path(pattern=f"^{NAME}$", max_length=220)],
) -> Taken:
    """A file of the spool of another host, as the body. What it holds is in the lake when this answers; sent again, it
    adds nothing."""
    check_names(host, segment)
    if not token.is_for(host):
        raise AccessDenied(f"The token {token.name} is not for {host}.")
    facilities: Facilities = request.app.state.facilities
    if not _AT_ONCE.acquire(blocking=False):
        raise Busy("Too many hosts send at once.")
    try:
        root = facilities.directory(MAIN)
        draft = await anyio.to_thread.run_sync(_make_draft, root)
        try:
            await _write(request, draft)
            found = await anyio.to_thread.run_sync(_take, facilities, root, draft, host, segment, token)
        finally:
            draft.unlink(missing_ok=True)
    finally:
        _AT_ONCE.release()
    return Taken(status=found.status, rows=dict(found.rows), rows_added=dict(found.rows_added), message=found.message)


def _make_draft(root: FilePath) -> FilePath:
    open_lake(root)
    folder = inbox(root)
    try:
        folder.mkdir(exist_ok=True, mode=0o700)
        draft = folder / f".{secrets.token_hex(8)}"
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise LakeError(f"The inbox cannot be written: {error.strerror}.") from None
    return draft


async def _write(request: Request, draft: FilePath) -> None:
    size = 0
    try:
        with draft.open("wb") as file:
            async for part in request.stream():
                size += len(part)
                if size > LIMIT_BYTES:
                    raise UsageError(f"The file is larger than {format_bytes(LIMIT_BYTES)}.")
                file.write(part)
    except OSError as error:
        raise LakeError(f"The inbox cannot be written: {error.strerror}.") from None
    if not size:
        raise EmptyInput("The body is empty.")


def _take(facilities: Facilities, root: FilePath, draft: FilePath, host: str, segment: str, token: Token) -> Received:
    with facilities.taking():
        return receive(open_lake(root), draft, host, segment, token.hosts)
