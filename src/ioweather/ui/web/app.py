"""The application: pages, their parts, the API, and the headers that keep strangers out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Response
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ioweather._version import __version__
from ioweather.core.facility import load_facility
from ioweather.core.visibility import Visibility
from ioweather.lake import layout
from ioweather.ui.charts.page import style_html
from ioweather.ui.charts.render import vega_bundle
from ioweather.ui.charts.theme import DARK
from ioweather.ui.web import api, errors, sending
from ioweather.ui.web.bodies import Bodies
from ioweather.ui.web.facilities import MAIN, Facilities
from ioweather.ui.web.lake_metrics import LakeMetrics
from ioweather.ui.web.live import Feed
from ioweather.ui.web.pages import ROUTERS
from ioweather.ui.web.visible import PublicView, check_declared
from ioweather.ui.web.writer import LakeWriter

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


class Guarded:
    """Adds the headers to every answer. Not a function middleware: that would hold back a stream, and its end."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_guarded)


def create_app(
    lake_dir: Path,
    spool_dirs: Sequence[Path] = (),
    *,
    others: Mapping[str, Path] | None = None,
    hosts: Sequence[str] = LOOPBACK,
    metrics: Callable[[], bytes] | None = None,
    visibility: Visibility | None = None,
) -> FastAPI:
    """`others` are further lakes, by the name that ?lake= takes. Requests to names that are not in `hosts` are refused,
    so that a page elsewhere cannot reach this server under a name of its own. `metrics` gives /metrics. `visibility` is
    the main lake's, read once: a facility.toml that is away for a moment must not open the house."""
    app = FastAPI(
        title="ioweather", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/v1/openapi.json"
    )
    facilities = Facilities({MAIN: lake_dir, **(others or {})}, tuple(spool_dirs))
    app.state.facilities = facilities
    app.state.writer = LakeWriter(lake_dir)  # not started yet
    app.state.visibility = visibility or load_facility(layout.facility_file(lake_dir)).visibility
    app.state.feed = Feed(lambda: api.weather(*facilities.now(MAIN)))
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    app.add_middleware(Bodies)
    app.add_middleware(Guarded)

    errors.install(app)
    # Their routes as they are: to include a router makes each again, a tenth of a second of every server.
    for router in (api.router, sending.router, *ROUTERS):
        app.router.routes.extend(router.routes)
    app.add_api_route("/healthz", api.health, include_in_schema=False)
    style = style_html("auto").removeprefix("<style>").removesuffix("</style>")

    @app.get("/figures.css", include_in_schema=False)
    def figures_style() -> Response:
        return Response(style, media_type="text/css")

    @app.get("/vega.js", include_in_schema=False)
    def vega() -> Response:
        kept = {"cache-control": "max-age=86400"}  # 0.9 MB that change with the installed version alone
        return Response(vega_bundle(), media_type="text/javascript", headers=kept)

    @app.get("/dark.json", include_in_schema=False)
    def dark() -> dict[str, str]:
        return DARK

    if metrics is not None:
        of_lake = LakeMetrics(facilities, named=app.state.visibility.mode == "open")

        @app.get("/metrics", include_in_schema=False)
        def scrape(view: PublicView) -> Response:
            return Response(metrics() + of_lake.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    check_declared(app, _PLAIN_PATHS)
    return app
