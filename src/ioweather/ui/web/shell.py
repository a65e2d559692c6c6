"""What every page is made with: the templates, the frame around a page, tables, parts that say what is missing.

Templates escape what they are given; only markup that was made by `figures` or by another template passes as it is.
No inline script and no inline style.
"""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from fastapi.responses import HTMLResponse
from markupsafe import Markup

from ioweather._version import __version__
from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.outcomes import ComponentState, EventOutcome, JobOutcome, RunOutcome
from ioweather.core.results import Answer, Chart, Exhibit, Items
from ioweather.core.units import MINUTE_NS, format_seconds, format_time_ns, format_value, shown_zone
from ioweather.job_io.job_page import NOT_SHOWN
from ioweather.ui.charts import Drawn, answer_section, provenance_html
from ioweather.ui.charts.chart_data import legible
from ioweather.ui.charts.page import figure_html, items_html, templates
from ioweather.ui.web.facilities import MAIN, Tell
from ioweather.ui.web.requests import presets, status_of
from ioweather.ui.web.visible import View

_TEMPLATES: Final = templates(Path(__file__).with_name("templates"))
CHART_PX: Final = 190  # the height of time lines that are side by side
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
    "Data": ("data", "sql", "api"),
}


class Html(HTMLResponse):
    """Names come from others: none of them may turn a page around."""

    def render(self, content: str | bytes) -> bytes:
        text = content.decode() if isinstance(content, bytes) else content
        return legible(text).encode()


@dataclass(frozen=True)
class Place:
    """Where the reader is: the view, and the page. Links stay in the facility and in the time range."""

    view: View
    path: str
    default_ns: int | None = None

    @property
    def kept(self) -> Mapping[str, str]:
        """Parameters besides the range that forms carry along."""
        return {} if self.view.name == MAIN else {"lake": self.view.name}

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
        chosen = next((name for name, _, is_chosen in self.presets if is_chosen), "")
        low, high = self.view.between
        return chosen or f"{low or 'start'} to {high or 'now'}"

    @property
    def titles(self) -> Mapping[str, str]:
        return {name: self.view.facilities.title(name) for name in self.view.facilities.lakes}

    @property
    def presets(self) -> list[tuple[str, str, bool]]:
        return [
            (name, self.link(self.path, **{"from": start, "to": ""}), chosen)
            for name, start, chosen in presets(self.view, self.default_ns)
        ]

    def link(self, path: str, /, **query: str) -> str:
        """What is empty in `query` is left out."""
        every = {**self.kept, **self.range, **query}
        text = urlencode({name: value for name, value in every.items() if value})
        return f"{path}{'&' if '?' in path else '?'}{text}" if text else path

    def to(self, kind: str, name: object, **query: str) -> str:
        """The page of a job, a user, a project, a program, a file system, a component, an event."""
        return self.link(f"/{kind}/{quote(str(name), safe='')}", **query) if name not in (None, "") else ""


def part(template: str, **values: Any) -> Markup:
    return Markup(_TEMPLATES.get_template(template).render(values))


def page(
    template: str, view: View, path: str, title: str, *, status: int = 200, default_ns: int | None = None, **values: Any
) -> Html:
    """`default_ns`: how much of the newest data is shown where the address has no range; None is all."""
    if view.name not in view.facilities.lakes:
        error = DataUnavailable("There is no such facility here.")
        view = replace(view, name=MAIN)
        template, title, status, values = "base.html", "No such facility", 404, {"body": problem(error)}
    place = Place(view, path, default_ns)
    return Html(part(template, place=place, title=title, navigation=NAVIGATION, version=__version__, **values), status)


def lazy_part(address: str, waiting: str) -> Markup:
    """A part that the browser fetches when it scrolls into view."""
    return Markup(_TEMPLATES.get_template("parts.html").module.lazy(address, waiting))  # type: ignore[attr-defined]


def problem(error: IoweatherError, heading: str = "") -> Markup:
    return part("problem.html", error=error, heading=heading)


class Cell(NamedTuple):
    """`value` is what a script sorts by."""

    text: str
    kind: str = ""
    link: str = ""
    value: float | str = ""


def headed(text: str) -> list[tuple[str, str]]:
    """Columns of a table from `name [unit]; ...`; without a unit, of text."""
    found = (each.strip().rstrip("]").partition(" [") for each in text.split(";"))
    return [(name, unit or "text") for name, _, unit in found]


