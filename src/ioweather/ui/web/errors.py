"""Errors with a status that says whose they are; nothing of the inside of the server goes out.

JSON for the API; a sentence of markup for a part of a page, which stands in the part's place.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ioweather.core.errors import Busy, DataUnavailable, IoweatherError, UsageError
from ioweather.ui.web.shell import Html, page, problem
from ioweather.ui.web.statuses import status_of
from ioweather.ui.web.visible import public_view

_LOG = logging.getLogger("ioweather.web")
_HEADERS: Final = {
    401: {"www-authenticate": "Bearer"},
    408: {"connection": "close"},
    503: {"retry-after": str(Busy.after_seconds)},
}


def body(kind: str, message: str, hint: str = "") -> dict[str, Any]:
    return {"error": {"kind": kind, "message": message, "hint": hint}}


def _told(request: Request, error: IoweatherError, status: int) -> Response:
    headers = dict(_HEADERS.get(status, {}))
    if isinstance(error, Busy):
        headers["retry-after"] = str(error.after_seconds)
    kind, message, hint = type(error).__name__, error.message, error.hint
    if request.url.path.startswith("/api/"):
        return JSONResponse(body(kind, message, hint), status, headers=headers)
    return Html(problem(error), status, headers=headers)


def install(app: FastAPI) -> None:
    @app.exception_handler(IoweatherError)
    async def ours(request: Request, error: IoweatherError) -> Response:
        return _told(request, error, status_of(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return _told(request, UsageError(f"{where}: {first['msg']}."), 400)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404 and not request.url.path.startswith(("/api/", "/fragments/", "/static/")):
            missing = DataUnavailable(
                "There is no such page.", hint="Search for a job, a user or a target above, or choose a page."
            )
            body_part = problem(missing, "Not found")
            return page("base.html", await public_view(request), "", "Not found", status=404, body=body_part)
        return JSONResponse(body("HTTP", str(error.detail)), error.status_code, headers=error.headers)

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=499)  # nginx's number for it; nobody reads this answer

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        _LOG.error("%s failed", request.url.path, exc_info=error)
        return JSONResponse(body("Internal", "The server failed here; its log says how."), 500)
