"""What `ioweather up` shows in place of an empty Overview until the first rows are in the lake."""

from __future__ import annotations

import time

from fastapi import FastAPI
from fastapi.routing import APIRoute
from markupsafe import Markup

from ioweather.agent.delivery import FIRST_SHIPMENT_NS
from ioweather.agent.status import read_status
from ioweather.core.errors import IoweatherError
from ioweather.core.units import NS, format_value
from ioweather.ui.local_setup import Here
from ioweather.ui.web.facilities import MAIN
from ioweather.ui.web.shell import Html, page
from ioweather.ui.web.visible import PublicView, View

_AGAIN_SECONDS = "2"


def show_until_measured(app: FastAPI, here: Here) -> None:
    """Put a page with the first response times before the Overview, while the lake has no rows."""
    overview = next(route for route in app.routes if isinstance(route, APIRoute) and route.path == "/")
    started = time.monotonic()
    has_rows = False

    def first_page(view: PublicView) -> Html:
        nonlocal has_rows
        if view.name != MAIN or (has_rows := has_rows or _has_rows(view)):
            return overview.endpoint(view)  # type: ignore[no-any-return]
        seconds = max(0, round(FIRST_SHIPMENT_NS / NS - (time.monotonic() - started)))
        shown = page("base.html", view, "/", "Overview", ranged=False, body=_body(here, seconds))
        shown.headers["refresh"] = _AGAIN_SECONDS
        return shown

    first_page.__annotations__["view"] = PublicView
    app.router.routes.insert(0, APIRoute("/", first_page, include_in_schema=False, response_class=Html))


def _has_rows(view: View) -> bool:
    with view.lake.snapshot() as snapshot:
        return any(snapshot.pinned[table].uris for table in ("responses", "series", "applications", "jobs"))


def _body(here: Here, seconds: int) -> Markup:
    when = f"first numbers in {seconds} s" if seconds else "the first numbers are on their way"
    text = Markup("<h1>Measuring {}</h1><p>Overview shows this place as soon as there is something to compare: {}.</p>")
    body = text.format(here.target, when) + _measured(here)
    if here.demo_is_ready():
        return body + Markup(
            '<p>Meanwhile: <a href="/?lake=demo">a demonstration</a> of a simulated facility, with a week of jobs, '
            "servers and incidents.</p>"
        )
    if here.demo_is_coming():
        return body + Markup("<p>A demonstration of a simulated facility is being made; a link will be here.</p>")
    return body


def _measured(here: Here) -> Markup:
    try:
        targets = read_status(here.spools[0]).targets
    except IoweatherError:
        return Markup("<p>The probe is making its files.</p>")
    found = [(o.op, o.last.duration_ns) for t in targets for o in t.operations if o.last and o.last.duration_ns]
    row = Markup("<tr><td>{}</td><td>{}</td></tr>")
    rows = Markup("").join(row.format(op.replace("_", " "), format_value(ns, "ns")) for op, ns in found)
    head = Markup(
        "<table><thead><tr><th>operation</th><th>last response time</th></tr></thead><tbody>{}</tbody></table>"
    )
    return head.format(rows) if found else Markup("<p>The probe is making its files.</p>")
