"""The pages *Overview* (is storage slow, for each file system; what loads it; what went wrong) and *Now*."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from fastapi import APIRouter
from markupsafe import Markup

from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.outcomes import ForecastOutcome, HealthOutcome, RunsOutcome, StorageOutcome, TriageOutcome
from ioweather.core.results import Answer, Item, Items
from ioweather.core.units import format_seconds, format_time_ns
from ioweather.ui.charts import Drawn
from ioweather.ui.web.facilities import MAIN
from ioweather.ui.web.requests import RANGE_NS, period_for
from ioweather.ui.web.shell import (
    Html,
    Listed,
    Place,
    answer_part,
    cached_part,
    figure,
    headed,
    items_part,
    page,
    part,
    problem,
    tables_part,
)
from ioweather.ui.web.visible import OwnView, PublicView, View

router = APIRouter(include_in_schema=False, default_response_class=Html)
_MOST_RUNS = 8
_MOST_JUDGED = 60
_MOST_PROBLEMS = 4
_MOST_CARDS = 6
_CHART_PX = 130
_BESIDE_PX = 250  # the numbers beside a chart, and the borders of its panel


@router.get("/")
def overview_page(view: PublicView) -> Html:
    live = "/api/v1/now/stream" if view.name == MAIN else ""
    return page("overview.html", view, "/", "Overview", live=live, default_ns=RANGE_NS)


@router.get("/fragments/summary")
@cached_part("Overview")
def summary(view: OwnView) -> str:
    """The state now, and what problems cost in the period."""
    period = period_for(view, RANGE_NS)
    storage = view.ask("storage", {}, period).result
    health = view.ask("health", {}, period).result
    assert isinstance(storage, StorageOutcome)
    assert isinstance(health, HealthOutcome)
    slow = [state.filesystem for state in storage.filesystems if state.slow]
    known = any(state.slowdown is not None for state in storage.filesystems)
    verb = "are" if len(slow) > 1 else "is"
    state = f"{', '.join(slow)} {verb} slow now." if slow else "Storage is normal now." if known else ""
    names = {each.component for each in health.unhealthy}
    lost, runs = (sum(getattr(each, name) or 0 for each in health.unhealthy) for name in ("lost_seconds", "runs"))
    cost = f"; {runs:,} runs lost {format_seconds(lost)} of I/O time" if lost else ""
    were = "component was" if len(names) == 1 else "components were"
    problems = (
        f"{len(names)} {were} unhealthy in this period{cost}."
        if names
        else "No component was unhealthy in this period."
    )
    count = len(storage.filesystems)
    files = f"{count} file system{'s' if count != 1 else ''}"
    return part(
        "summary.html",
        headline=f"{state} {problems}".strip(),
        context=f"As of {format_time_ns(storage.end_ns)} · {files}",
    )


@router.get("/fragments/weather")
def weather(view: PublicView) -> Html:
    """What agents measure at this moment, in one line; the page *Now* has all of it."""
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
    """A card per file system: its state in words, and load and slowdown over time."""
    period = period_for(view, RANGE_NS)
    whole = view.ask("storage", {}, period)
    assert isinstance(whole.result, StorageOutcome)
    states = whole.result.filesystems
    cards = []
    for number, state in enumerate(states):
        drawn = view.drawn(_CHART_PX, 1.0 if len(states) == 1 else 0.5, _BESIDE_PX)
        answer = whole if len(states) == 1 else view.ask("storage", {"where": state.filesystem}, period)
        with view.facilities.drawing():
            cards.append((state, _lines(answer, drawn, f"fs{number}") if number < _MOST_CARDS else []))
    return part("filesystems.html", states=cards, place=Place(view, "/"))


def _lines(answer: Answer, drawn: Drawn, name: str) -> list[Markup]:
    """Load and slowdown over time."""
    charts = [replace(c, title=c.title or e.title) for e in answer.exhibits for c in e.charts if c.kind == "timeline"]
    return [figure(chart, f"{name}-{number}", drawn) for number, chart in enumerate(charts[:2])]


@router.get("/fragments/slowest")
@cached_part()
def slowest(view: OwnView) -> str:
    """Runs by the seconds that they took beyond what is usual, not by the ratio."""
    period = period_for(view, RANGE_NS)
    result = view.ask("runs", {"order": "slowest", "most": _MOST_JUDGED}, period).result
    assert isinstance(result, RunsOutcome)
    place = Place(view, "/")
    found = [(run, (run.io_seconds or 0.0) * (1 - 1 / (run.slowness or 1.0))) for run in result.runs]
    found = sorted((each for each in found if each[1] > 0), key=lambda each: -each[1])[:_MOST_RUNS]
    columns = headed(
        "job; program; user; started [time_ns]; I/O time [seconds]; × usual [factor]; extra [seconds]; verdict"
    )
    rows = [
        (str(r.job_id), r.program, r.user, r.start_ns, r.io_seconds, r.slowness, extra, r.verdict_words)
        for r, extra in found
    ]
    links = {"job": lambda row: place.to("jobs", row[0]), "user": lambda row: place.to("users", row[2])}
    title = f"The slowest of {result.count:,} jobs against similar runs"
    return tables_part(Listed(title, columns, rows, links, "No job took longer than usual in this period.", "brief"))


@router.get("/fragments/problems")
@cached_part()
def problems(view: OwnView) -> str:
    """What was wrong: now first, then lately."""
    answer = view.ask("health", {}, period_for(view, RANGE_NS))
    lists = [replace(block, items=block.items[:_MOST_PROBLEMS]) for block in answer.blocks if isinstance(block, Items)]
    if not lists:
        return Markup('<p class="quiet">Nothing was wrong in this period.</p>')
    return Markup("").join(items_part(Place(view, ""), block) for block in lists)


@router.get("/fragments/fixes")
@cached_part()
def fixes(view: OwnView) -> str:
    """Programs where a change saves most."""
    result = view.ask("triage", {}).result
    assert isinstance(result, TriageOutcome)
    items = tuple(
        Item(
            p.program,
            f"saves {format_seconds(p.seconds)} in {p.runs:,} runs",
            note=p.headline,
            page=f"programs/{p.program}",
        )
        for p in result.programs[:_MOST_PROBLEMS]
    )
    return items_part(Place(view, ""), Items("", items)) if items else Markup('<p class="quiet">Nothing to change.</p>')


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
