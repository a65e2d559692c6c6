"""The application: pages, their parts, the API, and the headers that keep strangers out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.staticfiles import StaticFiles
from starlette.middleware.trustedhost import TrustedHostMiddleware

from ioweather._version import __version__
from ioweather.figures.bundle import vega_bundle
from ioweather.figures.frame import style_html
from ioweather.figures.theme import DARK
from ioweather.web import api, errors, fragments, pages
from ioweather.web.facilities import MAIN, Facilities

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


def create_app(
    lake_dir: Path,
    spool_dirs: Sequence[Path] = (),
    *,
    others: Mapping[str, Path] | None = None,
    hosts: Sequence[str] = LOOPBACK,
    metrics: Callable[[], bytes] | None = None,
) -> FastAPI:
    """`others` are further lakes, by the name that ?lake= takes. Requests to names that are not in `hosts` are refused,
    so that a page elsewhere cannot reach this server under a name of its own. `metrics` gives /metrics."""
    app = FastAPI(title="ioweather", version=__version__, docs_url=None, redoc_url=None,
                  openapi_url="/api/v1/openapi.json")  # fmt: skip
    app.state.facilities = Facilities({MAIN: lake_dir, **(others or {})}, tuple(spool_dirs))
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)

    @app.middleware("http")
    async def guard(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await proceed(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    errors.install(app)
    app.include_router(api.router)
    app.include_router(fragments.router)
    app.include_router(pages.router)
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

        @app.get("/metrics", include_in_schema=False)
        def scrape() -> Response:
            return Response(metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    return app
