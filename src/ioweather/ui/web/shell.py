"""What every page is made with: the templates, the frame around a page, tables, parts that say what is missing.

Templates escape what they are given; only markup that was made by `charts` or by another template passes as it is.
No inline script and no inline style.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from fastapi.responses import HTMLResponse
from markupsafe import Markup

from ioweather._version import __version__
from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.results import Answer, Chart, Items, ResultColumn, ResultTable
from ioweather.core.tables import TABLES
from ioweather.core.units import HOUR_NS, MINUTE_NS, format_seconds, format_time_ns, marked, now_ns, shown_zone
from ioweather.diagnosis.events import EventOutcome
from ioweather.diagnosis.file_systems import ComponentState
from ioweather.diagnosis.list_jobs import RunOutcome
from ioweather.job_io.outcomes import JobOutcome
from ioweather.ui.charts.page import (
    Drawn,
    RowAddress,
    answer_section,
    figure_html,
    items_html,
    provenance_html,
    table_html,
    templates,
)
from ioweather.ui.web.visible import View, address_time, presets, status_of

_TEMPLATES: Final = templates(Path(__file__).with_name("templates"))
CHART_PX: Final = 190  # the height of time lines that are side by side
MAIN_SHARE: Final = 0.66  # the main column's share of a page
PANEL_PX: Final = 40  # borders of a panel
NAVIGATION: Final = (
    ("/", "Overview"),
    ("/jobs", "Jobs"),
    ("/storage", "Storage"),
    ("/climate", "Climate"),
    ("/data", "Data"),
)
# Pages below each of the five.
_SECTIONS: Final = {
    "Overview": ("", "now"),
    "Jobs": ("jobs", "users", "programs", "projects"),
    "Storage": ("storage", "filesystems", "components", "events", "who"),
    "Climate": ("climate", "exhibits", "claims"),
    "Data": ("data", "sql"),
}


# Pages of what a column of this heading names.
_PAGES_OF: Final = {
    "job": "jobs",
    "user": "users",
    "project": "projects",
    "program": "programs",
    "file system": "filesystems",
    "target": "components",
    "server": "components",
}


class Html(HTMLResponse):
    """A page without marks of text direction, which names from outside may contain."""

    def render(self, content: str | bytes) -> bytes:
        text = content.decode() if isinstance(content, bytes) else content
        return marked(text).encode()


@dataclass(frozen=True)
class Place:
    """The page that is shown, and its view. Links stay in the time range."""

    view: View
    path: str = ""
    default_ns: int | None = None

    @property
    def range(self) -> Mapping[str, str]:
        return {name: text for name, text in zip(("from", "to"), self.view.between, strict=True) if text}

    @property
    def section(self) -> str:
        """Which of the five pages this one belongs to."""
        first = self.path.strip("/").partition("/")[0]
        return next((name for name, paths in _SECTIONS.items() if first in paths), "")

    @property
    def zone(self) -> str:
        return str(shown_zone())

    @property
    def range_words(self) -> str:
        """The chosen time range in words."""
        chosen = next((name for name, _, is_chosen in self.presets if is_chosen), "")
        low, high = self.view.between
        return chosen or f"{low or 'start'} to {high or 'now'}"

    @property
    def presets(self) -> list[tuple[str, str, bool]]:
        """Name and address of each time range to choose, and whether it is shown."""
        return [
            (name, self.link(self.path, **{"from": start, "to": ""}), chosen)
            for name, start, chosen in presets(self.view, self.default_ns)
        ]

    def link(self, path: str, /, **query: str) -> str:
        """The address of a page in this time range, with the parameters of `query` that are not empty."""
        text = urlencode({name: value for name, value in {**self.range, **query}.items() if value})
        return f"{path}{'&' if '?' in path else '?'}{text}" if text else path

    def to(self, kind: str, name: object, **query: str) -> str:
        """The page of a job, a user, a project, a program, a file system, a component, an event."""
        return self.link(f"/{kind}/{quote(str(name), safe='')}", **query) if name not in (None, "") else ""

    def links(self, table: ResultTable) -> dict[str, RowAddress]:
        """The addresses of cells that name something with a page, by heading."""
        headings = [column.heading for column in table.columns]

        def address(number: int, row: Sequence[Any]) -> str:
            return self.to(_PAGES_OF[headings[number]], row[number])

        return {name: partial(address, number) for number, name in enumerate(headings) if name in _PAGES_OF}


def part(template: str, **values: Any) -> Markup:
    """A template as a part of a page."""
    return Markup(_TEMPLATES.get_template(template).render(values))


def page(
    template: str, view: View, path: str, title: str, *, status: int = 200, default_ns: int | None = None, **values: Any
) -> Html:
    """`default_ns`: how much of the newest data is shown where the address has no range; None is all."""
    place = Place(view, path, default_ns)
    return Html(part(template, place=place, title=title, navigation=NAVIGATION, version=__version__, **values), status)


def parts_page(
    view: View,
    path: str,
    title: str,
    *parts: tuple[str, str, str] | tuple[str, str, str, int],
    heading: str | None = None,
    **values: Any,
) -> Html:
    """A page of parts that the browser fetches: the address of each, the text until then, its label, and the seconds
    after which it is fetched again. Without a heading a part brings its own."""
    heading = title if heading is None else heading
    return page("entity.html", view, path, title, heading=heading, parts=parts, **{"crumbs": [], **values})


def lazy_part(address: str, waiting: str) -> Markup:
    """A part that the browser fetches when it scrolls into view."""
    return Markup(_TEMPLATES.get_template("parts.html").module.lazy(address, waiting))  # type: ignore[attr-defined]


def problem(error: IoweatherError, heading: str = "") -> Markup:
    """An error as a part of a page, with its hint."""
    return part("problem.html", error=error, heading=heading)


def failed(error: IoweatherError, heading: str = "") -> Html:
    """The error in the place of the part; missing data are not a failure of the page."""
    return Html(problem(error, heading), 200 if isinstance(error, DataUnavailable) else status_of(error))


def cached_part(heading: str = "", *, hourly: bool = False) -> Callable[[Callable[..., str]], Callable[..., Html]]:
    """Turn a function `(view, **parameters) -> str` into a route whose result is cached until the lake changes. What
    takes long is `hourly`: computed at most once an hour.

    An error is shown in the place of the part, below `heading`, which may name parameters: "Job {job_id}".
    """

    def decorate(make: Callable[..., str]) -> Callable[..., Html]:
        @wraps(make)
        def respond(view: View, **parameters: Any) -> Html:
            shown = (view.key, view.between, view.screen, view.width)
            hour = now_ns() // HOUR_NS if hourly else None
            key = (*shown, make.__module__, make.__name__, repr(parameters), hour)
            tables = () if hourly else TABLES
            try:
                return Html(view.served.answered(key, lambda: make(view, **parameters).encode(), tables))
            except IoweatherError as error:
                return failed(error, heading.format(**parameters))

        # FastAPI reads the types of a route; as strings it would look for them in this module.
        respond.__signature__ = inspect.signature(make, eval_str=True)  # type: ignore[attr-defined]
        return respond

    return decorate


@dataclass(frozen=True)
class Listed:
    """A table of a page. With a `place` names of jobs, users, targets and the like lead to their pages; `links` maps
    further headings to the address that a row has; `tools` of the script: "all" (sort, filter, CSV) or "brief" (sort).
    """

    table: ResultTable
    place: Place | None = None
    empty: str = "None."
    tools: str = "brief"
    links: Mapping[str, RowAddress] = field(default_factory=dict)

    @classmethod
    def of(cls, title: str, columns: str, rows: Iterable[Sequence[Any]], *more: Any, **options: Any) -> Listed:
        """A table whose columns are written as `heading [unit]; ...`; without a unit they are text."""
        found = (each.strip().rstrip("]").partition(" [") for each in columns.split(";"))
        headed = tuple(ResultColumn(name, name, unit or "text") for name, _, unit in found)
        return cls(ResultTable("listed", headed, tuple(map(tuple, rows)), title), *more, **options)

    @property
    def html(self) -> Markup:
        if not self.table.rows:
            return Markup('<p class="quiet">{}</p>').format(self.empty)
        named = {} if self.place is None else self.place.links(self.table)
        return table_html(self.table, {**named, **self.links}, self.tools)


def tables_part(*tables: Listed, notes: Sequence[str] = ()) -> Markup:
    return part("tables.html", tables=tables, notes=notes)


def answer_part(
    answer: Answer, drawn: Drawn, *, second: bool = False, headed: bool = True, folded: bool = True
) -> Markup:
    """An answer on a page; the `second` on a page has no heading of the first level. What is behind it is `folded`
    below it, or left to the page."""
    said = replace(answer, caveats=(), coverage=())
    text = answer_section(said, 2 if second else 1, drawn, headed=headed)
    return text + closing_part(answer) if folded else text


def answers_part(answers: Sequence[Answer], view: View) -> Markup:
    """Answers one below the other, below something else."""
    section = Markup('<section class="later">{}</section>')
    return Markup("").join(section.format(answer_part(a, view.drawn(), second=True)) for a in answers)


def closing_part(answer: Answer) -> Markup:
    """Coverage, caveats and origin of an answer, folded."""
    closing = answer_section(replace(answer, facts=(), exhibits=(), findings=(), blocks=()), 2, headed=False)
    covered = answer.coverage[0].sentence if answer.coverage else ""
    return fold("Coverage, caveats and sources", closing + provenance_html(answer.provenance), covered)


def fold(summary: str, inner: str, result: str = "") -> Markup:
    """Something that opens on a click, with its `result` on the line that shows; nothing where there is nothing."""
    words = Markup('{} <span class="quiet">{}</span>').format(summary, result) if result else summary
    return Markup("<details><summary>{}</summary>{}</details>").format(words, inner) if inner else Markup("")


def figure(chart: Chart, name: str, drawn: Drawn, level: int = 3) -> Markup:
    """One chart in a panel, whose title the panel or the chart itself has."""
    return figure_html(chart, name, level, drawn, with_rows=False)


def time_lines(answer: Answer) -> list[Chart]:
    """The charts of an answer that are over time, each with a title."""
    return [replace(c, title=c.title or e.title) for e in answer.exhibits for c in e.charts if c.kind == "timeline"]


def stacked(charts: Sequence[Chart]) -> list[Chart]:
    """Time lines below each other: the first names the shaded times, the others only shade them."""
    bare = [replace(c, references=tuple(replace(r, label="") if r.end else r for r in c.references)) for c in charts]
    return [*charts[:1], *bare[1:]]


def items_part(place: Place, found: Items) -> Markup:
    """A list of a screen, each item with a link to its page."""
    return items_html(found, 2, lambda item: place.link(f"/{item.page}") if item.page else "")


def runs_table(place: Place, runs: Sequence[RunOutcome], title: str) -> Listed:
    """Runs with links to their job, user, project and program."""
    columns = (
        "job; user; project; program; processes [count]; start [time_ns]; read [bytes]; written [bytes]; "
        "I/O time [seconds]; × similar [factor]; beyond similar [seconds]; verdict; ran [seconds]; log; cluster"
    )
    rows = [
        (
            *(str(r.job_id), r.user, r.project, r.program, r.processes, r.start_ns, r.read_bytes, r.write_bytes),
            *(r.io_seconds, r.slowness, r.extra_seconds, r.verdict_words),
            *((r.run_seconds, r.log_words) if r.known_by else (None, "")),
            r.cluster,
        )
        for r in runs
    ]
    links = {"job": lambda row: place.to("jobs", row[0], cluster=row[-1] or "")}
    empty = "No job matches. Choose a longer period, or ingest accounting and logs: ioweather ingest FILES"
    return Listed.of(title, columns, rows, place, empty, "all", links)


def events_table(place: Place, events: Iterable[EventOutcome], title: str) -> Listed:
    """Events with links to their page and place."""
    found = list(events)
    rows: list[tuple[Any, ...]] = []
    for e in found:
        where = e.component or e.filesystem.removeprefix("mount:")
        rows.append((e.start_ns, e.end_ns, e.kind.replace("_", " "), where, e.label, e.strength_ratio))
    event_of = dict(zip(rows, found, strict=True))
    links = {
        "from": lambda row: place.link("/", **around_ns(row[0], row[1])),  # the overview at that time
        "where": lambda row: where_address(place, event_of[tuple(row)]),
    }
    columns = "from [time_ns]; to [time_ns]; kind; where; what; strength [factor]"
    return Listed.of(title, columns, rows, None, "No events recorded in this period.", "all", links)


def where_address(place: Place, event: EventOutcome) -> str:
    """The page of the component or file system at the time of an event; empty for a mount without one."""
    around = around_ns(event.start_ns, event.end_ns)
    if event.component:
        return place.to("components", event.component, **around)
    name = event.filesystem.removeprefix("mount:").split(" ")[0]
    return place.to("filesystems", name, **around) if name and not name.startswith("/") else ""


def around_ns(start_ns: int, end_ns: int | None) -> dict[str, str]:
    """Query parameters of a range that shows a period with some time before and after it."""
    length = max((end_ns or start_ns + 60 * MINUTE_NS) - start_ns, 30 * MINUTE_NS)
    low, high = start_ns - length, (end_ns or start_ns + length) + length
    return {"from": address_time(low), "to": address_time(high)}


def components_table(place: Place, components: Sequence[ComponentState]) -> Listed:
    """Servers or targets with what they moved."""
    columns = "target; server; read [bytes]; written [bytes]; share [ratio]; highest rate [bytes_per_s]"
    rows = [
        (c.component, c.server or "", c.read_bytes, c.write_bytes, c.bytes_ratio, c.most_bytes_per_s)
        for c in components
    ]
    return Listed.of("Targets", columns, rows, place, tools="all")


def where_to(place: Place, filesystem: str | None, facts: Answer) -> Iterator[tuple[str, str, str]]:
    """What the run belongs to, each with its page; the links show the time of the run."""
    result = facts.result
    if not isinstance(result, JobOutcome):
        return
    around = around_ns(result.start_ns, result.end_ns)
    for name in ("user", "project", "program"):
        if value := getattr(result, name):
            yield name, value, place.to(f"{name}s", value)
    if filesystem:
        yield "file system", filesystem, place.to("filesystems", filesystem, **around)
    took = f"{format_time_ns(result.start_ns)[:16]}, {format_seconds((result.end_ns - result.start_ns) / 1e9)}"
    yield "ran", took, place.link("/", **around)
    if result.processes:
        yield "processes", f"{result.processes:,}", ""
