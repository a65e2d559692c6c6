"""The public functions over a lake: what the commands do, for programs and notebooks."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeAlias

from ioweather.core.contracts import Param, Question, ReadContext
from ioweather.core.errors import UsageError
from ioweather.core.results import Answer, Exhibit, ResultColumn, ResultTable
from ioweather.core.units import parse_duration_ns, parse_time_ns, zone_named
from ioweather.ingestion.ingest import IngestReport, ingest_server, is_address
from ioweather.ingestion.ingest import ingest as ingest_files
from ioweather.ingestion.mappings import own_mapping, read_select_text
from ioweather.lake.lake import Lake, lake_at
from ioweather.lake.sandbox import SqlResult
from ioweather.readers.prometheus.server import PrometheusServer
from ioweather.simulate.generate import generate
from ioweather.simulate.ingest_simulated import ingest_simulated
from ioweather.simulate.presets import for_days, preset_named
from ioweather.topics.analyse import availability, make_exhibits
from ioweather.topics.catalogue import QUESTIONS, TITLES
from ioweather.topics.source import ask, period_between, zone_of
from ioweather.ui.charts.page import fragment_html
from ioweather.ui.report import write

AnyLake: TypeAlias = Lake | str | os.PathLike[str] | None


def ingest(
    *paths: str | os.PathLike[str],
    lake: AnyLake = None,
    source: str | None = None,
    zone: str | None = None,
    start: str | int | None = None,
    interval: str | int | None = None,
    host: str | None = None,
    system: str | None = None,
    cluster: str | None = None,
    raw: bool = False,
    table: str | None = None,
    select: str | os.PathLike[str] | None = None,
) -> IngestReport:
    """Read files, directories and servers into the lake, like `ioweather ingest`. A missing lake is created.

    Files are recognised by content, or read as `source`. `zone`, `start` (a time, or ns), `interval` (such as '5s',
    or ns), `host`, `system` and `cluster` are for values that the files do not contain. Bad files are listed in the
    report and raise no error. CSV, JSON and Parquet files are read into `table` with a SELECT from a file or one
    shipped with ioweather (`select`).

    >>> import ioweather
    >>> report = ioweather.ingest("iostat.log", lake="my-lake", zone="UTC", host="oss1")
    >>> report
    <IngestReport: 1 read, 0 known, 0 refused; 84 rows of series>
    """
    opened = lake_at(lake, create=True)
    facility = opened.facility
    named = zone or facility.zone
    where = zone_named(named) if named else None
    context = ReadContext(
        zone=where,
        start_ns=parse_time_ns(start, where) if isinstance(start, str) else start,
        interval_ns=parse_duration_ns(interval) if isinstance(interval, str) else interval,
        host=host,
        system=system,
        cluster=cluster or (facility.clusters[0] if len(facility.clusters) == 1 else None),
        keep_raw=raw,
        mapping=own_mapping(opened.root),
    )
    addresses = [str(path) for path in paths if is_address(str(path))]
    files = [Path(path) for path in paths if str(path) not in addresses]
    if (table is None) != (select is None):
        raise UsageError("`table` and `select` must be used together.", hint="See docs/how-to/any-csv.md.")
    into = (table, read_select_text(Path(select))) if table and select else None
    report = ingest_files(opened, files, context=context, source=source, select=into)
    for address in addresses:
        report.add(ingest_server(opened, PrometheusServer.from_url(address), context))
    return report


def exhibits(lake: AnyLake = None) -> ResultTable:
    """All exhibits, and whether this lake has their data: columns id, title, study, ready, missing.

    >>> import ioweather
    >>> ioweather.exhibits("my-lake").to_polars().columns
    ['id', 'title', 'study', 'ready', 'missing']
    """
    with lake_at(lake).snapshot() as snapshot:
        found = availability(snapshot, plugins=True)
    columns = tuple(map(ResultColumn, ("id", "title", "study", "ready", "missing")))
    rows = tuple((item.id, item.title, item.study, item.ready, "; ".join(item.missing)) for item in found)
    return ResultTable("exhibits", columns, rows, "Exhibits, and what this lake lacks for them")


def sql(
    query: str, lake: AnyLake = None, *, rows: int = 10_000, seconds: float = 30.0, memory: str = "1GiB"
) -> SqlResult:
    """Run one SELECT or EXPLAIN in DuckDB SQL on the lake's tables, with limits on rows, time and memory.

    >>> import ioweather
    >>> ioweather.sql("SELECT metric, count(*) AS n FROM series GROUP BY metric ORDER BY 1 LIMIT 1", "my-lake").rows
    (('await_seconds', 7),)
    """
    return lake_at(lake).sql(query, rows=rows, seconds=seconds, memory=memory)


def show(exhibit_id: str, lake: AnyLake = None, **params: Any) -> ShownExhibit:
    """Compute an exhibit from the lake (default: the user's own lake). Keyword arguments are the study's parameters.

    A notebook draws the exhibit. `.tables`, `.estimates` and `.charts` contain its data, and each table has
    `.to_pandas()`.
    """
    typed = {name: str(value) for name, value in params.items()}
    (made,) = make_exhibits(lake_at(lake), [exhibit_id], params=typed)
    return ShownExhibit(**{field.name: getattr(made, field.name) for field in fields(Exhibit)})


def simulate_facility(
    out: str | os.PathLike[str], *, preset: str = "laptop", days: int | None = None, seed: int = 1
) -> Lake:
    """Create a synthetic facility: files in the formats of real tools in `out`, and their lake in `out`/lake.

    The planted causes are in `out`/truth.json. `ioweather simulate --list` lists the presets.
    """
    chosen = preset_named(preset)
    made = generate(for_days(chosen, days) if days else chosen, Path(out), seed=seed)
    return ingest_simulated(made, Path(out) / "lake")


def write_report(out: str | os.PathLike[str], lake: AnyLake = None, *, audience: write.Audience = "science") -> Path:
    """Write a report as one self-contained HTML file and return its path.

    `audience`: "director" is one page, "operator" adds a second page, and "science" adds all exhibits.
    """
    write.write_report(lake_at(lake), Path(out), audience=audience)
    return Path(out)


class ShownExhibit(Exhibit):
    """An Exhibit that notebooks show as a page."""

    def _repr_html_(self) -> str:
        return fragment_html(self)


class ShownAnswer(Answer):
    """An Answer that notebooks show as a page."""

    @property
    def table(self) -> ResultTable:
        """The table of a list answer (jobs, events, incidents, ...), otherwise its facts.

        >>> import ioweather
        >>> list(ioweather.health("my-lake").table.to_polars().columns[:3])
        ['start_ns', 'end_ns', 'component']
        """
        wanted = QUESTIONS[self.name].table if self.name in QUESTIONS else ""
        tables = [table for exhibit in self.exhibits for table in exhibit.tables]
        for found in (table for table in tables if table.name == wanted):
            return found
        facts = [
            (group.name, fact.name, None if fact.value is None else str(fact.value), fact.unit, fact.note)
            for group in self.facts
            for fact in group.facts
        ]
        return ResultTable.of("facts", "group [text]; fact [text]; value [text]; unit [text]; note [text]", facts)

    def to_pandas(self) -> Any:
        """`table` as a pandas.DataFrame; times are datetimes in UTC. pandas must be installed."""
        return self.table.to_pandas()

    def to_polars(self) -> Any:
        """`table` as a polars.DataFrame; times are nanoseconds since 1970. polars must be installed."""
        return self.table.to_polars()

    def _repr_html_(self) -> str:
        return fragment_html(self)


def shown(answer: Answer) -> ShownAnswer:
    """Return the answer with methods for notebooks and data frames."""
    return ShownAnswer(**{field.name: getattr(answer, field.name) for field in fields(Answer)})


def function_of(name: str) -> Callable[..., Answer]:
    """Return the question as a function. Its arguments are the question's parameters, `lake`, `start` and `end`."""
    question = QUESTIONS[name]
    arguments = signature_of(question)

    def asked(*args: Any, **kwargs: Any) -> Answer:
        bound = dict(arguments.bind(*args, **kwargs).arguments)
        first = [param.name for param in question.params if param.required]
        if first and question.params[0].many:
            bound[first[0]] = tuple(bound[first[0]])
        lake, start, end = (bound.pop(key, None) for key in ("lake", "start", "end"))
        return shown(ask(name, lake, bound, period_ns=period_between(start, end, lambda: zone_of(lake))))

    asked.__name__ = asked.__qualname__ = name
    lines = [*inspect.cleandoc(question.help or TITLES[question.name]).splitlines(), "", "Parameters"]
    lines += [f"- {param.name}: {param.help}" for param in question.params]
    lines.append("- lake: a Lake or its directory (default: your own)")
    lines += ["- start, end: only this period; text such as '2026-11-15' or '7d', or ns"] if question.period else []
    lines += ["", f"Returns an Answer; `.result` is a {question.result.__name__}, and `.to_pandas()` returns its rows."]
    asked.__doc__ = "\n".join(lines)
    asked.__signature__ = arguments  # type: ignore[attr-defined]
    return asked


def signature_of(question: Question) -> inspect.Signature:
    """Return the signature of a question's function."""
    parameters = [_argument(param) for param in question.params]
    parameters.append(_keyword("lake", "Lake | str | os.PathLike[str] | None"))
    if question.period:
        parameters += [_keyword(name, "str | int | None") for name in ("start", "end")]
    return inspect.Signature(parameters, return_annotation="Answer")


_KINDS = {
    "text": "str",
    "int": "int",
    "float": "float",
    "duration": "str | int",
    "size": "str | int",
    "flag": "bool",
    "time": "str | int",
}


def _argument(param: Param) -> inspect.Parameter:
    """A parameter of a question as an argument: required ones by position, others by keyword."""
    kind = f"Literal[{', '.join(map(json.dumps, param.choices))}]" if param.choices else _KINDS[param.kind]
    if param.required and param.many:
        return inspect.Parameter(param.name, inspect.Parameter.VAR_POSITIONAL, annotation="str | os.PathLike[str]")
    if param.required:
        annotation = kind if param.kind != "text" else "str | int | os.PathLike[str]"
        return inspect.Parameter(param.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation)
    if param.positional:
        annotation = "str | int | os.PathLike[str] | None"
        return inspect.Parameter(
            param.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation
        )
    if param.many:
        return _keyword(param.name, "Sequence[str | os.PathLike[str]]", ())
    return _keyword(param.name, kind if param.default is not None else f"{kind} | None", param.default)


def _keyword(name: str, annotation: str, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