def _no_link(row: Sequence[Any]) -> str:
    return ""


@dataclass(frozen=True)
class Listed:
    """A table: `columns` are names and units; `links` maps a column's name to the address that a row of it has."""

    title: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Any]]
    links: Mapping[str, Callable[[Sequence[Any]], str]] = field(default_factory=dict)
    empty: str = "None."
    tools: str = "all"  # or "brief": sorted only

    @property
    def heads(self) -> list[Cell]:
        return [Cell(self.columns[i][0], self._kinds[i]) for i in self._filled]

    @property
    def cells(self) -> list[list[Cell]]:
        shown = [
            (i, self.columns[i][1], self._kinds[i], self.links.get(self.columns[i][0], _no_link)) for i in self._filled
        ]
        return [
            [
                Cell(format_value(row[i], unit), kind, link(row), row[i] if kind and row[i] is not None else "")
                for i, unit, kind, link in shown
            ]
            for row in self.rows
        ]

    @cached_property
    def _filled(self) -> list[int]:
        """The first column, and those in which some row has a value."""
        return [i for i in range(len(self.columns)) if i == 0 or any(row[i] not in (None, "") for row in self.rows)]

    @cached_property
    def _kinds(self) -> list[str]:
        texts = [any(isinstance(row[i], (str, bool)) for row in self.rows) for i in range(len(self.columns))]
        known = {"time_ns": "time", "date": "time", "text": ""}
        return [known.get(unit, "" if text else "number") for (_, unit), text in zip(self.columns, texts, strict=True)]


def tables_part(*tables: Listed, notes: Sequence[str] = ()) -> Markup:
    return part("tables.html", tables=tables, notes=notes)


def failed(error: IoweatherError, heading: str = "") -> Html:
    """The error in the place of the part; missing data are not a failure of the page."""
    return Html(problem(error, heading), 200 if isinstance(error, DataUnavailable) else status_of(error))


def cached_part(heading: str = "") -> Callable[[Callable[..., str]], Callable[..., Html]]:
    """Turn a function `(view, **parameters) -> str` into a route whose result is cached until the lake changes.

    An error is shown in the place of the part, below `heading`, which may name parameters: "Job {job_id}".
    """

    def decorate(make: Callable[..., str]) -> Callable[..., Html]:
        @wraps(make)
        def respond(view: View, **parameters: Any) -> Html:
            key = (
                view.key,
                view.between,
                view.screen,
                view.width,
                make.__module__,
                make.__name__,
                tuple(parameters.items()),
            )
            try:
                return Html(view.facilities.answered(view.name, key, lambda: make(view, **parameters).encode()))
            except IoweatherError as error:
                return failed(error, heading.format(**parameters))

        # FastAPI reads the types of a route; as strings it would look for them in this module.
        respond.__signature__ = inspect.signature(make, eval_str=True)  # type: ignore[attr-defined]
        return respond

    return decorate


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


def figure(chart: Chart, name: str, drawn: Drawn, level: int = 3) -> Markup:
    """One chart in a panel, whose title the panel or the chart itself has."""
    return figure_html(chart, name, level, drawn, with_rows=False)


def items_part(place: Place, found: Items) -> Markup:
    """A list of a screen, each item with a link to its page."""
    return items_html(found, 2, lambda item: place.link(f"/{item.page}") if item.page else "")


def runs_table(place: Place, runs: Sequence[RunOutcome], title: str) -> Listed:
    columns = headed("""job; user; project; program; processes [count]; start [time_ns]; read [bytes]; written [bytes];
        I/O time [seconds]; × similar [factor]; verdict; ran [seconds]; log; cluster""")
    rows = [
        (
            str(r.job_id),
            r.user,
            r.project,
            r.program,
            r.processes,
            r.start_ns,
            r.read_bytes,
            r.write_bytes,
            r.io_seconds,
            r.slowness,
            r.verdict_words,
            r.run_seconds if r.known_by else None,
            r.log_words if r.known_by else "",
            r.cluster,
        )
        for r in runs
    ]
    links = {
        "job": lambda row: place.to("jobs", row[0], cluster=row[-1] or ""),
        "user": lambda row: place.to("users", row[1]),
        "project": lambda row: place.to("projects", row[2]),
        "program": lambda row: place.to("programs", row[3]),
    }
    empty = "No job matches. Choose a longer period, or ingest accounting and logs: ioweather ingest FILES"
    return Listed(title, columns, rows, links, empty)


