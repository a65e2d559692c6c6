"""`check_study` and `check_question`: pure functions of their data, honest when there is little of it."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ioweather.core.contracts import Need, Param, Question, Study, StudyData
from ioweather.core.errors import IoweatherError
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame, Matrix, Text
from ioweather.core.results import Answer, Exhibit, exhibit_from_json, result_json
from ioweather.core.tables import LAKE_COLUMNS, METRICS, TABLES
from ioweather.testing.problems import Problem, raise_if_any

if TYPE_CHECKING:
    from ioweather.lake.lake import Lake

Run = Callable[[StudyData, Facility, Mapping[str, Any]], Iterable[Exhibit | Answer]]


class Answering(Protocol):
    """A question: what it needs, its parameters, and the function that answers it."""

    @property
    def name(self) -> str: ...
    @property
    def needs(self) -> tuple[Need, ...]: ...
    @property
    def params(self) -> tuple[Param, ...]: ...
    @property
    def answer(self) -> Callable[[StudyData, Facility, Mapping[str, Any]], Answer]: ...


def data_for(asked: Study | Question, lake: Lake, **params: Any) -> tuple[StudyData, dict[str, Any]]:
    """What a command would give the study or question of this lake: its needs, and its parameters."""
    from ioweather.lake.place import Place
    from ioweather.topics.analyse import ALL_TIME, fetch
    from ioweather.topics.parameters import resolve_params
    from ioweather.topics.resolve import Request, resolve

    with ExitStack() as until:
        place = Place(lake, until)
        zone = place.facility.zone or "UTC"
        values = resolve_params(asked.params, params, lambda: place.snapshot, lambda: zone)
        if isinstance(asked, Question):
            return _held(resolve(asked, Request(place, values, ALL_TIME))), values
        return _held(fetch(place.snapshot, asked.needs, values, ALL_TIME)), values


def check_study(study: Study, data: StudyData, params: Mapping[str, Any], facility: Facility | None = None) -> None:
    """Everything that a study must do with its data (`data_for` fetches them from a lake). Raises `ChecksFailed`.

    - Names of needs, parameters and exhibits are there once; tables, columns and metrics exist.
    - It is pure: the same data give the same exhibits, and are not changed.
    - It gives the exhibits that it names, each once; they are valid JSON, come back from it, and pickle.
    - Without rows, with one row, and without what is optional, it gives exhibits, or an error of ours, or nothing.
    """

    def run(given: StudyData, place: Facility, values: Mapping[str, Any]) -> Iterable[Exhibit]:
        return study.run(given, place, values)

    problems = [*_declared(study.needs, study.params)]
    if repeated := _repeated(study.exhibits):
        problems.append(Problem("names", "exhibits", f"{', '.join(repeated)} is there twice"))
    problems += _pure(run, data, facility or Facility(), params)
    problems += _exhibits(study, data, facility or Facility(), params)
    problems += _little(run, study.needs, data, facility or Facility(), params)
    raise_if_any(f"study {study.name}", problems)


def check_question(
    question: Answering, data: StudyData, params: Mapping[str, Any], facility: Facility | None = None
) -> None:
    """The same of a question: one answer, pure, valid JSON, names of facts and findings unique, honest without data."""

    def run(given: StudyData, place: Facility, values: Mapping[str, Any]) -> Iterable[Answer]:
        return [question.answer(given, place, values)]

    problems = [*_declared(question.needs, question.params)]
    problems += _pure(run, data, facility or Facility(), params)
    problems += _little(run, question.needs, data, facility or Facility(), params)
    raise_if_any(f"question {question.name}", problems)


def _declared(needs: Sequence[Need], params: Sequence[Param]) -> Iterator[Problem]:
    for what, names in (("needs", [n.name for n in needs]), ("parameters", [p.name for p in params])):
        if repeated := _repeated(names):
            yield Problem("names", what, f"{', '.join(repeated)} is there twice")
    for need in needs:
        if not need.table:
            continue
        if need.table not in TABLES:
            yield Problem("needs", need.name, f"there is no table {need.table}")
            continue
        lacking = [name for name in need.columns if name not in (*TABLES[need.table].names, *LAKE_COLUMNS)]
        lacking += [metric for metric in need.metrics if metric not in METRICS]
        if lacking:
            yield Problem("needs", need.name, f"{need.table} has no {', '.join(lacking)}")
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
            yield Problem("little", name, f"{type(error).__name__} instead of an error of ours or nothing: {error}")


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
