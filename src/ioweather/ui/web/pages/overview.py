"""The pages *Overview* (is storage slow, for each file system; what loads it; what went wrong) and *Now*."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter
from markupsafe import Markup

from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.outcomes import ForecastOutcome, RunsOutcome, StorageOutcome
from ioweather.core.results import Answer
from ioweather.ui.charts import exhibit_section
from ioweather.ui.web.facilities import MAIN
from ioweather.ui.web.requests import RANGE_NS, period_for
from ioweather.ui.web.shell import Html, Place, answer_part, cached_part, page, part, problem, runs_table, tables_part
from ioweather.ui.web.visible import OwnView, PublicView, View

router = APIRouter(include_in_schema=False, default_response_class=Html)
_MOST_RUNS = 8
_CHART_PX = 150


@router.get("/")
def overview_page(view: PublicView) -> Html:
    live = "/api/v1/now/stream" if view.name == MAIN else ""
    return page("overview.html", view, "/", "Overview", live=live, default_ns=RANGE_NS)


@router.get("/fragments/weather")
def weather(view: PublicView) -> Html:
    """What agents see at this moment, in one line; the page *Now* has all of it."""
    place = Place(view, "/")
    try:
        answer, wrong = view.now()
        text, state = answer.headline, "wrong" if wrong else "fine"
    except IoweatherError as error:
        text, state = f"{error.message} {error.hint}", "unknown"
    return Html(part("weather.html", text=text, state=state, place=place))


@router.get("/fragments/filesystems")
@cached_part()
def filesystems(view: PublicView) -> str:
    result = view.ask("storage", {}, period_for(view, RANGE_NS)).result
    assert isinstance(result, StorageOutcome)
    return part("filesystems.html", states=result.filesystems, end_ns=result.end_ns, place=Place(view, "/"))


@router.get("/fragments/load")
@cached_part()
def load(view: PublicView) -> str:
    answer = view.ask("storage", {}, period_for(view, RANGE_NS))
    with view.facilities.drawing():
        return "".join(exhibit_section(e, 2, view.drawn(_CHART_PX)) for e in answer.exhibits if e.charts)


@router.get("/fragments/slowest")
@cached_part()
def slowest(view: OwnView) -> str:
    period = period_for(view, RANGE_NS)
    result = view.ask("runs", {"order": "slowest", "most": _MOST_RUNS}, period).result
    assert isinstance(result, RunsOutcome)
    title = f"Slowest of {result.count:,} jobs against similar runs"
    return tables_part(runs_table(Place(view, "/"), result.runs, title, brief=True))


@router.get("/now")
def now_page(view: PublicView) -> Html:
    live = "/api/v1/now/stream" if view.name == MAIN else ""
    return page("now.html", view, "/now", "Now", live=live, ranged=False)


@router.get("/fragments/now")
def now(view: PublicView) -> Html:
    try:
        return Html(view.facilities.now_as(view.name, f"html {view.screen}", partial(_now_part, view)))
    except IoweatherError as error:
        elsewhere = Markup('<p>What servers reported is on the <a href="{}">overview</a>.</p>')
        return Html(problem(error, "How slow storage is now") + elsewhere.format(Place(view, "").link("/")))


def _now_part(view: View, answer: Answer, wrong: bool) -> bytes:
    return f'<div class="{"wrong" if wrong else "fine"}">{answer_part(answer, view.drawn())}</div>'.encode()


@router.get("/fragments/forecast")
@cached_part()
def forecast(view: PublicView) -> str:
    try:
        answer = view.ask("forecast", {})
    except DataUnavailable as error:
        return Markup('<p class="quiet">No forecast yet. {}</p>').format(error.message)
    with view.facilities.drawing():
        whole = answer_part(answer, view.drawn(), second=True)
    if _has_skill(answer):
        return whole
    # A forecast without skill is folded below its headline.
    folded = Markup('<details><summary class="quiet">{}</summary>{}</details>')
    return folded.format(answer.headline, Markup(whole))


def _has_skill(answer: Answer) -> bool:
    result = answer.result
    return isinstance(result, ForecastOutcome) and any((h.skill.low or 0.0) > 0 for h in result.horizons)