def files_part(place: Place, exhibit: Exhibit, job_id: str) -> Markup:
    """The largest files of a job, with their pages; none of a log that was sent, and of a path that is not shown."""

    def address(row: Sequence[object]) -> str:
        has_page = job_id and row[0] != NOT_SHOWN
        return place.link(f"/jobs/{job_id}/file", path=str(row[0])) if has_page else ""

    tables = [
        Listed(t.title, [(c.heading, c.unit) for c in t.columns], t.rows, {"file": address}, tools="brief")
        for t in exhibit.tables
    ]
    return tables_part(*tables, notes=exhibit.caveats)


def events_table(place: Place, events: Iterable[EventOutcome], title: str, *, brief: bool = False) -> Listed:
    """`brief`: without the kind, for half a screen."""
    columns = headed("from [time_ns]; to [time_ns]; kind; where; what; strength [factor]")
    found = list(events)
    rows = [
        (
            e.start_ns,
            e.end_ns,
            e.kind.replace("_", " "),
            e.component or e.filesystem.removeprefix("mount:"),
            e.label,
            e.strength_ratio,
        )
        for e in found
    ]
    shown = (0, 1, 3, 4, 5) if brief else range(6)
    listed = [tuple(row[i] for i in shown) for row in rows]
    of_row = dict(zip(listed, found, strict=True))
    links = {
        "from": lambda row: event_address(place, of_row[tuple(row)]),
        "where": lambda row: where_address(place, of_row[tuple(row)]),
    }
    return Listed(
        title,
        [columns[i] for i in shown],
        listed,
        links,
        "No events recorded in this period.",
        "brief" if brief else "all",
    )


def event_address(place: Place, event: EventOutcome) -> str:
    """The page of the event; of one without an id (a maintenance window), its time on the overview."""
    around = around_ns(event.start_ns, event.end_ns)
    return place.to("events", event.event_id, **around) or place.link("/", **around)


def where_address(place: Place, event: EventOutcome) -> str:
    if event.component:
        return place.to("components", event.component)
    name = event.filesystem.removeprefix("mount:").split(" ")[0]
    return place.to("filesystems", name) if name and not name.startswith("/") else ""


def around_ns(start_ns: int, end_ns: int | None) -> dict[str, str]:
    """Query parameters of a range that shows a period with some time before and after it."""
    length = max((end_ns or start_ns + 60 * MINUTE_NS) - start_ns, 30 * MINUTE_NS)
    low, high = start_ns - length, (end_ns or start_ns + length) + length
    return {name: minute_text(moment) for name, moment in (("from", low), ("to", high))}


def minute_text(moment_ns: int) -> str:
    text = format_time_ns(moment_ns // MINUTE_NS * MINUTE_NS, dt.UTC)
    return f"{text[:10]}T{text[11:16]}Z"


def components_table(place: Place, components: Sequence[ComponentState]) -> Listed:
    columns = headed("target; server; read [bytes]; written [bytes]; share [ratio]; highest rate [bytes_per_s]")
    rows = [
        (c.component, c.server or "", c.read_bytes, c.write_bytes, c.bytes_ratio, c.most_bytes_per_s)
        for c in components
    ]
    links = {"target": lambda row: place.to("components", row[0]), "server": lambda row: place.to("components", row[1])}
    return Listed("Targets", columns, rows, links)


def where_to(place: Place, filesystem: str | None, facts: Answer) -> Iterator[tuple[str, str, str]]:
    """What the run belongs to, each with its page; the links show the time of the run."""
    result = facts.result
    if not isinstance(result, JobOutcome):
        return
    around = around_ns(result.start_ns, result.end_ns)
    if result.user:
        yield "user", result.user, place.to("users", result.user)
    if result.project:
        yield "project", result.project, place.to("projects", result.project)
    if result.program:
        yield "program", result.program, place.to("programs", result.program)
    if filesystem:
        yield "file system", filesystem, place.to("filesystems", filesystem, **around)
    took = f"{format_time_ns(result.start_ns)[:16]}, {format_seconds((result.end_ns - result.start_ns) / 1e9)}"
    yield "ran", took, place.link("/", **around)
    if result.processes:
        yield "processes", f"{result.processes:,}", ""
