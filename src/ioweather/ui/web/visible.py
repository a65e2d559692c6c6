"""Who sees what, and what a page shows: identity, the view that every endpoint takes, its period, its errors.

An endpoint declares its class by the view it takes. `check_declared` refuses an application in which one does not.

  PublicView    nothing of people in it: the weather, pages without content, health
  OwnView       rows of the person who asks; of everybody where [visibility] is open or an operator asks
  OperatorView  the whole lake
  Sender        no view: a host that brings rows, known by its token

A token of a person takes the place of the proxy's word in OwnView, and shows that person's rows alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Depends, FastAPI, Header, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel

from ioweather.core import errors
from ioweather.core.contracts import ALL_TIME, Period
from ioweather.core.errors import IoweatherError, UsageError
from ioweather.core.facility import SOCKET, Facility, Owner, Visibility
from ioweather.core.results import Answer, Exhibit
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, format_time_ns, parse_moment_ns, zone_named
from ioweather.lake.lake import Lake
from ioweather.topics.catalogue import QUESTIONS
from ioweather.topics.source import SharedResults, ask
from ioweather.ui.charts.page import Drawn, Screen
from ioweather.ui.web.tokens import Token, find_token

if TYPE_CHECKING:
    from ioweather.ui.web.served_lake import ServedLake

_NOBODY: Final = Owner("")
_LONGEST_NAME: Final = 256
_LONGEST_TIME: Final = 100
_LONGEST_HEADER: Final = 500
_WIDTH_STEP, _LEAST_WIDTH, _MOST_WIDTH = 20, 200, 2000
_WIDTH: Final = "ioweather-width"
_SCREEN: Final = "ioweather-screen"  # the dashboard's script says which drawings it has room for


@dataclass(frozen=True)
class View:
    """The lake as one user may see it. `owner` is None for users who see everything."""

    served: ServedLake
    owner: Owner | None
    sees_sql: bool = True
    between: tuple[str, str] = ("", "")  # the time range of the page, as its address has it
    screen: Screen = "wide"
    width: int = 0  # pixels that a part of the page has; 0: not known

    @property
    def lake(self) -> Lake:
        """The lake with the rows that this user may see."""
        return self.served.lake.seen_by(self.owner)

    @property
    def key(self) -> str:
        """A cache key: with the state of the lake it determines what the view shows."""
        return f"{self.owner.user if self.owner else ''}\n{self.owner is None}"

    def drawn(self, height: int | None = None, share: float = 1.0, less: int = 0, *, live: bool = True) -> Drawn:
        """How figures are drawn for the screen of this user: `share` of the width of its part, minus `less`
        pixels."""
        room = self.width * (1.0 if self.screen == "narrow" else share) - less
        width = int(room // _WIDTH_STEP * _WIDTH_STEP) if room > _LEAST_WIDTH else None
        return Drawn(self.screen, live=live, height=height, width=width)

    def exhibit(self, exhibit_id: str, params: Mapping[str, str], period: Period) -> Exhibit:
        return self.served.exhibit(self.lake, exhibit_id, params, period)

    def ask(
        self, question: str, params: Mapping[str, Any], period: Period = ALL_TIME, shared: SharedResults | None = None
    ) -> Answer:
        """Answer a question from visible rows. Files are refused: paths would be read from the disk of the server."""
        if question == "now":
            params = {"spool": self.served.own_spools, **params}
        return ask(question, self.lake, params, period_ns=period, shared=shared, files=False)

    def ask_as_sent(self, question: str, params: Mapping[str, Any], between: tuple[str, str]) -> Answer:
        """Answer a question with the parameters and the period of a request. What names a place of the server's own
        machine is refused; a question without a period ignores it."""
        found = QUESTIONS[question]
        for param in found.params:
            if param.local and param.name in params:
                raise UsageError(f"{param.name} refers to the server's machine and cannot be set in a request.")
        return self.ask(question, params, period_of(between, self.lake.facility) if found.period else ALL_TIME)


def user_of(request: Request, visibility: Visibility) -> str | None:
    """The name that the proxy gives. From any other client the header is refused, not ignored: it may be an attack."""
    names = request.headers.getlist(visibility.user_header)
    if not names:
        return None
    if not visibility.trusts(request.client.host if request.client else SOCKET):
        raise IoweatherError(f"{visibility.user_header} is accepted only from the proxy.", kind="AccessDenied")
    if len(names) > 1:
        raise IoweatherError(
            f"{visibility.user_header} was sent {len(names)} times.",
            hint="Configure the proxy to overwrite it.",
            kind="AccessDenied",
        )
    if len(names[0]) > _LONGEST_NAME or not names[0].isprintable():
        raise IoweatherError(f"{visibility.user_header} contains no valid name.", kind="AccessDenied")
    return names[0].strip() or None


def _view(request: Request, owner: Owner | None, sees_sql: bool = True) -> View:
    """The view of a request: owner, time range, and the reader's screen."""
    start, end = (request.query_params.get(name, "").strip()[:_LONGEST_TIME] for name in ("from", "to"))
    screen: Screen = "narrow" if request.headers.get(_SCREEN) == "narrow" else "wide"
    text = request.headers.get(_WIDTH, "")
    width = min(int(text), _MOST_WIDTH) if text.isascii() and text.isdecimal() and len(text) < 6 else 0
    width = width // _WIDTH_STEP * _WIDTH_STEP
    return View(request.app.state.served, owner, sees_sql, (start, end), screen, width)


