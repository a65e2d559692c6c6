"""`check_study` and `check_question`: same data, same result, and an error of ours when there is too little data."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ioweather.core.contracts import ALL_TIME, Need, Param, Question, Study, StudyData
from ioweather.core.errors import IoweatherError
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame, Matrix, Text
from ioweather.core.results import Answer, Exhibit, exhibit_from_json, result_json
from ioweather.core.tables import LAKE_COLUMNS, METRICS, TABLES
from ioweather.lake.lake import Lake, open_lake
from ioweather.testing.source_checks import Problem, raise_if_any
from ioweather.topics.analyse import fetch
from ioweather.topics.parameters import resolve_params
from ioweather.topics.source import DataSource

Run = Callable[[StudyData, Facility, Mapping[str, Any]], Iterable[Exhibit]]


def data_for(study: Study, lake: Lake, **params: Any) -> tuple[StudyData, dict[str, Any]]:
    """What a command would give the study of this lake: its needs, and its parameters."""
    with ExitStack() as until:
        source = DataSource(lake, until)
        values = _values(study, source, params)
        return _held(fetch(source.snapshot, study.needs, values, ALL_TIME)), values


def _values(asked: Study | Question, source: DataSource, params: Mapping[str, Any]) -> dict[str, Any]:
    zone = source.facility.zone or "UTC"
    return resolve_params(asked.params, params, lambda: source.snapshot, lambda: zone)


def check_study(study: Study, data: StudyData, params: Mapping[str, Any], facility: Facility | None = None) -> None:
    """Everything that a study must do with its data (`data_for` fetches them from a lake). Raises `ChecksFailed`.

    - Names of needs, parameters and exhibits are there once; tables, columns and metrics exist.
    - It is pure: the same data give the same exhibits, and are not changed.
    - It gives the exhibits that it names, each once; they are valid JSON, come back from it, and pickle.
    - Without rows, with one row, and without what is optional, it gives exhibits, or an error of ours, or nothing.
    """

    problems = [*_declared(study.needs, study.params)]
    if repeated := _repeated(study.exhibits):
        problems.append(Problem("names", "exhibits", f"{', '.join(repeated)} is there twice"))
    problems += _pure(study.run, data, facility or Facility(), params)
    problems += _exhibits(study, data, facility or Facility(), params)
    problems += _little(study.run, study.needs, data, facility or Facility(), params)
    raise_if_any(f"study {study.name}", problems)


def check_question(question: Question, lake: Lake, **params: Any) -> None:
    """Everything that a question must do with a lake that can answer it. Raises `ChecksFailed`.

    - Names of parameters are there once, each has help; tables exist, and it reads no others with `source.frame`.
    - The same lake gives the same answer; it is valid JSON, pickles, and names of facts and findings are unique.
    - With one or two rows of each table, and of an empty lake, it gives an answer or an error of ours.
    """
    problems = [*_parameters(question.params)]
    problems += [Problem("tables", name, "there is no such table") for name in question.tables - set(TABLES)]
    problems += _answers(question, lake, params)
    with TemporaryDirectory() as folder:
        empty = open_lake(folder, create=True)
        for case, place, rows in (("no rows", empty, 0), ("one row", lake, 1), ("two rows", lake, 2)):
            try:
                problems += _result(_ask(question, place, params, rows)[0])
            except IoweatherError:
                continue
            except Exception as error:
                problems.append(_not_ours(case, error))
    raise_if_any(f"question {question.name}", problems)


class _Recorded(DataSource):
    """A source that records the tables that are read with `frame`, and cuts their rows."""

    most_rows: int | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.read: set[str] = set()

    def frame(self, table: str, *args: Any, **options: Any) -> Frame:
        self.read.add(table)
        found = super().frame(table, *args, **options)
        return found if self.most_rows is None else found.take(slice(self.most_rows))


def _ask(
    question: Question, lake: Lake, params: Mapping[str, Any], most_rows: int | None = None
) -> tuple[Answer, set[str]]:
    """The answer, and the tables that were read with `source.frame`."""
    with ExitStack() as until:
        source = _Recorded(lake, until)
        source.most_rows, source.tables = most_rows, question.tables
        return question.run(source, _values(question, source, params)), source.read


def _answers(question: Question, lake: Lake, params: Mapping[str, Any]) -> Iterator[Problem]:
    try:
        (first, read), (second, _) = (_ask(question, lake, params) for _ in range(2))
    except Exception as error:
        yield Problem("run", "the lake given", f"{type(error).__name__}: {error}")
        return
    if result_json(first) != result_json(second):
        yield Problem("pure", "the lake given", "run again, it gives something else")
    if undeclared := read - question.tables:
        yield Problem("tables", "the lake given", f"it reads {', '.join(sorted(undeclared))}, not in its `tables`")
    yield from _result(first)


def _declared(needs: Sequence[Need], params: Sequence[Param]) -> Iterator[Problem]:
    yield from _parameters(params)
    if repeated := _repeated(need.name for need in needs):
        yield Problem("names", "needs", f"{', '.join(repeated)} is there twice")
    for need in needs:
        if need.table not in TABLES:
            yield Problem("needs", need.name, f"there is no table {need.table}")
            continue
        lacking = [name for name in need.columns if name not in (*TABLES[need.table].names, *LAKE_COLUMNS)]
        lacking += [metric for metric in need.metrics if metric not in METRICS]
        if lacking:
            yield Problem("needs", need.name, f"{need.table} has no {', '.join(lacking)}")


def _parameters(params: Sequence[Param]) -> Iterator[Problem]:
    if repeated := _repeated(param.name for param in params):
        yield Problem("names", "parameters", f"{', '.join(repeated)} is there twice")
    yield from (Problem("help", param.name, "it does not say what it is") for param in params if not param.help)


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _pure(run: Run, data: StudyData, facility: Facility, params: Mapping[str, Any]) -> Iterator[Problem]:
    before = _fingerprint(data)
    try:
        first, second = ([result_json(made) for made in run(data, facility, params)] for _ in range(2))
    except Exception as error:
        yield Problem("run", "the data given", f"{type(error).__name__}: {error}")
        return
    if first != second:
        yield Problem("pure", "the data given", "run again, it gives something else")
    if _fingerprint(data) != before:
        yield Problem("pure", "the data given", "it changed the data")
    for made in run(data, facility, params):
        yield from _result(made)


def _result(made: Exhibit | Answer) -> Iterator[Problem]:
    name = made.id if isinstance(made, Exhibit) else made.name
    body = result_json(made)
    try:
        text = json.dumps(body, allow_nan=False)
    except (TypeError, ValueError) as error:
        yield Problem("JSON", name, str(error))
        return
    pickle.loads(pickle.dumps(made))
    if isinstance(made, Exhibit):
        if result_json(exhibit_from_json(json.loads(text))) != body:
            yield Problem("JSON", name, "read back, it is another exhibit")
        names = {"estimates": [e.name for e in made.estimates], "tables": [t.name for t in made.tables]}
    else:
        names = {"groups": [group.name for group in made.facts], "findings": [f.name for f in made.findings]}
        names |= {group.name: [fact.name for fact in group.facts] for group in made.facts}
    for what, listed in names.items():
        if repeated := _repeated(listed):
            yield Problem("names", f"{what} of {name}", f"{', '.join(repeated)} is there twice")


def _exhibits(study: Study, data: StudyData, facility: Facility, params: Mapping[str, Any]) -> Iterator[Problem]:
    try:
        made = [exhibit.id for exhibit in study.run(data, facility, params)]
    except Exception:
        return  # which _pure said
    if strange := set(made) - set(study.exhibits):
        yield Problem("exhibits", "the data given", f"{', '.join(sorted(strange))} is not among its exhibits")
    if repeated := _repeated(made):
        yield Problem("exhibits", "the data given", f"{', '.join(repeated)} comes twice")


def _little(
    run: Run, needs: Sequence[Need], data: StudyData, facility: Facility, params: Mapping[str, Any]
) -> Iterator[Problem]:
    optional = {need.name for need in needs if need.optional}
    cases = {
        "no rows": _shortened(data, 0),
        "one row": _shortened(data, 1),
        "two rows": _shortened(data, 2),
        "nothing optional": replace(
            data,
            frames={name: frame for name, frame in data.frames.items() if name not in optional},
            matrices={name: found for name, found in data.matrices.items() if name not in optional},
        ),
    }
    for name, less in cases.items():
        try:
            for made in run(less, facility, params):
                yield from _result(made)
        except IoweatherError:
            continue
        except Exception as error:
            yield _not_ours(name, error)


def _not_ours(case: str, error: Exception) -> Problem:
    return Problem("little", case, f"{type(error).__name__} instead of an error of ours or nothing: {error}")


def _shortened(data: StudyData, rows: int) -> StudyData:
    return replace(
        data,
        frames={name: frame.take(slice(rows)) for name, frame in data.frames.items()},
        matrices={
            need: {metric: matrix.stretch(0, min(rows, matrix.steps)) for metric, matrix in found.items()}
            for need, found in data.matrices.items()
        },
    )


def _held(data: StudyData) -> StudyData:
    """Matrices that read the lake when they are asked are read now: it may be gone when the checks run."""
    matrices = {
        need: {metric: matrix.stretch(0, matrix.steps) for metric, matrix in found.items()}
        for need, found in data.matrices.items()
    }
    return replace(data, matrices=matrices)


def _fingerprint(data: StudyData) -> list[Any]:
    frames = [(name, _bytes(frame)) for name, frame in data.frames.items()]
    matrices = [
        (need, metric, matrix.values.tobytes())
        for need, found in data.matrices.items()
        for metric, matrix in found.items()
        if isinstance(matrix, Matrix)
    ]
    return [frames, matrices]


def _bytes(frame: Frame) -> list[bytes]:
    return [np.ma.getdata(c.codes if isinstance(c, Text) else c).tobytes() for c in frame.values()]
