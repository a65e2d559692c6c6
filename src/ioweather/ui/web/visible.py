"""Identity and visibility: the one place that every endpoint goes through.

An endpoint declares its class by the view it takes. `check_declared` refuses an application in which one does not.

  PublicView    nothing of people in it: the weather, pages without content, health
  OwnView       rows of the person who asks; of everybody where [visibility] is open or an operator asks
  OperatorView  the whole lake
  Sender        no view: a host that brings rows, known by its token

A token of a person takes the place of the proxy's word in OwnView, and shows that person's rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, Header, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from ioweather.core.errors import AccessDenied
from ioweather.core.facility import SOCKET, Owner, Visibility
from ioweather.core.outcomes import EventOutcome
from ioweather.core.results import Answer, Exhibit
from ioweather.lake.lake import Lake
from ioweather.lake.tokens import Token, find_token
from ioweather.topics.analyse import ALL_TIME, Period
from ioweather.topics.ask import ask
from ioweather.topics.source import SharedResults
from ioweather.ui.charts.page import Drawn, Screen
from ioweather.ui.web.facilities import MAIN, Facilities

_NOBODY: Final = Owner("")
_LONGEST_NAME: Final = 256
_LONGEST_TIME: Final = 100
_LONGEST_HEADER: Final = 500
_WIDTH_STEP, _LEAST_WIDTH, _MOST_WIDTH = 20, 200, 2000
_WIDTH: Final = "ioweather-width"
_SCREEN: Final = "ioweather-screen"  # the dashboard's script says which drawings it has room for


@dataclass(frozen=True)
class View:
    """A facility as one user may see it. `owner` is None for users who see everything."""

    facilities: Facilities
    name: str
    owner: Owner | None
    sees_sql: bool = True
    between: tuple[str, str] = ("", "")  # the time range of the page, as its address has it
    screen: Screen = "wide"
    width: int = 0  # pixels that a part of the page has; 0: not known

    @property
    def lake(self) -> Lake:
        return self.facilities.lake(self.name).seen_by(self.owner)

    @property
    def key(self) -> str:
        """A cache key: with the state of the lake it determines what the view shows."""
        return f"{self.name}\n{self.owner.user if self.owner else ''}\n{self.owner is None}"

    def drawn(self, height: int | None = None, share: float = 1.0, less: int = 0, *, live: bool = True) -> Drawn:
        """How figures are drawn for the screen of this user: as wide as this share of the part, `less` pixels."""
        room = self.width * (1.0 if self.screen == "narrow" else share) - less
        width = int(room // _WIDTH_STEP * _WIDTH_STEP) if room > _LEAST_WIDTH else None
        return Drawn((self.screen,), live=live, height=height, width=width)

    def exhibit(self, exhibit_id: str, params: Mapping[str, str], period: Period) -> Exhibit:
        return self.facilities.exhibit(self.lake, self.name, exhibit_id, params, period)

    def now(self) -> tuple[Answer, bool]:
        return self.facilities.now(self.name)

    def events(self, kind: str | None, period: Period) -> Sequence[EventOutcome]:
        return self.facilities.events(self.name, kind, period)

    def ask(
        self, question: str, params: Mapping[str, Any], period: Period = ALL_TIME, shared: SharedResults | None = None
    ) -> Answer:
        """Answer a question from visible rows. Files are refused: paths would be read from the disk of the server."""
        if question == "now":
            self.facilities.measured(self.name)
            params = {"spool": self.facilities.own_spools(self.name), **params}
        return ask(question, self.lake, params, period_ns=period, shared=shared, files=False)


def user_of(request: Request, visibility: Visibility) -> str | None:
    """The name that the proxy gives. From any other client the header is refused, not ignored: it may be an attack."""
    names = request.headers.getlist(visibility.user_header)
    if not names:
        return None
    if not visibility.trusts(request.client.host if request.client else SOCKET):
        raise AccessDenied(f"{visibility.user_header} is accepted only from the proxy.")
    if len(names) > 1:
        raise AccessDenied(
            f"{visibility.user_header} was sent {len(names)} times.", hint="Configure the proxy to overwrite it."
        )
    if len(names[0]) > _LONGEST_NAME or not names[0].isprintable():
        raise AccessDenied(f"{visibility.user_header} contains no valid name.")
    return names[0].strip() or None


def _visibility(request: Request) -> Visibility:
    found: Visibility = request.app.state.visibility
    return found


def _facilities(request: Request) -> Facilities:
    found: Facilities = request.app.state.facilities
    return found


LakeName = Annotated[str, Query(alias="lake", description="The facility to show.", max_length=100)]


def _view(request: Request, lake: str, owner: Owner | None, sees_sql: bool = True) -> View:
    start, end = (request.query_params.get(name, "").strip()[:_LONGEST_TIME] for name in ("from", "to"))
    screen: Screen = "narrow" if request.headers.get(_SCREEN) == "narrow" else "wide"
    text = request.headers.get(_WIDTH, "")
    width = min(int(text), _MOST_WIDTH) if text.isascii() and text.isdecimal() and len(text) < 6 else 0
    return View(
        _facilities(request), lake or MAIN, owner, sees_sql, (start, end), screen, width // _WIDTH_STEP * _WIDTH_STEP
    )


# async: a dependency without `async` would cost a trip to a thread.
async def public_view(request: Request, lake: LakeName = MAIN) -> View:
    visibility = _visibility(request)
    if visibility.mode == "open":
        return _view(request, lake, None)
    return _view(request, lake, _NOBODY, user_of(request, visibility) in visibility.operators)


async def own_view(request: Request, lake: LakeName = MAIN) -> View:
    visibility = _visibility(request)
    if visibility.user_header not in request.headers and "authorization" in request.headers:
        # A token's rows are those of its owner, whatever others may see.
        token = _token(request, request.headers["authorization"])
        if token is not None and token.user is not None:
            return _view(request, lake, visibility.owner(token.user), sees_sql=False)
        raise AccessDenied(
            "A personal token is required.", hint="ioweather serve token create NAME --user USER", kind="TokenRefused"
        )
    if visibility.mode == "open":
        return _view(request, lake, None)
    user = user_of(request, visibility)
    if user is None:
        raise AccessDenied(
            "This server shows people their own jobs, and does not know who you are.", hint="Sign in at its proxy."
        )
    is_operator = user in visibility.operators
    return _view(request, lake, None if is_operator else visibility.owner(user), is_operator)


async def operator_view(request: Request, lake: LakeName = MAIN) -> View:
    view = await own_view(request, lake)
    if view.owner is not None:
        raise AccessDenied("This is for the operators of the facility.")
    return view


def _token(request: Request, authorization: str) -> Token | None:
    scheme, _, text = authorization[:_LONGEST_HEADER].partition(" ")
    return find_token(_facilities(request).directory(MAIN), text.strip()) if scheme.lower() == "bearer" else None


def sender(
    request: Request, authorization: Annotated[str, Header(description="Bearer and the token", max_length=500)] = ""
) -> Token:
    """The token of a host that brings rows to the main lake."""
    found = _token(request, authorization)
    if found is None or found.user is not None:
        raise AccessDenied(
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
            raise RuntimeError(f"{path} does not declare who may see it: give it one of the views of web.visible.")
