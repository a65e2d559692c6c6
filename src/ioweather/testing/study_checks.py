"""`check_study` and `check_question`: same data, same result, and an error of ours when there is too little data."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ioweather.core.contracts import ALL_TIME, Param, Question, Study, StudyData
from ioweather.core.errors import IoweatherError
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame, Text
from ioweather.core.results import Answer, Exhibit, exhibit_from_json, result_json
from ioweather.core.tables import TABLES
from ioweather.lake.lake import Lake, open_lake
from ioweather.testing.source_checks import raise_if_any
from ioweather.topics.analyse import fetch
from ioweather.topics.parameters import resolve_params
from ioweather.topics.source import DataSource


def data_for(study: Study, lake: Lake, **params: Any) -> tuple[StudyData, dict[str, Any]]:
    """What a command would give the study of this lake: its needs, and its parameters."""
    with ExitStack() as until:
        source = DataSource(lake, until)
        values = _values(study, source, params)
        # Matrices read the lake when they are asked, and it may be gone when the checks run.
        return _shortened(fetch(source.snapshot, study.needs, values, ALL_TIME), None), values


def _values(asked: Study | Question, source: DataSource, params: Mapping[str, Any]) -> dict[str, Any]:
    zone = source.facility.zone or "UTC"
    return resolve_params(asked.params, params, lambda: source.snapshot, lambda: zone)


def check_study(study: Study, data: StudyData, params: Mapping[str, Any], facility: Facility | None = None) -> None:
    """Check everything that a study must do with its data (`data_for` fetches them). Raises `ChecksFailed`.

    - Names of needs, parameters and exhibits are unique, and each parameter has help.
    - It is pure: the same data give the same exhibits, and are not changed.
    - It gives the exhibits that it names, each once; they are valid JSON, come back from it, and pickle.
    - Without rows, with one or two rows, and without what is optional, it gives exhibits, an error of ours, or nothing.
    """

    def run(given: StudyData) -> list[Exhibit]:
        return list(study.run(given, facility or Facility(), params))

    problems = [*_unique("needs", [need.name for need in study.needs]), *_unique("exhibits", study.exhibits)]
    problems += _parameters(study.params)
    before = _content(data)
    try:
        first, second = run(data), run(data)
    except Exception as error:
        problems.append(f"run, the data given: {type(error).__name__}: {error}")
    else:
        if [*map(result_json, first)] != [*map(result_json, second)]:
            problems.append("pure, the data given: run again, it gives something else")
        if _content(data) != before:
            problems.append("pure, the data given: it changed the data")
        names = [exhibit.id for exhibit in first]
        problems += _unique("exhibits", names)
        problems += [f"exhibits, {name}: it is not among its exhibits" for name in {*names} - {*study.exhibits}]
        for exhibit in first:
            problems += _result(exhibit)
    optional = {need.name for need in study.needs if need.optional}
    cases = {f"{rows} rows": _shortened(data, rows) for rows in range(3)}
    cases["nothing optional"] = replace(
        data,
        frames={name: frame for name, frame in data.frames.items() if name not in optional},
        matrices={name: found for name, found in data.matrices.items() if name not in optional},
    )
    for case, less in cases.items():
        try:
            for exhibit in run(less):
                problems += _result(exhibit)
        except IoweatherError:
            continue
        except Exception as error:
            problems.append(_foreign_error(case, error))
    raise_if_any(f"study {study.name}", problems)


def check_question(question: Question, lake: Lake, **params: Any) -> None:
    """Check everything that a question must do with a lake that can answer it. Raises `ChecksFailed`.

    - Names of parameters are unique, each has help; tables exist, and it reads no others with `source.frame`.
    - The same lake gives the same answer; it is valid JSON, pickles, and names of facts and findings are unique.
    - With one or two rows of each table, and of an empty lake, it gives an answer or an error of ours.
    """
    problems = [*_parameters(question.params)]
    problems += [f"tables, {name}: there is no such table" for name in question.tables - set(TABLES)]
    try:
        (first, read), (second, _) = (_ask(question, lake, params) for _ in range(2))
    except Exception as error:
        problems.append(f"run, the lake given: {type(error).__name__}: {error}")
    else:
        if result_json(first) != result_json(second):
            problems.append("pure, the lake given: run again, it gives something else")
        problems += [f"tables, the lake given: it reads {name}, not in its `tables`" for name in read - question.tables]
        problems += _result(first)
    with TemporaryDirectory() as folder:
        empty = open_lake(folder, create=True)
        for rows, place in enumerate((empty, lake, lake)):
            try:
                problems += _result(_ask(question, place, params, rows)[0])
            except IoweatherError:
                continue
            except Exception as error:
                problems.append(_foreign_error(f"{rows} rows", error))
    raise_if_any(f"question {question.name}", problems)


class _Recorded(DataSource):
    """A source that records the tables that are read with `frame`, and cuts their rows."""

    def __init__(self, lake: Lake, until: ExitStack, most_rows: int | None) -> None:
        super().__init__(lake, until)
        self.most_rows = most_rows
        self.read: set[str] = set()

    def frame(self, table: str, *args: Any, **options: Any) -> Frame:
        self.read.add(table)
        return super().frame(table, *args, **options).take(slice(self.most_rows))


def _ask(
    question: Question, lake: Lake, params: Mapping[str, Any], most_rows: int | None = None
) -> tuple[Answer, set[str]]:
    """The answer, and the tables that were read with `source.frame`."""
    with ExitStack() as until:
        source = _Recorded(lake, until, most_rows)
        source.tables = question.tables
        return question.run(source, _values(question, source, params)), source.read


def _parameters(params: Iterable[Param]) -> Iterator[str]:
    listed = list(params)
    yield from _unique("parameters", [param.name for param in listed])
    yield from (f"help, {param.name}: it does not say what it is" for param in listed if not param.help)


def _unique(what: str, names: Iterable[str]) -> Iterator[str]:
    yield from (f"names, {what}: {name} is there twice" for name, count in Counter(names).items() if count > 1)


def _result(made: Exhibit | Answer) -> Iterator[str]:
    name = made.id if isinstance(made, Exhibit) else made.name
    try:
        text = json.dumps(result_json(made), allow_nan=False)
    except (TypeError, ValueError) as error:
        yield f"JSON, {name}: {error}"
        return
    pickle.loads(pickle.dumps(made))
    if isinstance(made, Exhibit):
        if result_json(exhibit_from_json(json.loads(text))) != result_json(made):
            yield f"JSON, {name}: read back, it is another exhibit"
        yield from _unique(f"estimates of {name}", [estimate.name for estimate in made.estimates])
        yield from _unique(f"tables of {name}", [table.name for table in made.tables])
    else:
        yield from _unique(f"groups of {name}", [group.name for group in made.facts])
        yield from _unique(f"findings of {name}", [finding.name for finding in made.findings])
        for group in made.facts:
            yield from _unique(f"{group.name} of {name}", [fact.name for fact in group.facts])


def _foreign_error(case: str, error: Exception) -> str:
    return f"little, {case}: {type(error).__name__} instead of an error of ours or nothing: {error}"


def _shortened(data: StudyData, rows: int | None) -> StudyData:
    """The first rows and steps, in memory; all of them for None."""
    return replace(
        data,
        frames={name: frame.take(slice(rows)) for name, frame in data.frames.items()},
        matrices={
            need: {
                metric: matrix.stretch(0, matrix.steps if rows is None else min(rows, matrix.steps))
                for metric, matrix in found.items()
            }
            for need, found in data.matrices.items()
        },
    )


def _content(data: StudyData) -> list[bytes]:
    """The bytes of all columns."""
    columns = [column for frame in data.frames.values() for column in frame.values()]
    return [np.ma.getdata(c.codes if isinstance(c, Text) else c).tobytes() for c in columns]
