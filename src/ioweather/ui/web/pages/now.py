"""*Now*: how slow storage is, what happened lately, what is expected."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter
from markupsafe import Markup

from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.outcomes import ForecastOutcome
from ioweather.core.results import Answer
from ioweather.ui.web.facilities import MAIN
from ioweather.ui.web.parts import answer_part, kept
from ioweather.ui.web.shell import Html, Place, page, problem
from ioweather.ui.web.visible import PublicView, View

router = APIRouter(include_in_schema=False, default_response_class=Html)


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
def forecast(view: PublicView) -> Html:
    def make() -> str:
        try:
            answer = view.ask("forecast", {})
        except DataUnavailable as error:
            return Markup('<p class="quiet">No forecast yet. {}</p>').format(error.message)
        with view.facilities.drawing():
            whole = answer_part(answer, view.drawn(), second=True)
        if _has_skill(answer):
            return whole
        # Nobody opens this page for a forecast that is no better than "as now": a line, and the rest for who wants it.
        folded = Markup('<details><summary class="quiet">{}</summary>{}</details>')
        return folded.format(answer.headline, Markup(whole))

    return kept(view, "forecast", make)


def _has_skill(answer: Answer) -> bool:
    result = answer.result
    return isinstance(result, ForecastOutcome) and any((h.skill.low or 0.0) > 0 for h in result.horizons)
