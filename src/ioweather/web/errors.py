"""Errors as JSON with a status that says whose they are; nothing of the inside of the server goes out."""

from __future__ import annotations

import logging
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from ioweather.core.errors import (
    DataUnavailable,
    IoweatherError,
    LakeError,
    QueryRefused,
    SourceError,
    UsageError,
)

_LOG = logging.getLogger("ioweather.web")
# The first class that fits.
STATUS: Final[tuple[tuple[type[IoweatherError], int], ...]] = (
    (DataUnavailable, 404),
    (SourceError, 422),
    (QueryRefused, 400),
    (UsageError, 400),
    (LakeError, 503),
    (IoweatherError, 500),
)


def status_of(error: IoweatherError) -> int:
    return next(status for kind, status in STATUS if isinstance(error, kind))


def body(kind: str, message: str, hint: str = "") -> dict[str, Any]:
    return {"error": {"kind": kind, "message": message, "hint": hint}}


def install(app: FastAPI) -> None:
    @app.exception_handler(IoweatherError)
    def ours(request: Request, error: IoweatherError) -> JSONResponse:
        return JSONResponse(body(type(error).__name__, error.message, error.hint), status_of(error))

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return JSONResponse(body("UsageError", f"{where}: {first['msg']}."), 400)

    @app.exception_handler(HTTPException)
    def http(request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse(body("HTTP", str(error.detail)), error.status_code, headers=error.headers)

    @app.exception_handler(Exception)
    def unexpected(request: Request, error: Exception) -> JSONResponse:
        _LOG.error("%s failed", request.url.path, exc_info=error)
        return JSONResponse(body("Internal", "The server failed here; its log says how."), 500)
