"""The pages: each is an address, comes at once, and fetches its slow parts when they are reached."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import escape
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request

from ioweather.core.contracts import Param
from ioweather.core.errors import IoweatherError
from ioweather.core.papers import PAPERS, as_printed, exhibit_entry, published
from ioweather.core.results import quantity_label
from ioweather.core.units import NS, format_value
from ioweather.web.errors import status_of
from ioweather.web.facilities import MAIN
from ioweather.web.queries import last_ns
from ioweather.web.shell import Markup, Place, current, lazy, page, problem
from ioweather.web.topics import TOPICS, Topic, exhibits_of
from ioweather.web.visible import OperatorView, OwnView, PublicView, View
from ioweather.workflows.analyse import Availability, availability, catalogue_only, parameters_of

router = APIRouter(include_in_schema=False, default_response_class=Markup)
_MOST_PRINTED = 3
_LATEST_EVENTS = 10
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_QUICK = {"Last day": 1, "Last week": 7, "Last 30 days": 30, "Last year": 365}
_EXAMPLES = (
    ("Tables and columns", "SELECT table_name, column_name, data_type FROM information_schema.columns"),
    ("Bytes per day", "SELECT day, metric, sum(value) AS bytes FROM series "
     "WHERE metric IN ('read_bytes', 'write_bytes') AND component_kind = 'ost' GROUP BY ALL ORDER BY day, metric"),
    ("Slowest operations", "SELECT start_ns, host, op, duration_ns FROM responses ORDER BY duration_ns DESC LIMIT 20"),
)  # fmt: skip


def place_of(view: View, path: str) -> Place:
    return Place(view.facilities, view.name, path, view.sees_sql)


def shown(place: Place, title: str, body: str, status: int = 200) -> Markup:
    if place.lake not in place.facilities.lakes:
        known = Place(place.facilities, MAIN, place.path, place.sees_sql)
        return Markup(page(known, "No such facility", problem("There is no such facility here.")), 404)
    return Markup(page(place, title, body), status)


@router.get("/")
def now(view: PublicView) -> Markup:
    place = place_of(view, "/")
    live = place.link("/api/v1/now/stream") if place.lake == MAIN else ""
    weather = lazy(place.link("/fragments/now"), "Looking…", every_seconds=5, label="Now", live=live)
    events = lazy(place.link("/fragments/events", most=str(_LATEST_EVENTS)), "Looking for events…", label="Events")
    coming = lazy(place.link("/fragments/forecast"), "Looking ahead…", label="Forecast")
    everything = f'<p><a href="{escape(place.link("/health"))}">All events</a></p>'
    body = (
        f'{weather}<section class="later"><h2>What happened</h2>{events}{everything}</section>'
        f'<section class="later">{coming}</section>'
    )
    return shown(place, "Now", body)


@router.get("/job")
def job_search(view: PublicView, q: str = "") -> Markup:
    place = place_of(view, "/job")
    body = f"""<h1>Was it you or the system?</h1>
