"""The application, its headers and error pages, and the server that runs it."""

from __future__ import annotations

import datetime as dt
import errno
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ioweather._version import __version__
from ioweather.agent.exporter import CONTENT_TYPE
from ioweather.core.errors import DataUnavailable, IoweatherError, UsageError
from ioweather.core.facility import Visibility, load_facility
from ioweather.core.units import show_times_in, zone_named
from ioweather.lake import layout
from ioweather.ui.charts.page import style_html
from ioweather.ui.charts.render import vega_bundle
from ioweather.ui.charts.theme import DARK
from ioweather.ui.web import api, pushes
from ioweather.ui.web.lake_metrics import lake_metrics
from ioweather.ui.web.pages import data, jobs, storage, studies
from ioweather.ui.web.pushes import LakeWriter, read_whole_bodies
from ioweather.ui.web.served_lake import ServedLake
from ioweather.ui.web.shell import Html, page, problem
from ioweather.ui.web.visible import PublicView, check_declared, public_view, status_of

STATIC: Final = Path(__file__).with_name("static")
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1", "[::1]")
HEADERS: Final = {
    "content-security-policy": "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}

# Files of ours, the same for everybody.
_PLAIN_PATHS: Final = frozenset({"/figures.css", "/vega.js", "/dark.json", "/static", "/api/v1/openapi.json"})


def guarded(app: ASGIApp, zone: dt.tzinfo) -> ASGIApp:
    """Add the headers to every response, and set the zone of times on pages; the API gives UTC.

    A function middleware of Starlette would hold every body back.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        show_times_in(None if scope.get("path", "").startswith("/api/") else zone)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await app(scope, receive, send_guarded)

    return answer


def create_app(
    lake_dir: Path,
    spool_dirs: Sequence[Path] = (),
    *,
    hosts: Sequence[str] = LOOPBACK,
    metrics: Callable[[], bytes] | None = None,
    visibility: Visibility | None = None,
) -> FastAPI:
    """Requests to names that are not in `hosts` are refused,
    so that a page elsewhere cannot reach this server under a name of its own. `metrics` gives /metrics. `visibility` is
    the lake's, read once: a facility.toml that is away for a moment must not open the house."""
    app = FastAPI(
        title="ioweather", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/v1/openapi.json"
    )
    zone = zone_named("UTC")
    with suppress(IoweatherError):  # a lake that cannot be read is said by its pages
        zone = zone_named(load_facility(layout.facility_file(lake_dir)).zone or "UTC")
    app.state.served = ServedLake(lake_dir, tuple(spool_dirs))
    app.state.writer = LakeWriter(lake_dir)  # not started yet
    app.state.visibility = visibility or load_facility(layout.facility_file(lake_dir)).visibility
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    app.add_middleware(read_whole_bodies)
    app.add_middleware(guarded, zone=zone)

    _answer_errors(app)
    # Their routes as they are: to include a router makes each again, a tenth of a second of every server.
    for router in (module.router for module in (api, pushes, storage, jobs, studies, data)):
        app.router.routes.extend(router.routes)
    app.add_api_route("/healthz", api.health, include_in_schema=False)
    style = style_html().removeprefix("<style>").removesuffix("</style>")
    kept = {"cache-control": "max-age=86400"}  # 0.9 MB that change with the installed version alone
    files: dict[str, Callable[[], Response]] = {
        "/figures.css": lambda: Response(style, media_type="text/css"),
        "/vega.js": lambda: Response(vega_bundle(), media_type="text/javascript", headers=kept),
        "/dark.json": lambda: JSONResponse(DARK),
    }
    for path, make in files.items():
        app.add_api_route(path, make, include_in_schema=False, response_class=Response)
    if metrics is not None:
        of_lake = lake_metrics(app.state.served)

        @app.get("/metrics", include_in_schema=False)
        def scrape(view: PublicView) -> Response:
            return Response(metrics() + of_lake(), media_type=CONTENT_TYPE)

    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    check_declared(app, _PLAIN_PATHS)
    return app


_LOG = logging.getLogger("ioweather.web")
_HEADERS: Final = {401: {"www-authenticate": "Bearer"}, 408: {"connection": "close"}}


def _error_body(kind: str, message: str, hint: str = "") -> dict[str, Any]:
    return {"error": {"kind": kind, "message": message, "hint": hint}}


def _error_response(request: Request, error: IoweatherError, status: int) -> Response:
    """An error of ours: as JSON from the API, else as a part of a page."""
    headers = dict(_HEADERS.get(status, {}))
    if status == 503:
        headers["retry-after"] = "20" if error.kind == "QueueFull" else "5"
    if request.url.path.startswith("/api/"):
        return JSONResponse(_error_body(error.kind, error.message, error.hint), status, headers=headers)
    return Html(problem(error), status, headers=headers)


def _answer_errors(app: FastAPI) -> None:
    """Every error has an answer in the form of the request, without a traceback."""

    @app.exception_handler(IoweatherError)
    async def answer_ioweather_error(request: Request, error: IoweatherError) -> Response:
        return _error_response(request, error, status_of(error))

    @app.exception_handler(RequestValidationError)
    async def answer_invalid_request(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return _error_response(request, UsageError(f"{where}: {first['msg']}."), 400)

    @app.exception_handler(HTTPException)
    async def answer_http_error(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404 and not request.url.path.startswith(("/api/", "/fragments/", "/static/")):
            missing = DataUnavailable(
                "This page does not exist.", hint="Search for a job, a user or a target above, or choose a page."
            )
            body = problem(missing, "Not found")
            return page("base.html", await public_view(request), "", "Not found", status=404, body=body)
        return JSONResponse(_error_body("HTTP", str(error.detail)), error.status_code, headers=error.headers)

    @app.exception_handler(ClientDisconnect)
    async def answer_disconnect(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=499)  # nginx's number for a client that disconnected

    @app.exception_handler(Exception)
    async def answer_unexpected_error(request: Request, error: Exception) -> Response:
        _LOG.error("%s failed", request.url.path, exc_info=error)
        return JSONResponse(_error_body("Internal", "Internal server error. See the server log."), 500)


# Well below the 1024 open files that a process has by default; more are answered 503.
_MOST_CONNECTIONS: Final = 500
_LONGEST_HEAD_BYTES = 64 << 10


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; raises UsageError if the port is taken."""
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
    """Raise UsageError for an address that other machines reach, unless facility.toml sets [visibility]."""
    if visibility.is_said or host == "localhost":
        return
    try:
        if ip_address(host).is_loopback:
            return
    except ValueError:
        pass
    raise UsageError(
        f"Listening on {host} would show everyone's jobs to other machines.",
        hint='Set who can see jobs in facility.toml: [visibility] mode = "own", or "open" for everyone.',
    )


def address_of(bound: socket.socket) -> str:
    """Where the socket listens, as a URL or a path."""
    if bound.family == socket.AF_UNIX:
        return str(bound.getsockname())
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def bind_socket(path: Path) -> socket.socket:
    """A listening socket in the file system that only this user and group can reach, for a proxy."""
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.is_socket():
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as before:
                if before.connect_ex(str(path)) == 0:
                    raise OSError(errno.EADDRINUSE, "a server is already listening there")
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
    """A server that refuses waiting requests when it stops."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self._state = app.state

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._state.served.stop()
        await super().shutdown(sockets)


def _server(app: FastAPI) -> uvicorn.Server:
    """The configured server; it is not started."""
    # proxy_headers would put the browser's address in place of the proxy's, by which the proxy is known.
    settings = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=1,
        proxy_headers=False,
        server_header=False,
        http="h11",
        limit_concurrency=_MOST_CONNECTIONS,
        h11_max_incomplete_event_size=_LONGEST_HEAD_BYTES,
    )
    return _Server(settings, app)


def run(app: FastAPI, bound: socket.socket) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    with app.state.writer.running():
        _server(app).run(sockets=[bound])


@contextmanager
def running(app: FastAPI, bound: socket.socket) -> Iterator[str]:
    """Serve in a thread for as long as the block lasts; gives the address."""
    server = _server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True, name="dashboard")
    with app.state.writer.running():
        thread.start()
        try:
            yield address_of(bound)
        finally:
            server.should_exit = True
            thread.join(timeout=5)