# async: a dependency without `async` would cost a trip to a thread.
async def public_view(request: Request) -> View:
    """A view without rows of people, for all."""
    visibility: Visibility = request.app.state.visibility
    if visibility.mode == "open":
        return _view(request, None)
    return _view(request, _NOBODY, user_of(request, visibility) in visibility.operators)


async def own_view(request: Request) -> View:
    """A view of the reader's own rows; of all rows for operators and where [visibility] is open."""
    visibility: Visibility = request.app.state.visibility
    if visibility.user_header not in request.headers and "authorization" in request.headers:
        # A token's rows are those of its owner, whatever others may see.
        token = _token(request, request.headers["authorization"])
        if token is not None and token.user is not None:
            return _view(request, visibility.owner(token.user), sees_sql=False)
        raise IoweatherError(
            "A personal token is required.", hint="ioweather serve token create NAME --user USER", kind="TokenRefused"
        )
    if visibility.mode == "open":
        return _view(request, None)
    user = user_of(request, visibility)
    if user is None:
        raise IoweatherError(
            "You can see only your own jobs on this server, and you are not signed in.",
            hint="Sign in at its proxy.",
            kind="AccessDenied",
        )
    is_operator = user in visibility.operators
    return _view(request, None if is_operator else visibility.owner(user), is_operator)


async def operator_view(request: Request) -> View:
    """A view of all rows, for operators only."""
    view = await own_view(request)
    if view.owner is not None:
        raise IoweatherError("This page is available only to facility operators.", kind="AccessDenied")
    return view


def _token(request: Request, authorization: str) -> Token | None:
    """The token of a header `Authorization: Bearer`; None if it is not valid."""
    scheme, _, text = authorization[:_LONGEST_HEADER].partition(" ")
    root = request.app.state.served.directory
    return find_token(root, text.strip()) if scheme.lower() == "bearer" else None


def sender(
    request: Request,
    authorization: Annotated[str, Header(description="`Bearer` followed by the token", max_length=500)] = "",
) -> Token:
    """The token of a host that brings rows to the main lake."""
    found = _token(request, authorization)
    if found is None or found.user is not None:
        raise IoweatherError(
            "A token known to this server is required.", hint="ioweather serve token create NAME", kind="TokenRefused"
        )
    return found


PublicView = Annotated[View, Depends(public_view)]
OwnView = Annotated[View, Depends(own_view)]
OperatorView = Annotated[View, Depends(operator_view)]
Sender = Annotated[Token, Depends(sender)]
CLASSES: Final[Mapping[Any, str]] = {
    public_view: "public",
    own_view: "own",
    operator_view: "operators",
    sender: "token",
}


def classes_of(route: APIRoute) -> list[str]:
    return [CLASSES[call] for call in _calls(route.dependant) if call in CLASSES]


def _calls(dependant: Dependant) -> Iterator[Any]:
    for part in dependant.dependencies:
        yield part.call
        yield from _calls(part)


def check_declared(app: FastAPI, plain_paths: frozenset[str]) -> None:
    """Every endpoint has exactly one class; `plain_paths` are the same for all users and contain no data."""
    for route in app.routes:
        path = getattr(route, "path", str(route))
        if path not in plain_paths and not (isinstance(route, APIRoute) and len(classes_of(route)) == 1):
            raise RuntimeError(f"{path} does not declare who may see it. Use one of the views in web.visible.")


# Names in a query that are not parameters of a study.
RESERVED: Final = frozenset({"format", "from", "to", "table", "heading"})
PeriodText = tuple[str, str]
_TIME: Final = "ISO 8601 or @EPOCH. Times without a time zone use the facility's time zone."


async def _study_params(request: Request) -> dict[str, str]:
    """An empty field of a form means: choose for me."""
    return {name: value for name, value in request.query_params.items() if name not in RESERVED and value.strip()}


