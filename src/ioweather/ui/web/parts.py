"""Parts of pages that take time: each says in its place what is missing, and is kept while the lake stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace

from markupsafe import Markup

from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.results import Answer
from ioweather.ui.charts import Drawn, answer_section, provenance_html
from ioweather.ui.web.facilities import Tell
from ioweather.ui.web.shell import Html, part, problem
from ioweather.ui.web.statuses import status_of
from ioweather.ui.web.visible import View


def failed(error: IoweatherError, heading: str = "") -> Html:
    """What is missing is said in the place where it is missing, and is no failure of the page."""
    return Html(problem(error, heading), 200 if isinstance(error, DataUnavailable) else status_of(error))


def kept(view: View, key: Hashable, make: Callable[[], str], heading: str = "") -> Html:
    """A part that is made once for each state of the lake."""
    try:
        return Html(
            view.facilities.answered(view.name, (view.key, view.between, view.screen, key), lambda: make().encode())
        )
    except IoweatherError as error:
        return failed(error, heading)


def seldom(view: View, key: Hashable, make: Callable[[Tell], str]) -> Html:
    """A part that takes long: once an hour, whatever comes in. Until it is there the page says how far it is, and asks
    again."""
    full = (view.key, view.between, key)
    try:
        data, told = view.facilities.seldom(view.name, full, lambda tell: make(tell).encode())
    except IoweatherError as error:
        return failed(error)
    return Html(data or part("making.html", told=told))


def answer_part(
    answer: Answer, drawn: Drawn, *, second: bool = False, headed: bool = True, folded: bool = True
) -> Markup:
    """An answer on a page; the `second` on a page has no heading of the first level. What is behind it is `folded`
    below it, or left to the page."""
    said = replace(answer, caveats=(), coverage=())
    text = Markup(answer_section(said, 2 if second else 1, drawn, headed=headed))
    return text + behind(answer) if folded else text


def behind(answer: Answer) -> Markup:
    """Coverage, caveats and origin, which few readers open."""
    closing = answer_section(replace(answer, facts=(), exhibits=(), findings=()), 2, headed=False)
    inner = Markup(closing + provenance_html(answer.provenance))
    summary = Markup("<details><summary>Coverage, caveats and where this comes from</summary>{}</details>")
    return summary.format(inner) if inner else inner
