"""What every page is made with: the templates, the frame around a page, tables, parts that say what is missing.

Templates escape what they are given; only markup that was made by `figures` or by another template passes as it is.
No inline script and no inline style.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ioweather._version import __version__
from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.units import format_value
from ioweather.ui.charts.chart_data import legible
from ioweather.ui.charts.page import prose
from ioweather.ui.web.facilities import MAIN
from ioweather.ui.web.ranges import presets
from ioweather.ui.web.topics import TOPICS
from ioweather.ui.web.visible import View

_TEMPLATES: Final = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["unit"] = format_value
_TEMPLATES.filters["prose"] = lambda text: Markup(prose(text))
CHART_PX: Final = 190  # the height of time lines that stand side by side
NAVIGATION: Final = (
    ("/", "Overview"),
    ("/now", "Now"),
    ("/who", "Who"),
    ("/job", "Jobs"),
    ("/events", "Events"),
    *((f"/{topic.slug}", topic.title) for topic in TOPICS),
    ("/exhibits", "Exhibits"),
    ("/sql", "SQL"),
)


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
        """What forms carry along beside the range."""
        return {} if self.view.name == MAIN else {"lake": self.view.name}

    @property
    def range(self) -> Mapping[str, str]:
        return {name: text for name, text in zip(("from", "to"), self.view.between, strict=True) if text}

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
    """What is fetched when somebody comes to it."""
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
        return [Cell(name, kind) for (name, _), kind in zip(self.columns, self._kinds, strict=True)]

    @property
    def cells(self) -> list[list[Cell]]:
        links = [self.links.get(name, _no_link) for name, _ in self.columns]
        units = [unit for _, unit in self.columns]
        return [
            [
                Cell(format_value(cell, unit), kind, link(row), cell if kind and cell is not None else "")
                for cell, unit, kind, link in zip(row, units, self._kinds, links, strict=True)
            ]
            for row in self.rows
        ]

    @cached_property
    def _kinds(self) -> list[str]:
        texts = [any(isinstance(row[i], (str, bool)) for row in self.rows) for i in range(len(self.columns))]
        known = {"time_ns": "time", "date": "time", "text": ""}
        return [known.get(unit, "" if text else "number") for (_, unit), text in zip(self.columns, texts, strict=True)]


def tables_part(*tables: Listed, notes: Sequence[str] = ()) -> Markup:
    return part("tables.html", tables=tables, notes=notes)
