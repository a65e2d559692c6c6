"""*Overview*: is storage slow now, for each file system; what loads it, who is on it, what went wrong: one screen."""

from __future__ import annotations

from fastapi import APIRouter

from ioweather.core.errors import IoweatherError
from ioweather.core.outcomes import RunsOutcome, StorageOutcome
from ioweather.ui.charts import exhibit_section
from ioweather.ui.web.facilities import MAIN
from ioweather.ui.web.links import runs_table
from ioweather.ui.web.parts import kept
from ioweather.ui.web.ranges import RANGE_NS, period_for
from ioweather.ui.web.shell import Html, Place, page, part, tables_part
from ioweather.ui.web.visible import OwnView, PublicView

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
def filesystems(view: PublicView) -> Html:
    def make() -> str:
        result = view.ask("storage", {}, period_for(view, RANGE_NS)).result
        assert isinstance(result, StorageOutcome)
        return part("filesystems.html", states=result.filesystems, end_ns=result.end_ns, place=Place(view, "/"))

    return kept(view, "filesystems", make)


@router.get("/fragments/load")
def load(view: PublicView) -> Html:
    def make() -> str:
        answer = view.ask("storage", {}, period_for(view, RANGE_NS))
        with view.facilities.drawing():
            return "".join(exhibit_section(e, 2, view.drawn(_CHART_PX)) for e in answer.exhibits if e.charts)

    return kept(view, "load", make)


@router.get("/fragments/slowest")
def slowest(view: OwnView) -> Html:
    def make() -> str:
        period = period_for(view, RANGE_NS)
        result = view.ask("runs", {"order": "slowest", "most": _MOST_RUNS}, period).result
        assert isinstance(result, RunsOutcome)
        title = f"Slowest of {result.count:,} jobs against similar runs"
        return tables_part(runs_table(Place(view, "/"), result.runs, title, brief=True))

    return kept(view, "slowest", make)