<p>Find a job that is in the lake, or look at a Darshan log of your own. A log is looked at and not kept.</p>
<div class="columns">
<form class="card" role="search" method="get" action="/job">{place.field}
<label for="q">Job id, program, user or project</label>
<input id="q" name="q" value="{escape(q)}" autocomplete="off"> <button>Find</button></form>
<form class="card" data-upload="{escape(place.link("/fragments/upload"))}">
<label for="log">Drop a Darshan log here, or choose one (up to 64 MiB)</label>
<input id="log" type="file" accept=".darshan"> <button>Explain</button>
<noscript><p class="quiet">Without a script: <code>ioweather why FILE</code></p></noscript></form>
</div>
<div id="uploaded" aria-live="polite"></div>
{lazy(place.link("/fragments/jobs", q=q), "Looking for jobs…", label="Jobs")}"""
    return shown(place, "Why / job", body)


@router.get("/jobs/{job_id}")
def job(view: PublicView, job_id: str) -> Markup:
    place = place_of(view, "/job")
    link = f"/fragments/jobs/{quote(job_id, safe='')}"
    body = f'<p class="kicker">Job {escape(job_id)}</p>{lazy(place.link(link), "Comparing with similar runs…")}'
    return shown(place, f"Job {job_id}", body)


@router.get("/projects/{name}")
def project(view: PublicView, name: str) -> Markup:
    place = place_of(view, "/applications")
    link = f"/fragments/projects/{quote(name, safe='')}"
    return shown(place, f"Project {name}", lazy(place.link(link), "Adding up…"))


def _available(view: View) -> tuple[list[Availability], int | None, str]:
    """What can be made, where the data end, and what is wrong."""

    def look() -> tuple[list[Availability], int | None, str]:
        with view.lake.snapshot() as snapshot:
            return availability(snapshot), last_ns(snapshot), ""

    try:
        return view.facilities.remembered(view.name, ("available", view.key), look)
    except IoweatherError as error:
        return catalogue_only(), None, problem(error.message, error.hint)


def _found(view: View) -> tuple[list[Availability], int | None, str]:
    return _available(view) if view.name in view.facilities.lakes else ([], None, "")


def topic_page(topic: Topic, view: View, request: Request) -> Markup:
    place = place_of(view, f"/{topic.slug}")
    found, end_ns, note = _found(view)
    mine = {item.id: item for item in found if item.id in exhibits_of(topic)}
    period = {name: request.query_params.get(name, "") for name in ("from", "to")}
    ready = [item for item in mine.values() if item.ready]
    contents = "".join(f'<li><a href="#{escape(i.id)}">{escape(i.title)}</a></li>' for i in ready)
    parts = [f"<h1>{escape(topic.title)}</h1><p>{escape(topic.lead)}</p>{note}"]
    parts += [f"<h2>{name}</h2>{lazy(place.link(link), 'Looking…', label=name)}" for name, link in topic.parts]
    if topic.slug == "responses":
        parts.append(_transfer_form(place, request.query_params.get("size", ""), request.query_params.get("op", "")))
    if ready:
        parts.append(period_form(place, period, end_ns))
        parts.append(f'<details class="contents"><summary>{len(ready)} exhibits</summary><ul>{contents}</ul></details>')
    for item in ready:
        link = place.link(f"/fragments/exhibits/{item.id}", **period)
        parts.append(f'<div class="slot" id="{escape(item.id)}-slot">{lazy(link, f"{item.title}: computing…")}</div>')
    missing = "".join(
        f"<li>{escape(i.id)}: {escape(i.title)}. {escape('; '.join(i.missing))}</li>"
        for i in mine.values()
        if not i.ready
    )
    parts += (
        [f'<section class="later"><h2>What the data do not allow</h2><ul>{missing}</ul></section>'] if missing else []
    )
    return shown(place, topic.title, "".join(parts))


def _transfer_form(place: Place, size: str, op: str) -> str:
    """A question of one's own: its answer is part of the address."""
    options = "".join(
        f'<option value="{value}"{" selected" if value == op else ""}>{value}</option>' for value in ("write", "read")
    )
    answer = lazy(place.link("/fragments/transfer", size=size, op=op), "Computing…", label="Advice") if size else ""
    return (
        f'<h2>How long will it take, how should I stripe?</h2><form class="inline" method="get" action="{place.path}">'
        f"{place.field}<label>A file of "
        f'<input name="size" value="{escape(size)}" placeholder="64GiB" size="8" required></label>'
        f' <label>to <select name="op">{options}</select></label> <button>Ask</button></form>{answer}'
    )


def period_form(place: Place, period: dict[str, str], end_ns: int | None) -> str:
    """Two dates, and the stretches that people ask for most, counted back from where the data end."""
    fields = "".join(
        # A moment that came in an address stays as it was written; a date gets the browser's calendar.
        f'<label>{label} <input type="{"date" if _DATE.fullmatch(period[name] or "2026-01-01") else "text"}" '
        f'name="{name}" value="{escape(period[name])}"></label> '
        for name, label in (("from", "From"), ("to", "Until"))
    )
    return (
        f'<form class="inline" method="get" action="{escape(place.path)}">{place.field}{fields}<button>Show</button>'
        f"{_quick_periods(place, period, end_ns)}</form>"
    )


