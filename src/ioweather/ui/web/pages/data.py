"""The pages *Search*, *API* and *SQL*."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.outcomes import RunOutcome, RunsOutcome, StorageOutcome
from ioweather.core.papers import exhibits
from ioweather.core.tabular import as_text
from ioweather.ui.web.queries import SqlQuestion, run_sql
from ioweather.ui.web.requests import period_for
from ioweather.ui.web.shell import Html, Listed, Place, failed, page, runs_table, tables_part
from ioweather.ui.web.visible import OperatorView, OwnView, PublicView, View

router = APIRouter(include_in_schema=False, default_response_class=Html)
_MOST_LOOKED_AT = 2000
_MOST = 25
_LAST_NS = 24 * 3600 * 10**9
_KINDS = (("user", "users"), ("project", "projects"), ("program", "programs"))
Hit = tuple[str, str, str]  # what it is, its name, its address


@router.get("/search", response_model=None)
def search(view: OwnView, q: Annotated[str, Query(max_length=200)] = "") -> Response:
    words = q.strip()
    place = Place(view, "/search")
    error, hits, runs = None, list[Hit](), list[RunOutcome]()
    if words:
        try:
            runs = _runs(view, words)
            hits = list(_hits(view, place, words, runs))
        except DataUnavailable as missing:
            error = missing
    exact = [hit for hit in hits if hit[1].lower() == words.lower()]
    if len(exact) == 1 or len(hits) == 1:
        return RedirectResponse((exact or hits)[0][2], 303)
    tables = []
    if hits:
        columns = (("name", "text"), ("what it is", "text"))
        addresses = {(name, kind): address for kind, name, address in hits}
        rows = [(name, kind) for kind, name, _ in hits[:_MOST]]
        tables.append(Listed("Pages", columns, rows, {"name": lambda row: addresses[row[0], row[1]]}))
    if runs:
        tables.append(runs_table(place, runs[:_MOST], f"{min(len(runs), _MOST)} of {len(runs)} runs that match"))
    return page("search.html", view, "/search", "Search", sought=q, tables=tables, error=error)


def _runs(view: View, words: str) -> list[RunOutcome]:
    try:
        result = view.ask("runs", {"words": words, "most": _MOST_LOOKED_AT}).result
    except DataUnavailable:
        return []
    return list(result.runs) if isinstance(result, RunsOutcome) else []


def _hits(view: View, place: Place, words: str, runs: Sequence[RunOutcome]) -> Iterator[Hit]:
    lowered = words.lower()
    if any(str(run.job_id) == words for run in runs):
        yield "job", words, place.to("jobs", words)
    for field, folder in _KINDS:
        for name in sorted({str(getattr(run, field)) for run in runs if getattr(run, field)}):
            if lowered in name.lower():
                yield field, name, place.to(folder, name)
    for kind, name in _places(view):
        if lowered in name.lower():
            yield kind, name, place.to("filesystems" if kind == "file system" else "components", name)
    for entry in exhibits():
        if lowered in entry.id.lower() or lowered in entry.title.lower():
            yield f"exhibit: {entry.title}", entry.id, place.link(f"/exhibits/{entry.id}")


def _places(view: View) -> Sequence[tuple[str, str]]:
    """File systems and their components, as of the last day of the data."""

    def look() -> Sequence[tuple[str, str]]:
        found = []
        period = period_for(view, _LAST_NS)
        try:
            whole = view.ask("storage", {}, period).result
            assert isinstance(whole, StorageOutcome)
            for state in whole.filesystems:
                found.append(("file system", state.filesystem))
                one = view.ask("storage", {"where": state.filesystem}, period).result
                assert isinstance(one, StorageOutcome)
                found += [(c.kind, c.component) for c in one.components]
                found += [("server", c.server) for c in one.components if c.server]
        except DataUnavailable:
            pass
        return list(dict.fromkeys(found))

    try:
        return view.facilities.answered(view.name, "places", look, ("series", "components"), queued=False)
    except IoweatherError:
        return []


@router.get("/api")
def api_page(view: PublicView, request: Request) -> Html:
    """The API for people."""
    found = [
        (f"{method.upper()} {path}", " ".join(str(what.get("description") or "").replace("`", "").split()))
        for path, methods in request.app.openapi()["paths"].items()
        for method, what in methods.items()
    ]
    routes = Listed("Addresses", (("address", "text"), ("what it gives", "text")), found)
    return page("api.html", view, "/api", "API", routes=routes, ranged=False)


_EXAMPLES = (
    ("Tables and columns", "SELECT table_name, column_name, data_type FROM information_schema.columns"),
    (
        "Bytes per day",
        "SELECT day, metric, sum(value) AS bytes FROM series "
        "WHERE metric IN ('read_bytes', 'write_bytes') AND component_kind = 'ost' GROUP BY ALL ORDER BY day, metric",
    ),
    ("Slowest operations", "SELECT start_ns, host, op, duration_ns FROM responses ORDER BY duration_ns DESC LIMIT 20"),
)


@router.get("/data")
def data_page(view: PublicView, q: str = "") -> Html:
    return page("data.html", view, "/data", "Data", q=q, examples=_EXAMPLES, ranged=False)


@router.get("/sql")
def sql_page(view: OperatorView, q: str = "") -> Html:
    return page("data.html", view, "/sql", "SQL", q=q, examples=_EXAMPLES, ranged=False)


@router.post("/fragments/sql")
def sql(view: OperatorView, question: SqlQuestion) -> Html:
    """As a table made here: a browser would round nanoseconds."""
    try:
        result = run_sql(view, question)
    except IoweatherError as error:
        return failed(error)
    rows = [tuple(map(as_text, row)) for row in result.rows]
    notes = [f"Only the first {len(rows):,} rows."] if result.truncated else []
    columns = [(name, "") for name in result.columns]
    return Html(tables_part(Listed(f"{len(rows):,} rows", columns, rows, empty="No rows."), notes=notes))