async def _period_text(
    from_: Annotated[str, Query(alias="from", description=f"Start of the period. {_TIME}", max_length=100)] = "",
    to: Annotated[str, Query(description=f"End of the period. {_TIME}", max_length=100)] = "",
) -> PeriodText:
    return from_.strip(), to.strip()


StudyParams = Annotated[dict[str, str], Depends(_study_params)]
Between = Annotated[PeriodText, Depends(_period_text)]


def period_of(texts: PeriodText, facility: Facility) -> Period:
    """The period that a request names, as nanoseconds."""
    if texts == ("", ""):
        return ALL_TIME
    zone = zone_named(facility.zone or "UTC")
    ends = []
    for name, text, default in zip(("from", "to"), texts, ALL_TIME, strict=True):
        try:
            ends.append(parse_moment_ns(text, zone) if text else default)
        except (ValueError, OverflowError, IoweatherError) as error:
            raise UsageError(f"{name}: {error}") from None
    if ends[0] >= ends[1]:
        raise UsageError("The period ends before it starts.")
    return ends[0], ends[1]


RANGE_NS: Final = 7 * DAY_NS  # of a page without a chosen range
PRESETS: Final = {
    "Last hour": HOUR_NS,
    "Last 6 hours": 6 * HOUR_NS,
    "Last day": DAY_NS,
    "Last week": 7 * DAY_NS,
    "Last 30 days": 30 * DAY_NS,
    "Last year": 365 * DAY_NS,
}
_DATED: Final = ("series", "applications", "responses")


def data_end_ns(view: View) -> int | None:
    """The end of the newest visible rows."""

    def look() -> int | None:
        with view.lake.snapshot() as snapshot:
            span = snapshot.time_span()
        return span[1] if span else None

    try:
        return view.served.answered(("end", view.key), look, _DATED, queued=False)
    except IoweatherError:
        return None


def period_for(view: View, default_ns: int | None = None) -> Period:
    """What the address says, else the last `default_ns` of the data, else all of it."""
    if view.between != ("", ""):
        return period_of(view.between, view.lake.facility)
    end = data_end_ns(view) if default_ns else None
    return ALL_TIME if end is None or default_ns is None else (_start_ns(end, default_ns), ALL_TIME[1])


def presets(view: View, default_ns: int | None) -> Iterator[tuple[str, str, bool]]:
    """Yield the links of the range menu: name, start for the address (`?from=`), and whether the page shows it now.
    `default_ns` is the range of a page whose address has none; None means all data."""
    end = data_end_ns(view)
    found = [
        (name, address_time(_start_ns(end, length)), length) for name, length in PRESETS.items() if end is not None
    ]
    for name, start, length_ns in [*found, ("All", "@0", None)]:
        yield name, start, view.between == (start, "") or (view.between == ("", "") and default_ns == length_ns)


def _start_ns(end_ns: int, length_ns: int) -> int:
    unit = DAY_NS if length_ns > DAY_NS else MINUTE_NS
    return (end_ns - length_ns) // unit * unit


def address_time(moment_ns: int) -> str:
    """A time as an address has it, to the minute; a day where it begins one."""
    text = format_time_ns(moment_ns // MINUTE_NS * MINUTE_NS, dt.UTC)
    return f"{text[:10]}T{text[11:16]}Z" if moment_ns % DAY_NS else text[:10]


# The status of each error and what it means: the first class that fits.
_STATUS: Final[Mapping[type[IoweatherError], int]] = {
    errors.DataUnavailable: 404,
    errors.SourceError: 422,
    errors.UsageError: 400,
    errors.LakeError: 503,
    errors.IoweatherError: 500,
}
_STATUS_OF_KIND: Final = {
    "AccessDenied": 403,
    "Busy": 503,
    "FacilityError": 503,
    "QueueFull": 503,
    "SlowSender": 408,
    "TokenRefused": 401,
}
_MEANINGS: Final = {
    400: "The request is invalid or was refused.",
    401: "A token is needed.",
    403: "You do not have access to this.",
    404: "The data does not exist or is not sufficient.",
    408: "The request arrived too slowly.",
    422: "The file cannot be read.",
    503: "The lake cannot be opened, or there are too many requests.",
}


class ErrorText(BaseModel):
    kind: str
    message: str
    hint: str


class ErrorBody(BaseModel):
    error: ErrorText


def may_answer(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the description of an endpoint."""
    return {status: {"model": ErrorBody, "description": _MEANINGS[status]} for status in statuses}


def status_of(error: IoweatherError) -> int:
    """The HTTP status of an error."""
    if error.kind in _STATUS_OF_KIND:
        return _STATUS_OF_KIND[error.kind]
    return next(status for kind, status in _STATUS.items() if isinstance(error, kind))