def _quick_periods(place: Place, period: dict[str, str], end_ns: int | None) -> str:
    starts = {"All": ""}
    if end_ns is not None:
        last = datetime.fromtimestamp((end_ns - 1) // NS, UTC).date()
        starts |= {name: str(last - timedelta(days=days - 1)) for name, days in _QUICK.items()}
    chosen = (period["from"], period["to"])
    links = "".join(
        f'<li><a href="{escape(place.link(place.path, **{"from": start}))}"{current((start, "") == chosen, "true")}>'
        f"{name}</a></li>"
        for name, start in starts.items()
    )
    return f'<ul class="quick" aria-label="Periods">{links}</ul>'


def _add_topic(topic: Topic) -> None:
    def endpoint(view: OwnView, request: Request) -> Markup:
        return topic_page(topic, view, request)

    router.add_api_route(f"/{topic.slug}", endpoint, methods=["GET"], name=topic.slug)


for _topic in TOPICS:
    _add_topic(_topic)


@router.get("/exhibits")
def exhibits(view: OwnView) -> Markup:
    place = place_of(view, "/exhibits")
    found, _, note = _found(view)
    count = sum(item.ready for item in found)
    parts = [
        f"<h1>Exhibits</h1><p>{count} of {len(found)} tables and figures of the five papers can be made.</p>{note}"
    ]
    for paper in PAPERS.values():
        rows = "".join(_exhibit_row(place, item) for item in found if item.id.startswith(f"{paper.key}."))
        head = "".join(f'<th scope="col">{text}</th>' for text in ("Exhibit", "What it shows", "State"))
        head += '<th scope="col" class="printed">Published</th>'
        parts.append(
            f"<h2>{escape(paper.site)}</h2><p class='quiet'>{escape(paper.citation)}</p>"
            f'<div class="scroll" role="region" tabindex="0" aria-label="Exhibits of {paper.key}">'
            f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        )
    return shown(place, "Exhibits", "".join(parts))


def _exhibit_row(place: Place, item: Availability) -> str:
    name = escape(item.id)
    link = f'<a href="{escape(place.link(f"/exhibits/{item.id}"))}">{name}</a>'
    values = published(item.id)
    printed = "; ".join(f"{quantity_label(v.quantity, v.unit)} {as_printed(v)}" for v in values[:_MOST_PRINTED])
    more = f" and {len(values) - _MOST_PRINTED} more" if len(values) > _MOST_PRINTED else ""
    state = (
        '<span class="state ready">ready</span>'
        if item.ready
        else f'<span class="state">{escape("; ".join(item.missing))}</span>'
    )
    return (
        f'<tr><th scope="row">{link}</th><td>{escape(item.title)}</td><td>{state}</td>'
        f'<td class="quiet printed">{escape(printed + more)}</td></tr>'
    )


@router.get("/exhibits/{exhibit_id}")
def exhibit(view: PublicView, request: Request, exhibit_id: str) -> Markup:
    place = place_of(view, "/exhibits")
    try:
        entry = exhibit_entry(exhibit_id)
    except IoweatherError as error:
        return shown(place, "No such exhibit", problem(error.message, error.hint), status_of(error))
    query = {name: value for name, value in request.query_params.items() if value}
    link = f"/fragments/exhibits/{exhibit_id}?{urlencode({**query, 'heading': '1'})}"
    try:
        form = _param_form(place, exhibit_id, parameters_of(exhibit_id), query)
    except IoweatherError:
        form = ""
    paper = PAPERS[entry.paper]
    body = (
        f"{lazy(link, f'{entry.title}: computing…')}{form}"
        f'<p>{escape(entry.what)}</p><p class="quiet">{escape(paper.citation)}</p>'
    )
    return shown(place, entry.title, body)


def _param_form(place: Place, exhibit_id: str, params: tuple[Param, ...], query: dict[str, str]) -> str:
    fields = [("from", "Only from this time on", ""), ("to", "Only before this time", "")]
    fields += [
        (
            p.name,
            p.help,
            "chosen from the data" if p.choose is not None and p.default is None else format_value(p.default),
        )
        for p in params
    ]
    rows = "".join(
        f'<p><label for="p-{escape(n)}">{escape(n.replace("_", " "))}</label> <input id="p-{escape(n)}" '
        f'name="{escape(n)}" value="{escape(query.get(n, ""))}" placeholder="{escape(default)}" '
        f'aria-describedby="h-{escape(n)}"> <span class="quiet" id="h-{escape(n)}">{escape(text)}</span></p>'
        for n, text, default in fields
    )
    action = escape(f"/exhibits/{exhibit_id}")
    return (
        f'<details class="params"><summary>Period and parameters</summary><form method="get" action="{action}">'
        f"{place.field}{rows}<button>Show</button></form></details>"
    )


@router.get("/sql")
def sql(view: OperatorView, q: str = "") -> Markup:
    place = place_of(view, "/sql")
    examples = "".join(
        f'<li><a href="{escape(place.link("/sql", q=text))}">{escape(name)}</a></li>' for name, text in _EXAMPLES
    )
    body = f"""<h1>Ask the lake</h1>
<p>One SELECT or EXPLAIN in DuckDB's SQL, read-only; at most 2,000 rows, 10 seconds, 512 MiB.</p>
<form data-sql="{escape(place.link("/fragments/sql"))}">
<label for="query">Query</label>
<textarea id="query" name="q" rows="5" spellcheck="false">{escape(q or _EXAMPLES[0][1])}</textarea>
<p><button>Run</button> <span class="quiet">or Ctrl+Enter</span></p></form>
<p>Examples:</p><ul>{examples}</ul>
<div id="result" aria-live="polite"></div>
<noscript><p>This page needs a script; on the command line: <code>ioweather sql</code></p></noscript>"""
    return shown(place, "SQL", body)
