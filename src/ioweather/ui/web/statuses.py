"""The status that an error is told with, and what each means."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from ioweather.core.errors import (
    AccessDenied,
    Busy,
    DataUnavailable,
    FacilityError,
    IoweatherError,
    LakeError,
    QueryRefused,
    SlowSender,
    SourceError,
    TokenRefused,
    UsageError,
)

# The first class that fits.
STATUS: Final[tuple[tuple[type[IoweatherError], int], ...]] = (
    (DataUnavailable, 404),
    (SourceError, 422),
    (QueryRefused, 400),
    (UsageError, 400),
    (TokenRefused, 401),
    (AccessDenied, 403),
    (SlowSender, 408),
    (Busy, 503),
    (LakeError, 503),
    (FacilityError, 503),
    (IoweatherError, 500),
)


class ErrorText(BaseModel):
    kind: str
    message: str
    hint: str


class ErrorBody(BaseModel):
    error: ErrorText


_MEANINGS: Final = {
    400: "The request is wrong or refused.",
    401: "A token is needed.",
    403: "Whoever asks may not see this.",
    404: "The data do not allow it.",
    408: "The request came too slowly.",
    413: "The body is too large.",
    422: "The file cannot be read.",
    503: "The lake cannot be opened, or too many ask at once.",
}


def may_answer(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the description of an endpoint."""
    return {status: {"model": ErrorBody, "description": _MEANINGS[status]} for status in statuses}


def status_of(error: IoweatherError) -> int:
    return next(status for kind, status in STATUS if isinstance(error, kind))
