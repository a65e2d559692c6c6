"""*Overview*: is storage slow now, for each file system; what loads it, who is on it, what went wrong: one screen."""

from __future__ import annotations

from collections import defaultdict

from fastapi import APIRouter

from ioweather.core.errors import IoweatherError
from ioweather.core.outcomes import RunsOutcome, StorageOutcome
from ioweather.core.units import DAY_NS, HOUR_NS
from ioweather.figures import exhibit_section
from ioweather.web.facilities import MAIN
from ioweather.web.links import runs_table
from ioweather.web.parts import kept
from ioweather.web.ranges import data_end_ns, period_for
from ioweather.web.shell import Html, Listed, Place, page, part, tables_part
from ioweather.web.visible import OwnView, PublicView, View
from ioweather.workflows.analyse import Period

router = APIRouter(include_in_schema=False, default_response_class=Html)
RANGE_NS = DAY_NS
_MOST_RUNS = 8
_MOST_USERS = 5
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
        return part("filesystems.html", states=result.filesystems, place=Place(view, "/"))

    return kept(view, "filesystems", make)


@router.get("/fragments/load")
def load(view: PublicView) -> Html:
    def make() -> str:
        answer = view.ask("storage", {}, period_for(view, RANGE_NS))
        with view.facilities.drawing():
            return "".join(exhibit_section(e, 2, live=True, height=_CHART_PX) for e in answer.exhibits if e.charts)

    return kept(view, "load", make)


@router.get("/fragments/slowest")
def slowest(view: OwnView) -> Html:
    def make() -> str:
        period = period_for(view, RANGE_NS)
        result = view.ask("runs", {"order": "slowest", "most": _MOST_RUNS}, period).result
        assert isinstance(result, RunsOutcome)
        title = f"Slowest of {result.count:,} runs against similar ones"
        return tables_part(runs_table(Place(view, "/"), result.runs, title, brief=True))

    return kept(view, "slowest", make)


@router.get("/fragments/busiest")
def busiest(view: OwnView) -> Html:
    """Who moved most in the last hour of the period."""

    def make() -> str:
        result = view.ask("runs", {"order": "largest", "most": 1000}, _last_hour(view)).result
        assert isinstance(result, RunsOutcome)
        moved: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0])
        for run in result.runs:
            sums = moved[run.user]
            sums[0], sums[1], sums[2] = sums[0] + 1, sums[1] + run.read_bytes, sums[2] + run.write_bytes
        rows = [(user, *sums) for user, sums in sorted(moved.items(), key=lambda item: -sum(item[1][1:]))]
        columns = (("user", "text"), ("runs", "count"), ("read", "bytes"), ("written", "bytes"))
        links = {"user": lambda row: Place(view, "/").to("users", row[0])}
        empty = "No run with a Darshan log in the last hour of this period."
        title = "Who ran in the last hour of this period"
        return tables_part(Listed(title, columns, rows[:_MOST_USERS], links, empty, "brief"))

    return kept(view, "busiest", make)


def _last_hour(view: View) -> Period:
    low, high = period_for(view, RANGE_NS)
    high = min(high, data_end_ns(view) or high)
    return max(low, high - HOUR_NS), high
